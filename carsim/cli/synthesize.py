"""``carsim trace synthesize``: a trace of decisions that are drawn, not captured."""

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click


def _number(name: str, kind: type, text: str) -> click.Option:
    return click.Option([f"--{name.replace('_', '-')}"], type=kind, metavar="X", help=text)


_OF_THE_VIDEO = (
    _number("frames", int, "Frames T, at least 2."),
    _number("tokens_per_frame", int, "Tokens N of a frame."),
    _number("pairs", int, "Guidance pairs, of two rows each."),
    _number("layers", int, "Layers L, as many as the simulated model has."),
    _number("prompt_tokens", int, "Tokens of every prompt."),
)
_ASSUMED = (
    _number("dip", float, "Logits of replay by which the middle layer lies below both ends."),
    _number("within_pair", float, "Correlation of the rows of a guidance pair."),
    _number("across_clips", float, "Correlation of rows of different pairs."),
    _number("across_layers", float, "Correlation of two layers."),
    _number("persistence", float, "Correlation with the same place one frame before."),
    _number("lasting", float, "The same, many frames before."),
)


@click.command(params=[*_OF_THE_VIDEO, *_ASSUMED])
@click.option(
    "--ratio",
    type=float,
    required=True,
    help="Share of the eligible steps (those after the first frame) that replay.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all draws.")
@click.option(
    "--like",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Captured trace whose video and correlations to take, before other options.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def synthesize(
    ratio: float, seed: int, like: Path | None, out: Path, overwrite: bool, **given: Any
) -> None:
    """Draw a trace whose ratio and layer profile are FastCar's.

    Not what a decoder did, and labelled so everywhere: "synthetic (published marginals)". FastCar
    publishes the ratios 0.2, 0.5, 0.8 and 0.87, and that middle layers replay least. All other
    numbers are assumptions: measured on traces/vilau_8f.npz, or on the trace that --like names,
    or given here. Without --like there are 16 guidance pairs, 32 layers, and 8 frames of 256 tokens
    after a prompt of 62.
    """
    from carsim.cli.console import say
    from carsim.decisions.trace import (
        Assumptions,
        SyntheticModel,
        load_trace,
        replay_ratio,
        save_trace,
    )
    from carsim.decisions.trace import synthesize as draw_trace
    from carsim.decisions.trace.npz import refuse_existing

    refuse_existing(out, overwrite=overwrite)
    model = SyntheticModel(ratio, seed=seed)
    if like is not None:
        model = SyntheticModel.like(load_trace(like), ratio, seed)
    assumed = {field.name for field in fields(Assumptions)}
    chosen = {name: value for name, value in given.items() if value is not None}
    own = {name: value for name, value in chosen.items() if name in assumed}
    video = {name: value for name, value in chosen.items() if name not in assumed}
    model = replace(model, assumed=replace(model.assumed, **own), **video)
    trace = draw_trace(model)
    command = f"{model.command} --out {shlex.quote(out.name)}"
    trace = replace(trace, meta=trace.meta.model_copy(update={"command": command}))
    saved = save_trace(out, trace, overwrite=overwrite)
    over_all, eligible = replay_ratio(saved.replay, saved.tokens_per_frame)
    say(
        saved.title,
        f"{saved.size}; replayed "
        f"{over_all:.1%} of all steps, {eligible:.1%} of eligible steps "
        f"(over seeds {ratio:.1%} +- {model.standard_error:.2%})",
        f"{out.stat().st_size:,} bytes, sha256 {saved.sha256}",
    )
