"""``carsim trace``: what a trace holds, and how two of them differ."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from carsim.trace import Trace, TraceStats
    from carsim.trace.meta import Quality


@click.group()
def trace() -> None:
    """Inspect trace files."""


@trace.command()
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def info(file: str, as_json: bool) -> None:
    """Show geometry, replay ratios, scores and provenance of the trace FILE."""
    from carsim.trace import load_trace, trace_stats

    loaded = load_trace(file)
    stats = trace_stats(loaded)
    if as_json:
        click.echo(_as_json(loaded, stats))
    else:
        _print_tables(loaded, stats)


@trace.command(name="list")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with hashes in full.")
def list_traces(files: tuple[str, ...], as_csv: bool) -> None:
    """Show what each trace FILE is, one line each.

    Exempt are the layers that never replay; a window is sinks + local tokens; replay is the ratio
    over eligible steps, dB the PSNR of what is generated against dense decoding, under the first
    way of sampling that was measured.
    """
    import csv
    import sys

    from carsim.trace import load_trace

    rows = [(_in_manifest if as_csv else _in_short)(load_trace(file)) for file in files]
    if as_csv:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    file, *others = rows[0]
    table = Table(Column(file, no_wrap=True), *others, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row.values()))
    Console().print(table)


@trace.command()
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.pass_context
def compare(ctx: click.Context, first: str, second: str) -> None:
    """Compare two traces of one recipe; exit with 1 unless rounding explains all differences."""
    from carsim.trace import compare_traces, load_trace
    from carsim.trace.compare import MARGIN

    found = compare_traces(load_trace(first), load_trace(second))
    if found.identical:
        click.echo("identical, byte for byte")
        return
    click.echo(
        f"metadata that differ: {', '.join(found.changed_fields) or 'none'}\n"
        f"largest score difference up to a first flip: {found.max_tas_error:.2e} "
        f"(rounding may make {MARGIN:.0e})\n"
        f"decisions that differ: {found.flipped}, from {found.first_flips} first flips, "
        f"{found.unexplained_flips} of them farther than {MARGIN:.0e} from tau\n"
        f"replay ratio over eligible steps: {found.ratio_difference:+.4%}\n"
        f"{'equivalent' if found.equivalent else 'NOT equivalent'}"
    )
    if not found.equivalent:
        ctx.exit(1)


def _in_short(loaded: "Trace") -> dict[str, str]:
    """A trace in one line of a terminal."""
    import math

    from carsim.policy import in_ranges
    from carsim.trace import StreamingAttention, captured, replay_ratio

    meta = loaded.meta
    _, eligible = replay_ratio(captured(loaded).replay, loaded.tokens_per_frame)
    window = "dense"
    if isinstance(meta.attention, StreamingAttention):
        window = f"{meta.attention.sinks} + {meta.attention.window}"
    exempt = in_ranges(meta.replay.exempt_layers)
    if "," in exempt:
        exempt = f"{len(meta.replay.exempt_layers)} layers"
    psnr_db = ""
    if meta.quality is not None:
        first = meta.quality.by_sampling[0]
        psnr_db = "same" if first.psnr_db == math.inf else f"{first.psnr_db:.1f}"
    return {
        "file": loaded.name,
        "rows": str(loaded.n_rows),
        "frames": str(loaded.n_frames),
        "tau": meta.replay.tau_span or "none",
        "exempt": exempt,
        "scope": meta.decision_scope,
        "window": window,
        "replay": f"{eligible:.1%}",
        "dB": psnr_db,
    }


def _in_manifest(loaded: "Trace") -> dict[str, str]:
    """A trace in one row of a manifest."""
    from carsim.trace import captured, replay_ratio

    meta = loaded.meta
    _, eligible = replay_ratio(captured(loaded).replay, loaded.tokens_per_frame)
    attention = " ".join(str(value) for value in meta.attention.model_dump().values())
    _, _, weights_sha256 = meta.weights.partition("sha256 ")
    return {
        "file": loaded.name,
        "sha256": loaded.sha256,
        "bytes": str(loaded.path.stat().st_size) if loaded.path else "",
        "rows": str(loaded.n_rows),
        "frames": str(loaded.n_frames),
        "tau": meta.tau_text,
        "scope": meta.decision_scope,
        "attention": attention,
        "seed": str(meta.seed),
        "eligible_ratio": f"{eligible:.4f}",
        "weights_sha256": weights_sha256,
        "command": meta.command,
    }


def _as_json(loaded: "Trace", stats: "TraceStats") -> str:
    """Everything that the tables show, for programs; what is not a number is null."""
    import json
    import math
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
        "meta": loaded.meta.model_dump(),
        "stats": asdict(stats),
    }
    return json.dumps(plain(document), indent=2)


def _print_tables(loaded: "Trace", stats: "TraceStats") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from carsim.trace.stats import QUANTILES

    console, meta = Console(), loaded.meta
    about = Table(title=f"trace {escape(loaded.name)}", title_justify="left", show_header=False)
    about.add_column("what", no_wrap=True)
    about.add_column("value", overflow="fold")
    decoded, simulated = meta.decoded, meta.simulated
    shape = "{0.n_layers} layers, width {0.hidden_size}, {0.n_heads}/{0.n_kv_heads} heads of "
    shape += "{0.head_dim}, MLP {0.ffn_size}"
    facts = {
        "decoded": f"{decoded.name}: {shape.format(decoded)}",
        "stands for": f"{simulated.name}: {shape.format(simulated)}",
        "video": f"{meta.n_frames} frames of {meta.tokens_per_frame} tokens, "
        f"{meta.n_rows} rows, {len(meta.guidance_pairs)} guidance pairs",
        "prompt": f"{meta.prompt_tokens} tokens, {min(meta.prompt_lengths)} to "
        f"{max(meta.prompt_lengths)} of them valid",
        "replay": f"{meta.tau_text}, TAS {meta.tas_form}, decision scope {meta.decision_scope}",
        "attention": ", ".join(f"{k} {v}" for k, v in meta.attention.model_dump().items()),
        "tokens": meta.mode.replace("_", " ")
        + "".join(f", {k} {v}" for k, v in (meta.sampling or {}).items() if v is not None),
        "weights": f"{meta.weights}, {meta.dtype}, seed {meta.seed}",
        "quality": _quality_line(meta.quality) if meta.quality else "not measured",
        "made by": f"{meta.producer} {meta.producer_version}: {meta.command}",
        "sha256": loaded.sha256,
        "scores": f"kept to multiples of {step:g}"
        if (step := meta.content.get("tas_step"))
        else "kept as they were",
        "replay ratio": f"{stats.ratio.over_all:.2%} of all steps, "
        f"{stats.ratio.over_eligible:.2%} of eligible steps (first frame left out)",
        "phi in pairs": f"{_mean(stats.pair_phi)} "
        f"(within layers {_number(stats.within_layer_pair_phi)})",
        "phi across clips": f"{_number(stats.clip_phi)} "
        f"(within layers {_number(stats.within_layer_clip_phi)})",
    }
    for name, value in facts.items():
        about.add_row(name, escape(value))
    console.print(about)

    if meta.quality:
        console.print(_quality_table(meta.quality))

    quantiles = Table(title="TAS over all evaluated steps", title_justify="left")
    for quantile in QUANTILES:
        quantiles.add_column(f"{quantile:.0%}", justify="right")
    if stats.tas_quantiles.size:
        quantiles.add_row(*(f"{value:.3f}" for value in stats.tas_quantiles))
        console.print(quantiles)

    by_frame = Table(title="replay ratio by frame", title_justify="left")
    by_frame.add_column("frame")
    by_frame.add_column("replayed", justify="right")
    for frame, ratio in enumerate(stats.by_frame):
        by_frame.add_row(str(frame), f"{ratio:.1%}" if frame else "never")
    console.print(by_frame)

    by_layer = Table(title="replay ratio by layer", title_justify="left")
    for name in ("layer", "of all steps", "of eligible"):
        by_layer.add_column(name, justify="right" if name != "layer" else "left")
    for layer, ratio in enumerate(stats.by_layer):
        by_layer.add_row(str(layer), f"{ratio.over_all:.1%}", f"{ratio.over_eligible:.1%}")
    console.print(by_layer)

    by_clip = Table(title="replay ratio of eligible steps by row", title_justify="left")
    for name in ("rows", "clip", "conditional", "blank", "phi"):
        by_clip.add_column(name, justify="left" if name in ("rows", "clip") else "right")
    clips = meta.content.get("clips")
    for index, (pair, phi) in enumerate(zip(meta.guidance_pairs, stats.pair_phi, strict=True)):
        clip = clips[index] if isinstance(clips, list) and index < len(clips) else ""
        words = (
            "{photo} {motion} {speed:g}".format_map(clip)
            if isinstance(clip, dict) and {"photo", "motion", "speed"} <= set(clip)
            else str(clip)
        )
        ratios = [f"{stats.by_row[row].over_eligible:.1%}" for row in pair]
        by_clip.add_row(f"{pair[0]}, {pair[1]}", escape(words), *ratios, _number(float(phi)))
    if meta.guidance_pairs:
        console.print(by_clip)


def _quality_line(quality: "Quality") -> str:
    return (
        f"{quality.n_clips} clips against {quality.reference}; loss per token where true tokens "
        f"are fed: {quality.teacher_forced_nats:.3f} nats, of the reference "
        f"{quality.teacher_forced_dense_nats:.3f}"
    )


def _quality_table(quality: "Quality") -> "Table":
    """One row per generated frame, and one over all, for each way of choosing tokens."""
    from rich.table import Table

    table = Table(
        title=f"quality of generated frames (PSNR of peak {quality.peak})", title_justify="left"
    )
    table.add_column("frame")
    for measured in quality.by_sampling:
        way = measured.sampling.replace("_", " ")
        for what in ("PSNR dB", "SSIM", "same tokens"):
            table.add_column(f"{way}: {what}", justify="right")
    columns = [
        numbers
        for measured in quality.by_sampling
        for numbers in (
            [_decibels(each) for each in (*measured.psnr_db_by_frame, measured.psnr_db)],
            [f"{each:.3f}" for each in (*measured.ssim_by_frame, measured.ssim)],
            [
                f"{each:.1%}"
                for each in (*measured.token_agreement_by_frame, measured.token_agreement)
            ],
        )
    ]
    last = quality.first_frame + len(columns[0]) - 2
    for frame, numbers in enumerate(zip(*columns, strict=True), quality.first_frame):
        table.add_row("all" if frame > last else str(frame), *numbers)
    return table


def _decibels(psnr_db: float) -> str:
    return "identical" if psnr_db == float("inf") else f"{psnr_db:.1f}"


def _mean(values: Any) -> str:
    known = values[values == values]
    return _number(float(known.mean()) if known.size else float("nan"))


def _number(value: float) -> str:
    return "unknown" if value != value else f"{value:.3f}"
