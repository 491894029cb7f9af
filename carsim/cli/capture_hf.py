"""``carsim capture --hf``: its options, and from a checkpoint to a trace."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from carsim.errors import InputError

if TYPE_CHECKING:
    from carsim.decoder.hf import HfPlan
    from carsim.decoder.workers import Progress
    from carsim.trace import Trace


def parse_taus(ctx: click.Context, param: click.Parameter, text: str) -> Any:
    """A number or ``none``, or a tuple of them: one per layer, separated by commas."""

    def one(part: str) -> float | None:
        if part == "none":
            return None
        try:
            tau = float(part)
        except ValueError:
            tau = float("nan")
        if tau != tau:
            raise click.BadParameter(f"{part!r} is neither a number nor none", ctx, param)
        return tau

    taus = tuple(one(part.strip()) for part in text.split(","))
    return taus[0] if len(taus) == 1 else taus


def _numbers(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    parts = text.split()
    if not parts or not all(part.isdecimal() and part.isascii() for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of token numbers", ctx, param)
    return tuple(map(int, parts))


def parse_ids(ctx: click.Context, param: click.Parameter, given: Any) -> Any:
    """Token numbers separated by blanks, or a tuple of such lists where the option is repeated."""
    if isinstance(given, tuple):
        return tuple(_numbers(ctx, param, text) for text in given)
    return None if given is None else _numbers(ctx, param, given)


def parse_finite(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """A number that is neither NaN nor infinite."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number", ctx, param)
    return value


def parse_range(ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
    """FIRST:LAST as a tuple."""
    if text is None:
        return None
    ends = _numbers(ctx, param, text.replace(":", " "))
    if text.count(":") != 1 or len(ends) != 2:
        raise click.BadParameter(f"{text!r} is not FIRST:LAST", ctx, param)
    return ends


_NO_PAIRS = "does nothing with --guidance-pairs 0"
_AT_LEAST_1 = click.IntRange(1)
_OPTIONS = (
    click.option("--frames", type=_AT_LEAST_1, default=8, show_default=True, help="Frames T."),
    click.option(
        "--tokens-per-frame", type=_AT_LEAST_1, default=256, show_default=True, help="Tokens N."
    ),
    click.option("--prompt", multiple=True, help="Text; once per video."),
    click.option(
        "--prompt-ids",
        multiple=True,
        callback=parse_ids,
        metavar='"ID ID ..."',
        help="Token numbers in place of text; once per video.",
    ),
    click.option("--blank", help="Text of the blank prompt of guidance.  [default: empty]"),
    click.option(
        "--blank-ids", callback=parse_ids, metavar='"ID ID ..."', help="The same as token numbers."
    ),
    click.option(
        "--guidance-pairs",
        type=click.IntRange(0),
        help="Videos, two rows each; prompts take turns; 0: one row per prompt, no guidance.  "
        "[default: one per prompt]",
    ),
    click.option(
        "--guidance-scale",
        type=float,
        callback=parse_finite,
        default=3.0,
        show_default=True,
        help="s in blank + s * (conditional - blank), of logits.",
    ),
    click.option(
        "--tau",
        callback=parse_taus,
        default="inf",
        show_default=True,
        metavar="X[,X...]",
        help="Threshold, or one per layer; none never scores, inf scores and never replays.",
    ),
    click.option(
        "--tas",
        type=click.Choice(["released", "paper"]),
        default="released",
        show_default=True,
        help="Query before the rotary embedding, or after.",
    ),
    click.option(
        "--decision-scope",
        type=click.Choice(["row", "pair", "batch"]),
        default="row",
        show_default=True,
        help="Rows that decide together.",
    ),
    click.option("--window", type=_AT_LEAST_1, help="Sparse attention: a window of this size."),
    click.option(
        "--sinks", type=click.IntRange(0), default=4, show_default=True, help="... and sinks."
    ),
    click.option(
        "--top-k", type=_AT_LEAST_1, default=1, show_default=True, help="Draw from K; 1: greedy."
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(0, min_open=True),
        callback=parse_finite,
        default=1.0,
        show_default=True,
        help="Divides the logits.",
    ),
    click.option(
        "--visual-tokens",
        callback=parse_range,
        metavar="FIRST:LAST",
        help="Range of the vocabulary to draw from.  [default: all]",
    ),
    click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of sampling."
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "float64", "float16", "bfloat16"]),
        default="float32",
        show_default=True,
        help="Arithmetic.",
    ),
    click.option("--device", default="cpu", show_default=True, help="PyTorch device."),
)


def hf_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that only ``--hf`` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_stray(ctx: click.Context, names: Iterable[str], why: str) -> None:
    """Refuse parameters that were given on the command line but mean nothing here."""
    for param in ctx.command.params:
        if param.name in names and _was_given(ctx, param.name):
            raise click.UsageError(f"{param.opts[0]} {why}", ctx)


def _was_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def run_hf(folder: Path, options: dict[str, Any], progress: "Progress") -> "Trace":
    """Load the checkpoint in ``folder`` and decode what the options say."""
    from carsim.decoder.hf import capture_hf, load_checkpoint, read_geometry

    read_geometry(folder)  # says what is wrong before anything slow is imported
    plan = _plan(folder, options)
    model = load_checkpoint(folder, dtype=options["dtype"], device=options["device"])
    return capture_hf(model, plan, progress=progress)


def _plan(folder: Path, options: dict[str, Any]) -> "HfPlan":
    from carsim.decoder.hf import HfPlan, TokenSampling
    from carsim.trace import DenseAttention, StreamingAttention

    ctx = click.get_current_context()
    for is_idle, names, why in (
        (options["guidance_pairs"] == 0, ("blank", "blank_ids", "guidance_scale"), _NO_PAIRS),
        (options["window"] is None, ("sinks",), "does nothing without --window"),
        (options["top_k"] == 1, ("temperature",), "does nothing with --top-k 1, greedy"),
    ):
        if is_idle:
            refuse_stray(ctx, names, why)
    rows, labels = _rows(folder, options)
    first, last = options["visual_tokens"] or (0, None)
    window = options["window"]
    return HfPlan(
        prompts=rows,
        n_frames=options["frames"],
        tokens_per_frame=options["tokens_per_frame"],
        tau=options["tau"],
        tas_form=options["tas"],
        attention=StreamingAttention(sinks=options["sinks"], window=window)
        if window
        else DenseAttention(),
        decision_scope=options["decision_scope"],
        guided=options["guidance_pairs"] != 0,
        seed=options["seed"],
        sampling=TokenSampling(
            options["top_k"], options["temperature"], options["guidance_scale"], first, last
        ),
        labels=labels,
        command=_command(folder, options),
    )


def _rows(
    folder: Path, options: dict[str, Any]
) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Token numbers of every row, and what to call each video."""
    from carsim.decoder.hf import encode_prompts

    texts, ids, pairs = options["prompt"], options["prompt_ids"], options["guidance_pairs"]
    if bool(texts) == bool(ids):
        raise InputError("--hf", "needs --prompt or --prompt-ids, one of them", "once per video")
    blank = options["blank_ids"]
    if blank and options["blank"] is not None:
        raise InputError("--hf", "both --blank and --blank-ids", "give one of them")
    if pairs != 0 and blank is None:
        if ids and options["blank"] is None:
            raise InputError(
                "--hf",
                "--prompt-ids with guidance needs the blank prompt",
                "give --blank-ids, or --guidance-pairs 0",
            )
        blank = encode_prompts(folder, (options["blank"] or "",))[0]
    prompts = ids or encode_prompts(folder, texts)
    labels = texts or tuple(" ".join(map(str, prompt)) for prompt in ids)
    if pairs == 0:
        return prompts, labels
    videos = pairs or len(prompts)
    if videos > len(prompts) and options["top_k"] == 1:
        raise InputError(
            "--guidance-pairs",
            f"{videos} videos of {len(prompts)} prompts would repeat each other: greedy sampling",
            "give more prompts, or --top-k above 1",
        )
    taken = [video % len(prompts) for video in range(videos)]
    rows = tuple(row for at in taken for row in (prompts[at], blank))
    return rows, tuple(labels[at] for at in taken)


def _command(folder: Path, options: dict[str, Any]) -> str:
    """The command that makes the trace, without what is the default."""
    import shlex

    words = ["carsim", "capture", "--hf", folder.resolve().name]
    ctx = click.get_current_context()
    for name, value in options.items():
        if not _was_given(ctx, name):
            continue
        for one in value if name in ("prompt", "prompt_ids") else (value,):
            separator = {"tau": ",", "visual_tokens": ":"}.get(name, " ")
            text = separator.join(map(str, one)) if isinstance(one, tuple) else str(one)
            text = text.replace("None", "none") if name == "tau" else text
            words += [f"--{name.replace('_', '-')}", text]
    return shlex.join(words)
