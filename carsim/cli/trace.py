"""``carsim trace``: what trace files hold."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.base.text import Table, count
from carsim.cli import LazyGroup, complain
from carsim.cli.console import in_order, say
from carsim.cli.options import JSON

if TYPE_CHECKING:
    from pathlib import Path

    from carsim.decisions.trace import Trace
    from carsim.decisions.trace.meta import Geometry, TraceMeta
    from carsim.decisions.trace.stats import TraceStats
    from carsim.decisions.trace.token_ranges import RangeDecisions


@click.group(cls=LazyGroup, lazy={})
def trace() -> None:
    """Inspect trace files."""


@trace.command()
@click.argument("file", type=click.Path())
@JSON
def info(file: str, as_json: bool) -> None:
    """Show geometry, replay ratios, scores and provenance of the trace FILE."""
    from carsim.decisions.trace import load_trace, trace_stats

    loaded = load_trace(file)
    stats = trace_stats(loaded)
    if as_json:
        click.echo(_as_json(loaded, stats))
        return
    say(*in_order((table.title, [table]) for table in _tables(loaded, stats)))


@trace.command(name="list")
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with hashes in full.")
def list_traces(files: tuple[str, ...], as_csv: bool) -> None:
    """Show what each trace FILE is, one line each.

    Without a FILE, the traces that ship with carsim and those in the folder traces; all of them go
    by name, as in carsim run zcu102 --trace vilau_8f.

    Exempt layers never replay; a window is sinks + local tokens; replay is the ratio
    over eligible steps. What was measured of quality: ``carsim trace info``. A file that is no
    trace is skipped with a line on standard error.
    """
    from carsim.decisions.trace import Trace, load_trace
    from carsim.decisions.trace.file import NoTraceError

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
    for refusal in refused:
        complain(f"skipped: {refusal.place}: {refusal.problem}")
    if as_csv:
        import pandas as pd

        from carsim.metrics.columns import csv_text

        click.echo(csv_text(pd.DataFrame([_row(trace) for trace in traces])), nl=False)
        return

    rows = [_in_short(trace) for trace in traces]
    cells = tuple(tuple(row.values()) for row in rows)
    table = Table(tuple(rows[0]), cells, text_columns=len(rows[0]))
    say(table, *(trace.title for trace in traces if trace.meta.made_up))


def _all_by_name() -> "list[Path]":
    """Traces in the folder ``traces``, and shipped ones that no name there hides."""
    from carsim.decisions.trace.shipped import LOCAL, traces_folder, traces_in

    path_of_name = {path.stem: path for path in traces_in(traces_folder())}
    for path in traces_in(LOCAL):
        path_of_name[path.stem] = path
    return list(path_of_name.values())


def _row(loaded: "Trace") -> dict[str, str]:
    """A trace in one row of CSV."""
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


def _in_short(loaded: "Trace") -> dict[str, str]:
    """A trace in one line of a terminal."""
    row = _row(loaded)
    meta = loaded.meta
    return {
        "file": row["file"],
        "rows": row["rows"],
        "frames": row["frames"],
        "tau": "" if meta.made_up else meta.replay.tau_span or "none",
        "exempt": str(len(meta.replay.exempt_layers)),
        "scope": row["scope"],
        "window": meta.attention.short,
        "replay": f"{float(row['eligible_ratio']):.1%}",
    }


def _as_json(loaded: "Trace", stats: "TraceStats") -> str:
    """Everything that the tables show, for programs; what is not a number is null."""
    import numpy as np

    document: dict[str, Any] = {"path": str(loaded.path), "sha256": loaded.sha256}
    document["decisions"] = loaded.meta.made_up or loaded.meta.origin
    document |= {"meta": loaded.meta.model_dump(), "stats": asdict(stats)}
    text = json.dumps(document, default=np.ndarray.tolist)
    constants = {"NaN": None, "Infinity": "inf", "-Infinity": "-inf"}
    return json.dumps(json.loads(text, parse_constant=constants.get), indent=2)


def _tables(loaded: "Trace", stats: "TraceStats") -> Iterable[Table]:
    """Facts, scores, and replay ratios by frame and layer; JSON has those of rows as well."""
    from carsim.decisions.trace.stats import QUANTILES

    yield Table(("", ""), tuple(_facts(loaded, stats).items()), 2, title=f"trace {loaded.name}")
    if stats.tas_quantiles.size:
        scores = tuple(f"{value:.3f}" for value in stats.tas_quantiles)
        title = f"{loaded.meta.rule.label} over all evaluated steps"
        yield Table(tuple(f"{quantile:.0%}" for quantile in QUANTILES), (scores,), 0, title=title)
    if loaded.ranges is not None:
        yield from _token_tables(loaded.ranges)
        return
    frames = tuple((str(frame), f"{ratio:.1%}") for frame, ratio in enumerate(stats.by_frame))
    yield Table(("frame", "replayed"), frames, title="replay ratio by frame")
    layers = tuple(
        (str(layer), f"{ratio.over_all:.1%}", f"{ratio.over_eligible:.1%}")
        for layer, ratio in enumerate(stats.by_layer)
    )
    yield Table(("layer", "of all steps", "of eligible"), layers, title="replay ratio by layer")


def _token_tables(ranges: "RangeDecisions") -> Iterable[Table]:
    """Shares of tokens that reuse outputs, by forward and layer."""
    shares = ranges.reused / ranges.per_range  # [S, L, B, R]
    by_forward = shares.mean(axis=(1, 2, 3))
    by_layer = shares.mean(axis=(0, 2, 3))
    forwards = tuple((str(number), f"{share:.1%}") for number, share in enumerate(by_forward))
    yield Table(("forward", "of all tokens"), forwards, title="tokens that reuse, by forward")
    layers = tuple((str(number), f"{share:.1%}") for number, share in enumerate(by_layer))
    yield Table(("layer", "of all tokens"), layers, title="tokens that reuse, by layer")


def _facts(loaded: "Trace", stats: "TraceStats") -> dict[str, str]:
    from carsim.decisions.trace import replay_ratio
    from carsim.decisions.trace.meta import SYNTHETIC
    from carsim.decisions.trace.token_ranges import IN_WORDS

    meta = loaded.meta
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
        "rule": ("none; machines count the work of " if meta.made_up else "") + meta.rule.text,
        "attention": meta.attention.text,
        "tokens": meta.mode.replace("_", " ") + sampling,
        "weights": f"{meta.weights}, {meta.dtype}, seed {meta.seed}",
        "quality": _quality(meta),
        "made by": f"{meta.producer} {meta.producer_version}: {meta.command}",
        "sha256": loaded.sha256,
        "replay ratio": f"{stats.ratio.over_all:.2%} of all steps, "
        f"{stats.ratio.over_eligible:.2%} of eligible steps (first frame left out)",
        "phi in pairs": f"{_number(float(known.mean()) if known.size else math.nan)} "
        f"(within layers {_number(stats.within_layer_pair_phi)})",
        "phi of clips": f"{_number(stats.clip_phi)} "
        f"(within layers {_number(stats.within_layer_clip_phi)})",
    }
    for name, decision in meta.further.items():
        replay = loaded.further[name].replay
        _, eligible = replay_ratio(replay, loaded.tokens_per_frame)
        made = meta.replay_of(name)
        facts[f"decision {name}"] = (
            f"skips {', '.join(decision.blocks)}: {made.tau_text}, decision scope {made.scope}; "
            f"{eligible:.2%} of eligible steps"
        )
    if (ranges := loaded.ranges) is not None:
        share = ranges.reused.mean() / ranges.per_range
        facts["video"] = f"{count(meta.n_steps, 'forward')}, {count(meta.n_rows, 'row')}"
        facts["video"] += f" of {count(ranges.tokens, 'token')}"
        facts["reuse"] = f"{share:.1%} of all tokens take outputs {IN_WORDS[ranges.source]}"
        facts["replay ratio"] += ", of rows that wholly reuse"
    if isinstance(loop := meta.content.get("loop"), str):
        facts["loop"] = loop
    if meta.precision is not None:
        facts["precision"] = meta.precision.text
    if meta.origin == SYNTHETIC:
        facts["decoded"] = facts["tokens"] = facts["weights"] = "nothing was decoded"
    if reads := stats.reads:
        mean = f"{reads.density:.1%} of the context in {reads.mean_runs:.1f} runs (means)"
        facts["keys read"] = f"{mean}, {count(reads.most_held, 'token')} held at most"
    return facts


def _shape(of: "Geometry") -> str:
    heads = f"{of.n_heads}/{count(of.n_kv_heads, 'head')} of {of.head_dim}"
    layers = count(of.n_layers, "layer")
    return f"{of.name}: {layers}, width {of.hidden_size}, {heads}, MLP {of.ffn_size}"


def _quality(meta: "TraceMeta") -> str:
    """Mean losses per token over the measured clips, with the interval of the difference."""
    quality = meta.quality
    if quality is None:
        return "not measured"
    losses = quality.teacher_forced_nats
    return (
        f"{losses.own_mean:.3f} nats with true tokens fed, dense {losses.dense_mean:.3f}, "
        f"difference {losses.difference.text()}; frames {quality.first_frame}-{meta.n_frames - 1} "
        f"of {count(quality.n_clips, 'clip')}; dense: {quality.dense}"
    )


def _number(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.3f}"
