"""``carsim validate array``: the compute array against what other simulators count."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from carsim.validate.array import Check


@click.command(short_help="The compute array against other simulators.")
@click.option(
    "--every",
    is_flag=True,
    help="Show each of SCALE-Sim's products, not a line per dataflow.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def array(every: bool, as_json: bool) -> None:
    """Compare the array with what other simulators count; fail if a stated bound is left.

    Exit status 1 if one is.
    """
    from carsim.validate.array import peer_checks, scalesim_checks

    peers, products = peer_checks(), scalesim_checks()
    checks = [*peers, *products]
    if as_json:
        click.echo(json.dumps([_record(check) for check in checks], indent=2))
    else:
        _show(peers, products, every)
    if not all(check.holds for check in checks):
        raise click.exceptions.Exit(1)


def _record(check: "Check") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(check) | {
        "error": check.error,
        "naive_error": check.naive_error,
        "holds": check.holds,
    }


def _show(peers: Sequence["Check"], products: Sequence["Check"], every: bool) -> None:
    from carsim.cli.console import output_console, show
    from carsim.validate.peers import PEERS

    parts: list[Any] = [
        _table("Decode matrices of LLaMA-2-7B, int8, on arrays of 32 x 32 (cycles)", peers),
        *(f"{peer.title}: {peer.charges}." for peer in PEERS.values()),
        "",
    ]
    if every:
        parts.append(_table("Small products, SCALE-Sim 3 (cycles)", products))
    parts.append(_summary(products))
    wrong = [check for check in (*peers, *products) if not check.holds]
    beaten = [check for check in peers if abs(check.error) < abs(check.naive_error)]
    parts.append(
        f"{len(peers) + len(products) - len(wrong)} of {len(peers) + len(products)} figures within "
        f"their bounds. The naive rival is bytes over bandwidth; among the peers' rows carsim is "
        f"nearer in {len(beaten)} of {len(peers)}, and as near to 0.01 % where a peer's own rule "
        "is bytes over bandwidth."
    )
    parts.extend(f"LEFT ITS BOUND: {check.peer}, {check.work}" for check in wrong)
    show(output_console(), parts)


def _table(title: str, checks: Sequence["Check"]) -> "Table":
    from rich import box
    from rich.table import Table

    from carsim.text import number

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    table.add_column("simulator", no_wrap=True)
    table.add_column("work")
    for name in ("carsim", "reference", "error", "bound", "naive", "its error"):
        table.add_column(name, justify="right", no_wrap=True)
    for check in checks:
        table.add_row(
            check.peer,
            check.work,
            number(check.carsim_cycles),
            number(check.reference_cycles),
            f"{check.error:+.2%}",
            f"{check.bound:.0%}" if check.bound else "exact",
            number(check.naive_cycles),
            f"{check.naive_error:+.1%}",
        )
    return table


def _summary(products: Sequence["Check"]) -> "Table":
    from rich import box
    from rich.table import Table

    from carsim.text import percent

    title = "Small products on 4 x 4 to 32 x 32, SCALE-Sim 3: largest and mean difference"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for name in ("simulator", "products", "carsim largest", "naive mean"):
        table.add_column(name, justify="left" if name == "simulator" else "right")
    for peer in dict.fromkeys(check.peer for check in products):
        own = [check for check in products if check.peer == peer]
        table.add_row(
            peer,
            str(len(own)),
            percent(max(abs(check.error) for check in own)),
            percent(sum(abs(check.naive_error) for check in own) / len(own)),
        )
    return table
