"""``carsim capture --hf``: its options, and from a checkpoint to a trace."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from carsim.base.errors import InputError

if TYPE_CHECKING:
    from carsim.decisions.trace import Trace
    from carsim.decoder.hf import HfPlan
    from carsim.decoder.workers import Progress


Callback = Callable[[click.Context, click.Parameter, Any], Any]


def _each(convert: Callable[[str], Any]) -> Callback:
    """A callback that converts an option, or each of its values where it may be repeated."""

    def callback(ctx: click.Context, param: click.Parameter, given: Any) -> Any:
        try:
            if isinstance(given, tuple):
                return tuple(map(convert, given))
            return None if given is None else convert(given)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from error

    return callback


def _taus(text: str) -> Any:
    """A number or ``none``, or a tuple of them: one per layer, separated by commas."""

    def one(part: str) -> float | None:
        try:
            tau = None if part == "none" else float(part)
        except ValueError:
            tau = math.nan
        if tau is not None and math.isnan(tau):
            raise ValueError(f"{part!r} is neither a number nor none")
        return tau

    taus = tuple(one(part.strip()) for part in text.split(","))
    return taus[0] if len(taus) == 1 else taus


def _ids(text: str) -> tuple[int, ...]:
    """Token numbers separated by blanks."""
    parts = text.split()
    if not parts or not all(part.isdecimal() and part.isascii() for part in parts):
        raise ValueError(f"{text!r} is not a list of token numbers")
    return tuple(map(int, parts))


def _finite(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return float(value)


def _range(text: str) -> tuple[int, ...]:
    """FIRST:LAST as a tuple."""
    ends = text.split(":")
    if len(ends) != 2 or not all(end.isdecimal() and end.isascii() for end in ends):
        raise ValueError(f"{text!r} is not FIRST:LAST")
    return tuple(map(int, ends))


_NO_PAIRS = "does nothing with --guidance-pairs 0"
_COUNT, _ANY = click.IntRange(1), click.IntRange(0)
_TEMPERATURE = click.FloatRange(0, min_open=True)
_FORMS, _SCOPES = click.Choice(["released", "paper"]), click.Choice(["row", "pair", "batch"])
_DTYPES = click.Choice(["float32", "float64", "float16", "bfloat16"])


def _option(name: str, kind: Any, default: Any, text: str, **more: Any) -> Any:
    shown = {} if default is None else {"default": default, "show_default": True}
    return click.option(name, type=kind, help=text, **shown, **more)


_LIST: dict[str, Any] = {"callback": _each(_ids), "metavar": '"ID ID ..."'}
_NUMBER: dict[str, Any] = {"callback": _each(_finite)}
_TAUS: dict[str, Any] = {"callback": _each(_taus), "metavar": "X[,X...]"}
_RANGE: dict[str, Any] = {"callback": _each(_range), "metavar": "FIRST:LAST"}
_OPTIONS = (
    _option("--frames", _COUNT, 8, "Frames T."),
    _option("--tokens-per-frame", _COUNT, 256, "Tokens N."),
    _option("--prompt", str, None, "Text; once per video.", multiple=True),
    _option(
        "--prompt-ids",
        str,
        None,
        "Tokens in place of text; once per video.",
        multiple=True,
        **_LIST,
    ),
    _option("--blank", str, None, "Text of the blank prompt of guidance.  [default: empty]"),
    _option("--blank-ids", str, None, "The same as token numbers.", **_LIST),
    _option(
        "--guidance-pairs",
        _ANY,
        None,
        "Videos, two rows each; prompts take turns; 0: one row per prompt, no guidance.  "
        "[default: one per prompt]",
    ),
    _option(
        "--guidance-scale",
        float,
        3.0,
        "s in blank + s * (conditional - blank), of logits.",
        **_NUMBER,
    ),
    _option(
        "--tau",
        str,
        "inf",
        "Threshold, or one per layer; none never scores, inf scores and never replays.",
        **_TAUS,
    ),
    _option("--tas", _FORMS, "released", "Query before the rotary embedding, or after."),
    _option("--decision-scope", _SCOPES, "row", "Rows that decide together."),
    _option("--window", _COUNT, None, "Sparse attention: a window of this size."),
    _option("--sinks", _ANY, 4, "... and sinks."),
    _option("--top-k", _COUNT, 1, "Draw from K; 1: greedy."),
    _option("--temperature", _TEMPERATURE, 1.0, "Divides the logits.", **_NUMBER),
    _option(
        "--visual-tokens",
        str,
        None,
        "Range of the vocabulary to draw from.  [default: all]",
        **_RANGE,
    ),
    _option("--seed", _ANY, 0, "Of sampling."),
    _option("--dtype", _DTYPES, "float32", "Arithmetic."),
    _option("--device", str, "cpu", "PyTorch device."),
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
    from carsim.decisions.attention import Dense, Streaming
    from carsim.decisions.replay import Tas
    from carsim.decoder.hf import HfPlan, TokenSampling

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
        rule=Tas(form=options["tas"]),
        attention=Streaming(sinks=options["sinks"], window=window) if window else Dense(),
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
