"""``carsim trace``: what a trace holds, and how two of them differ."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.base.text import Table, count
from carsim.cli import LazyGroup, complain
from carsim.cli.options import JSON, TRACES

if TYPE_CHECKING:
    from pathlib import Path

    from carsim.decisions.trace import Trace, TraceMeta, TraceStats
    from carsim.decisions.trace.geometry import Geometry
    from carsim.decisions.trace.quality import MeasuredQuality, PerClip, SampledQuality


@click.group(
    cls=LazyGroup, lazy={"synthesize": "Draw a trace whose ratio and layer profile are FastCar's."}
)
def trace() -> None:
    """Inspect trace files, or draw synthetic ones."""


@trace.command()
@click.argument("file", type=click.Path(), shell_complete=TRACES)
@JSON
def info(file: str, as_json: bool) -> None:
    """Show geometry, replay ratios, scores and provenance of the trace FILE."""
    from carsim.cli.console import in_order, output_console, show
    from carsim.decisions.trace import load_trace, trace_stats

    loaded = load_trace(file)
    stats = trace_stats(loaded)
    if as_json:
        click.echo(_as_json(loaded, stats))
        return
    tables = _tables(loaded, stats)
    show(output_console(), in_order((table.title, [table]) for table in tables))


@trace.command(name="list")
@click.argument("files", nargs=-1, type=click.Path(), shell_complete=TRACES)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with hashes in full.")
def list_traces(files: tuple[str, ...], as_csv: bool) -> None:
    """Show what each trace FILE is, one line each.

    Without a FILE, the traces that ship with carsim and those in the folder traces; all of them go
    by name, as in carsim run zcu102 --trace vilau_8f.

    Exempt are the layers that never replay; a window is sinks + local tokens; replay is the ratio
    over eligible steps. What was measured of quality: ``carsim trace info``. A file that is no
    trace is skipped with a line on standard error.
    """
    import csv
    import sys

    from carsim.decisions.trace import NoTraceError, Trace, load_trace

    traces: list[Trace] = []
    refused: list[NoTraceError] = []
    for file in files or _all_by_name():
        try:
            traces.append(load_trace(file))
        except NoTraceError as error:
            refused.append(error)
    if not traces:
        if refused:
            raise refused[0]
        raise InputError("carsim trace list", "finds no trace", "name one, or capture one")
    for each in refused:
        complain(f"skipped: {each.place}: {each.problem}")
    rows = [(_in_manifest if as_csv else _in_short)(trace) for trace in traces]
    if as_csv:
        from carsim.metrics.columns import cell

        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: cell(text) for name, text in row.items()} for row in rows)
        return
    from carsim.cli.console import output_console, show

    table = Table(tuple(rows[0]), tuple(tuple(row.values()) for row in rows), len(rows[0]))
    show(output_console(), [table, *(each.title for each in traces if each.meta.made_up)])


@trace.command(name="compare")
@click.argument("first", type=click.Path(), shell_complete=TRACES)
@click.argument("second", type=click.Path(), shell_complete=TRACES)
@click.pass_context
def compare_files(ctx: click.Context, first: str, second: str) -> None:
    """Compare two traces of one recipe; exit with 1 unless rounding explains all differences."""
    from carsim.cli.console import say
    from carsim.decisions.trace import compare_traces, load_trace

    found = compare_traces(load_trace(first), load_trace(second))
    if found.identical:
        say("identical, byte for byte")
        return
    lines = [
        f"metadata that differ: {', '.join(found.changed_fields) or 'none'}",
        f"largest score difference up to a first flip: {found.max_tas_error:.2e} "
        f"(rounding may make {found.margin:.0e})",
        f"decisions that differ: {found.flipped}, from {found.first_flips} first flips, "
        f"{found.unexplained_flips} of them farther than {found.margin:.0e} from tau",
        f"replay ratio over eligible steps: {found.ratio_difference:+.4%}",
    ]
    if found.reads_differ:
        lines.append(f"counts of keys read that differ: {found.reads_differ}")
    say(*lines, "equivalent" if found.equivalent else "NOT equivalent")
    if not found.equivalent:
        ctx.exit(1)


def _all_by_name() -> "list[Path]":
    """Traces in the folder ``traces``, and shipped ones that no name there hides."""
    from carsim.decisions.trace.shipped import LOCAL, traces_folder, traces_in

    shipped, local = ({path.stem: path for path in traces_in(f)} for f in (traces_folder(), LOCAL))
    return list((shipped | local).values())


def _in_short(loaded: "Trace") -> dict[str, str]:
    """A trace in one line of a terminal."""
    from carsim.decisions.replay import in_ranges
    from carsim.decisions.trace import replay_ratio

    meta = loaded.meta
    _, eligible = replay_ratio(loaded.replay, loaded.tokens_per_frame)
    exempt = in_ranges(meta.replay.exempt_layers)
    if "," in exempt:
        exempt = f"{len(meta.replay.exempt_layers)} layers"
    return {
        "file": loaded.name,
        "rows": str(loaded.n_rows),
        "frames": str(loaded.n_frames),
        "tau": "" if meta.made_up else meta.replay.tau_span or "none",
        "exempt": exempt,
        "scope": meta.decision_scope,
        "window": meta.attention.short,
        "replay": f"{eligible:.1%}",
    }


def _in_manifest(loaded: "Trace") -> dict[str, str]:
    """A trace in one row of a manifest."""
    from carsim.decisions.trace import replay_ratio

    meta = loaded.meta
    _, eligible = replay_ratio(loaded.replay, loaded.tokens_per_frame)
    return {
        "file": loaded.name,
        "sha256": loaded.sha256,
        "bytes": str(loaded.path.stat().st_size) if loaded.path else "",
        "rows": str(loaded.n_rows),
        "frames": str(loaded.n_frames),
        "tau": meta.tau_text,
        "scope": meta.decision_scope,
        "attention": " ".join(str(value) for value in meta.attention.model_dump().values()),
        "seed": str(meta.seed),
        "eligible_ratio": f"{eligible:.4f}",
        "weights_sha256": meta.weights.partition("sha256 ")[2],
        "command": meta.command,
    }


def _as_json(loaded: "Trace", stats: "TraceStats") -> str:
    """Everything that the tables show, for programs; what is not a number is null."""
    import json
    from dataclasses import asdict

    import numpy as np

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return plain(value.tolist())
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        return value

    document = {
        "path": str(loaded.path),
        "sha256": loaded.sha256,
        "decisions": loaded.meta.made_up or loaded.meta.origin,
        "meta": loaded.meta.model_dump(),
        "stats": asdict(stats),
    }
    return json.dumps(plain(document), indent=2)


def _tables(loaded: "Trace", stats: "TraceStats") -> Iterable[Table]:
    """Facts, quality, scores, and replay ratios by frame, layer and row."""
    from carsim.decisions.trace.stats import QUANTILES

    meta = loaded.meta
    facts = tuple(_facts(loaded, stats).items())
    yield Table(("", ""), facts, text_columns=2, title=f"trace {loaded.name}")
    if meta.quality:
        yield _quality_table(meta.quality, meta.own_quality)
    if stats.tas_quantiles.size:
        headings = [f"{quantile:.0%}" for quantile in QUANTILES]
        scores = [f"{value:.3f}" for value in stats.tas_quantiles]
        yield _table(
            f"{loaded.meta.rule.label} over all evaluated steps", headings, [scores], texts=0
        )
    by_frame = [
        (str(frame), f"{ratio:.1%}" if frame else "never")
        for frame, ratio in enumerate(stats.by_frame)
    ]
    yield _table("replay ratio by frame", ("frame", "replayed"), by_frame)
    by_layer = [
        (str(layer), f"{ratio.over_all:.1%}", f"{ratio.over_eligible:.1%}")
        for layer, ratio in enumerate(stats.by_layer)
    ]
    yield _table("replay ratio by layer", ("layer", "of all steps", "of eligible"), by_layer)
    if meta.guidance_pairs:
        clips = meta.content.get("clips")
        names = [_clip(clip) for clip in clips] if isinstance(clips, list) else []
        names += [""] * (len(meta.guidance_pairs) - len(names))
        by_pair = [
            (
                f"{a}, {b}",
                name,
                *(f"{stats.by_row[row].over_eligible:.1%}" for row in (a, b)),
                _number(float(phi)),
            )
            for (a, b), name, phi in zip(meta.guidance_pairs, names, stats.pair_phi, strict=False)
        ]
        headings = ["rows", "clip", "conditional", "blank", "phi"]
        yield _table("replay ratio of eligible steps by row", headings, by_pair, texts=2)


def _facts(loaded: "Trace", stats: "TraceStats") -> dict[str, str]:
    from carsim.decisions.trace.meta import SYNTHETIC

    meta, step = loaded.meta, loaded.meta.content.get("tas_step")
    known = stats.pair_phi[stats.pair_phi == stats.pair_phi]
    sampling = "".join(f", {k} {v}" for k, v in (meta.sampling or {}).items() if v is not None)
    facts = {
        "decoded": _shape(meta.decoded),
        "stands for": _shape(meta.simulated),
        "video": f"{count(meta.n_frames, 'frame')} of {count(meta.tokens_per_frame, 'token')}, "
        f"{count(meta.n_rows, 'row')}, {count(len(meta.guidance_pairs), 'guidance pair')}",
        "prompt": f"{count(meta.prompt_tokens, 'token')}, {min(meta.prompt_lengths)} to "
        f"{max(meta.prompt_lengths)} of them valid",
        "replay": f"{meta.tau_text}, decision scope {meta.decision_scope}",
        "rule": "none" if meta.made_up else meta.rule.text,
        "attention": meta.attention.text,
        "tokens": meta.mode.replace("_", " ") + sampling,
        "weights": f"{meta.weights}, {meta.dtype}, seed {meta.seed}",
        "quality": _quality_line(meta),
        "made by": f"{meta.producer} {meta.producer_version}: {meta.command}",
        "sha256": loaded.sha256,
        "scores": f"kept to multiples of {step:g}" if step else "kept as they were",
        "replay ratio": f"{stats.ratio.over_all:.2%} of all steps, "
        f"{stats.ratio.over_eligible:.2%} of eligible steps (first frame left out)",
        "phi in pairs": f"{_number(float(known.mean()) if known.size else math.nan)} "
        f"(within layers {_number(stats.within_layer_pair_phi)})",
        "phi of clips": f"{_number(stats.clip_phi)} "
        f"(within layers {_number(stats.within_layer_clip_phi)})",
    }
    if meta.precision is not None:
        facts["precision"] = meta.precision.text
    if meta.made_up:
        facts["scores"] = "none"
    if meta.origin == SYNTHETIC:
        facts["decoded"] = facts["tokens"] = facts["weights"] = "nothing was decoded"
    if stats.reads:
        facts["keys read"] = (
            f"{stats.reads.density:.1%} of the context in {stats.reads.mean_runs:.1f} runs, mean "
            "over steps, layers, heads and rows; at most "
            f"{count(stats.reads.most_held, 'token')} held"
        )
    return facts


def _shape(of: "Geometry") -> str:
    heads = f"{of.n_heads}/{count(of.n_kv_heads, 'head')} of {of.head_dim}"
    layers = count(of.n_layers, "layer")
    return f"{of.name}: {layers}, width {of.hidden_size}, {heads}, MLP {of.ffn_size}"


def _clip(clip: Any) -> str:
    """A clip in a few words: "coins pan 2", or the name of its prompt."""
    if not isinstance(clip, dict):
        return str(clip)
    shown = (value for name, value in clip.items() if name not in ("seed", "kept_tokens"))
    return " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in shown)


def _table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1
) -> Table:
    """A table whose columns after the first ``texts`` are numbers."""
    return Table(tuple(headings), tuple(map(tuple, rows)), texts, title=title)


def _quality_line(meta: "TraceMeta") -> str:
    quality = meta.quality
    if quality is None:
        return "not measured"
    frames = f"frames {quality.first_frame}-{meta.n_frames - 1}"
    return f"{frames} of {count(quality.n_clips, 'clip')}; dense: {quality.dense}"


def _quality_table(quality: "MeasuredQuality", own: "SampledQuality | None") -> Table:
    """Means over clips, of generated ones under the trace's own sampling; losses are per token."""
    rows = [_compared("loss, true tokens fed (nats)", quality.teacher_forced_nats, 3)]
    title = "quality: mean over clips [95 % interval]"
    if own is not None:
        title += f"; generated by {own.sampling}"
        rows += [
            _compared("dense's loss on the clip (nats)", own.clip_nats, 3),
            _compared("PSNR to the true clip (dB)", own.psnr_db, 1),
            _compared("SSIM to the true clip", own.ssim, 3),
            ("tokens as in dense", f"{own.token_agreement_mean:.1%}", "", ""),
        ]
    return _table(title, ("", "trace", "dense", "difference"), rows)


def _compared(what: str, figures: "PerClip", digits: int) -> tuple[str, ...]:
    """A row: the trace's mean, that of dense decoding, and the difference with its interval."""
    return (
        what,
        f"{figures.own_mean:.{digits}f}",
        f"{figures.dense_mean:.{digits}f}",
        figures.difference.text(digits=digits),
    )


def _number(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.3f}"
