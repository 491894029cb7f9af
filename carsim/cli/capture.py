"""``carsim capture``: from a recipe to a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from carsim.base.plugins import loaded_plugins
from carsim.base.yaml_file import read_mapping
from carsim.cli.console import progress_bar, say

if TYPE_CHECKING:
    from carsim.decisions.trace import Trace
    from carsim.decoder.recipe import AnyRecipe


@click.command()
@click.argument(
    "recipes", metavar="RECIPE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write; by default the recipe's output, in the recipe's folder.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=2,
    help="Processes; changes the time and no bit of the result. A checkpoint or pipeline has one.",
)
@click.option("--device", default="cpu", help="PyTorch device of a checkpoint or a pipeline.")
@click.option(
    "--also-from",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Another folder whose files the recipes may name; may be repeated.",
)
@click.option(
    "--calibrate",
    type=float,
    metavar="RATIO",
    help="Write nothing; search the tau that replays RATIO (0 to 1) of the eligible steps.",
)
@click.option(
    "--decision",
    metavar="NAME",
    default="token",
    help="Decision whose tau --calibrate searches, where a recipe makes several; by default token, "
    "that of tau in the recipe.",
)
@click.option(
    "--tau",
    "taus",
    type=float,
    multiple=True,
    metavar="X",
    help="Threshold in place of the recipe's; may be repeated, each writes a trace NAME_tauX.npz.",
)
@click.option(
    "--codes",
    is_flag=True,
    help="The arguments are videos or folders of pictures: write their codes to --out.",
)
def capture(recipes: tuple[Path, ...], out: Path | None, **given: Any) -> None:
    """Decode a video, really replaying, and write its trace.

    Each RECIPE (a YAML file) says what is decoded: content by the reference decoder, prompts by a
    LLaMA-type checkpoint of Hugging Face (weights: {hf: FOLDER}, which needs the extra hf), prompts
    by a pipeline of diffusers (weights: {diffusers: FOLDER}, extra diffusers), or a video in chunks
    by a small diffusion transformer (network, chunks).
    """
    taus = given["taus"]
    ratio = given["calibrate"]
    decision = given["decision"]
    if ratio is None and decision != "token":
        raise click.UsageError("--decision goes with --calibrate")
    if any(map(isnan, taus)):
        raise click.UsageError("--tau: expected a number, got nan")
    if given["codes"]:
        if out is None or ratio is not None or taus:
            raise click.UsageError("--codes goes with --out, without --calibrate or --tau")
        _write_codes(recipes, out, given["overwrite"])
        return
    from carsim.decoder.recipe import parse_recipe

    if out is not None and len(recipes) * max(1, len(taus)) > 1:
        raise click.UsageError("--out names one file: give one RECIPE, and one --tau")
    roots = given["also_from"]
    parsed = [(path, parse_recipe(read_mapping(path), path, also_from=roots)) for path in recipes]
    if ratio is None:
        jobs: list[_Job] = []
        for path, recipe in parsed:
            jobs += _jobs(path, recipe, taus)
        _capture_all(jobs, out, given["overwrite"], given["workers"], given["device"])
    elif taus:
        raise click.UsageError("--calibrate searches a tau, and takes no --tau")
    else:
        _calibrate(parsed, ratio, decision=decision, workers=given["workers"])


class _Job(NamedTuple):
    """A decoding: the recipe's file, the recipe, and what the command says besides."""

    path: Path
    recipe: "AnyRecipe"
    options: str = ""


def _jobs(path: Path, recipe: "AnyRecipe", taus: Sequence[float]) -> list[_Job]:
    """The recipe at each threshold, with a file of its own; as it is where there is none."""
    output = Path(recipe.output)
    jobs = []
    for tau in taus:
        named = f"{output.stem}_tau{tau:g}{output.suffix}"
        changed = recipe.model_copy(update={"tau": tau, "output": named})
        jobs.append(_Job(path, changed, f" --tau {tau:g}"))
    return jobs or [_Job(path, recipe)]


def _capture_all(
    asked: Sequence[_Job], out: Path | None, overwrite: bool, workers: int, device: str
) -> None:
    from carsim.decisions.trace.npz import refuse_existing
    from carsim.decoder.capture import capture as decode_recipe
    from carsim.decoder.capture import check_needs
    from carsim.decoder.chunked.capture import capture_chunks
    from carsim.decoder.chunked.recipe import ChunkRecipe
    from carsim.decoder.hf import capture_hf, capture_pipeline, load_checkpoint, load_pipeline
    from carsim.decoder.hf_recipe import CheckpointRecipe
    from carsim.decoder.pipeline_recipe import PipelineRecipe

    for path, recipe, _ in asked:
        refuse_existing(out or path.parent / recipe.output, overwrite=overwrite)
        check_needs(recipe, path.parent)
    load = lru_cache(maxsize=1)(load_checkpoint)  # once for all thresholds
    load_parts = lru_cache(maxsize=1)(load_pipeline)
    for path, recipe, options in asked:
        with progress_bar(f"decoding {recipe.name}") as progress:
            if isinstance(recipe, CheckpointRecipe):
                model = load(path.parent / recipe.weights.hf, dtype=recipe.dtype, device=device)
                trace = capture_hf(model, recipe, progress=progress)
            elif isinstance(recipe, PipelineRecipe):
                parts = path.parent / recipe.weights.diffusers
                pipeline = load_parts(parts, dtype=recipe.dtype, device=device)
                trace = capture_pipeline(pipeline, recipe, progress=progress)
            elif isinstance(recipe, ChunkRecipe):
                trace = capture_chunks(recipe, progress=progress)
            else:
                trace = decode_recipe(recipe, path.parent, workers=workers, progress=progress)
        plugins = "".join(f" --plugin {Path(file).name}" for file in loaded_plugins())
        command = f"carsim capture {path.name}{options}{plugins}"
        meta = trace.meta.model_copy(update={"command": command})
        _save(out or path.parent / recipe.output, replace(trace, meta=meta), overwrite)


def _write_codes(videos: tuple[Path, ...], out: Path, overwrite: bool) -> None:
    from carsim.decisions.trace.npz import refuse_existing
    from carsim.decisions.trace.shipped import traces_folder
    from carsim.decoder.content.tokens import load_codebook
    from carsim.decoder.content.videos import save_codes

    refuse_existing(out, overwrite=overwrite)
    codebook = load_codebook(traces_folder() / "codebook_512.npz")
    frames_of_scene = save_codes(videos, codebook, out, overwrite=overwrite)
    scenes = ", ".join(f"{name} ({frames} frames)" for name, frames in frames_of_scene.items())
    say(f"{out}: {scenes}; name it as scenes of a recipe")


def _calibrate(
    parsed: "list[tuple[Path, AnyRecipe]]", ratio: float, *, decision: str, workers: int
) -> None:
    from carsim.decoder.calibrate import calibrate as search_tau
    from carsim.decoder.capture import check_needs
    from carsim.decoder.recipe import Recipe

    recipes = [(path, recipe) for path, recipe in parsed if isinstance(recipe, Recipe)]
    if len(recipes) < len(parsed):
        raise click.UsageError(
            "--calibrate takes neither a checkpoint, a pipeline nor a video in chunks"
        )
    for path, recipe in recipes:
        check_needs(recipe.model_copy(update={"quality": None}), path.parent)
    for path, recipe in recipes:
        with progress_bar(f"decoding {recipe.name}") as progress:
            best = search_tau(
                recipe,
                path.parent,
                ratio,
                decision=decision,
                workers=workers,
                progress=progress,
            )
        by = "" if decision == "token" else f" by the decision {decision}"
        say(
            f"tau: {best.tau}  # {recipe.name} replays {best.ratio:.1%} of eligible steps{by}, "
            f"found in {best.decodings} decodings"
        )


def _save(target: Path, trace: "Trace", overwrite: bool) -> None:
    import numpy as np

    from carsim.decisions.trace import captured as decisions_of
    from carsim.decisions.trace import replay_ratio, save_trace

    saved = save_trace(target, trace, overwrite=overwrite)
    measured = saved.meta.content.get("measured")
    if isinstance(measured, dict):
        _say_measured(measured)
    if saved.ranges is not None:
        _say_ranges(target, saved)
        return
    if saved.meta.never_replays and measured is not None:
        say(f"{target}: {saved.size}; nothing is reused", f"sha256 {saved.sha256}")
        return
    overall, eligible = replay_ratio(decisions_of(saved).replay, saved.tokens_per_frame)
    if not overall and np.isfinite(np.asarray(saved.meta.tau, float)).any():
        low = np.nanmin(saved.tas)
        high = np.nanmax(saved.tas)
        cure = "--calibrate RATIO finds a tau"
        if "loop" in saved.meta.content:  # a pipeline, with which no tau is searched
            cure = "give a tau between them"
        say(f"warning: nothing replays, as scores lie between {low:.3g} and {high:.3g}; {cure}")
    say(
        f"{target}: {saved.size}; replayed "
        f"{overall:.1%} of all steps, {eligible:.1%} of eligible steps (first frame left out)",
        f"sha256 {saved.sha256}",
    )
    for name, scored in saved.further.items():
        _, of_decision = replay_ratio(scored.replay, saved.tokens_per_frame)
        say(f"decision {name}: {of_decision:.1%} of eligible steps replay")


def _say_measured(measured: Mapping[str, Any]) -> None:
    """Shares that a policy of attention leaves in, which a design states as its densities."""
    words = {
        "held": "of the tokens of earlier chunks are held (density of temp_cache)",
        "scored": "of the held keys are scored by a query (density of ann)",
        "prompt": "of the prompt are scored (density of ann_ca)",
    }
    for name, phrase in words.items():
        if name in measured:
            say(f"measured: {100 * measured[name]:.1f} % {phrase}")


def _say_ranges(target: Path, trace: "Trace") -> None:
    """The file, the share of tokens that reuse outputs, and the scores that decide."""
    from carsim.base.text import percent

    assert trace.reused is not None
    assert trace.ranges is not None
    share, which = _share_of_tokens(trace)
    size = f"{trace.size} of {trace.ranges.tokens:,} tokens"
    say(f"{target}: {size}; {percent(share)} of {which} replay", f"sha256 {trace.sha256}")


def _share_of_tokens(trace: "Trace") -> tuple[float, str]:
    """The share of tokens that reuse outputs, and of which; says what helps to find a tau."""
    import numpy as np

    assert trace.reused is not None
    assert trace.ranges is not None
    reused = float(trace.reused.sum())
    if trace.range_tas is None:
        return reused / (trace.reused.size * trace.ranges.per_range), "all tokens"
    scored = np.isfinite(trace.range_tas)
    share = reused / max(1, int(np.count_nonzero(scored)))
    if scored.any():
        median = np.nanmedian(trace.range_tas)
        say(f"half of the scores lie above {median:.3g}: about half of the tokens replay at it")
    if not 0 < share < 1 and scored.any():
        low = np.nanmin(trace.range_tas)
        high = np.nanmax(trace.range_tas)
        say(f"warning: all tokens decide alike, as scores lie between {low:.3g} and {high:.3g}")
    return share, "the scored tokens"
