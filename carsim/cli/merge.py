"""``carsim merge``: join the folders of shards, or of sweeps of one study."""

import shlex
from pathlib import Path
from typing import Any

import click

from carsim.base.text import count
from carsim.cli.console import say, show_json
from carsim.cli.options import JSON, command_of, plugin_options


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True)
@click.option("--out", metavar="NEW", required=True, help="Folder of the joined results.")
@JSON
def merge(folders: tuple[str, ...], out: str, as_json: bool) -> int | None:
    """Join the results of several folders of one study into the folder NEW.

    Each DIR is the folder of a shard (carsim sweep --shard), or of a whole sweep of the study. The
    folders are only read. Results that differ, other code, and another study or seed are refused.
    Failed points are kept, and the exit status is 1 if there are any. carsim sweep with --out NEW
    evaluates points that have failed or are missing.
    """
    from carsim.cli.report import completeness
    from carsim.explore.frame import export
    from carsim.explore.merge import merge as join
    from carsim.explore.merge import merged_manifest
    from carsim.explore.store import open_store
    from carsim.report.stored_study import StoredStudy

    joined = join(folders, out)
    ctx = click.get_current_context()
    merged_manifest(folders, Path(out), command_of(ctx, ctx.params, ["as_json"]))
    with open_store(out) as store:
        study = StoredStudy.of(store)
        files = export(study.frame, out, store=store)
    status = 1 if study.counts["failed"] else None
    if as_json:
        document: dict[str, Any] = {"study": study.name, "points": joined.stored, **study.counts}
        document |= {"repeated": joined.repeated, "missing_shards": list(joined.missing)}
        show_json(document | {"folder": out, "files": files} | completeness(study))
        return status
    say(f"{study.name}: {count(joined.stored, 'point')} of {joined.points:,}; {study.outcome}")
    if joined.repeated:
        say(f"{count(joined.repeated, 'result')} in several folders, all equal")
    if joined.missing:
        say(f"Missing: {', '.join(joined.missing)}")
    if joined.stored < joined.points and study.is_part and not study.is_proven:
        left = count(joined.points - joined.stored, "point")
        folder = shlex.quote(out)
        say(f"To evaluate the other {left}: carsim sweep STUDY --out {folder}{plugin_options()}")
    say(f"Written to {out}: {', '.join(files)}")
    return status
