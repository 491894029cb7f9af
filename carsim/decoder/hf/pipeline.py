"""Samples by a pipeline of diffusers in a local folder, whose forwards are scored.

Nothing is fetched over the network, and no code of the pipeline's folder is run: all parts must be
classes of diffusers or transformers. Parts without the network itself are the pipeline's own: text
encoder, scheduler, guidance. Pixels are not decoded.
"""

from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.environment import library
from carsim.base.errors import InputError, first_line
from carsim.base.files import read_json
from carsim.base.yaml_file import MAX_BYTES, shown
from carsim.decisions.attention import Dense
from carsim.decisions.replay import FASTCAR, InputChange
from carsim.decisions.trace.file import Trace
from carsim.decisions.trace.meta import TraceMeta
from carsim.decoder.hf.checkpoint import quiet
from carsim.decoder.hf.forwards import ForwardRecorder, Recorded, Wanted
from carsim.decoder.hf.networks import kind_of
from carsim.decoder.pipeline_recipe import PipelineRecipe
from carsim.decoder.token_trace import (
    RangeCounts,
    trace_of_counts,
    trace_of_rows,
    trace_of_scores,
)
from carsim.decoder.workers import Progress
from carsim.workload.hf_config.diffusers import CLASS_NAME, FOLDER

INDEX = "model_index.json"
"""File of a pipeline that names its parts."""

SECOND_NETWORK = "transformer_2"
"""Part that takes some of the steps in place of the first network (Wan 2.2)."""

LIBRARIES = ("diffusers", "transformers")
"""Libraries whose classes may be parts."""

LOOPS = {
    "closed": "closed: tokens that replay take other outputs",
    "open": "open: hooks only look, and nothing is replayed",
}
"""Ways in which decisions act, as a trace says them."""

_CURE = "name a folder that save_pretrained of a pipeline of diffusers wrote"


class LoadedPipeline(NamedTuple):
    """A pipeline.

    Attributes:
        pipeline: The pipeline of diffusers.
        name: Its folder's name and its class.
        software: Versions that the numbers depend on.
    """

    pipeline: Any
    name: str
    software: str


def check_pipeline(folder: Path) -> None:
    """Refuse a pipeline that cannot be used, or whose libraries are missing, without loading it.

    Raises:
        InputError: There is no such pipeline, its network is not read, a part is code of its own,
            or the extra ``diffusers`` is missing.
    """
    index = read_json(folder / INDEX, MAX_BYTES, _CURE)
    place = f"{folder / INDEX}: $"
    if not isinstance(index.get(CLASS_NAME), str):
        problem = f"{shown(index.get(CLASS_NAME))} is no class of diffusers"
        raise InputError(f"{place}.{CLASS_NAME}", problem, _CURE)
    parts = {name: part for name, part in index.items() if isinstance(part, list) and part}
    for name, part in parts.items():
        source = part[0]  # null where the pipeline goes without this part
        if source is not None and source not in LIBRARIES:
            problem = f"{shown(source)} is code of the pipeline's own, which is not run"
            raise InputError(f"{place}.{name}", problem, f"take parts of {' and '.join(LIBRARIES)}")
    if parts.get(SECOND_NETWORK, [None])[0] is not None:
        problem = "two networks share the steps, which is not captured"
        raise InputError(f"{place}.{SECOND_NETWORK}", problem, "take a pipeline of one network")
    config = folder / FOLDER / "config.json"
    network = read_json(config, MAX_BYTES, _CURE)
    kind_of(network.get(CLASS_NAME), f"{config}: $.{CLASS_NAME}")
    for name in ("accelerate", "diffusers", "torch", "transformers"):
        library(name, str(folder))


def load_pipeline(folder: Path, *, dtype: str, device: str) -> LoadedPipeline:
    """Load a pipeline.

    Args:
        folder: Its folder.
        dtype: Arithmetic.
        device: A PyTorch device, such as ``cpu`` or ``cuda``.

    Raises:
        InputError: As :func:`check_pipeline`; or weights cannot be read, or the device not used.
    """
    check_pipeline(folder)
    torch = library("torch", str(folder))
    diffusers = library("diffusers", str(folder))
    transformers = library("transformers", str(folder))
    try:
        with quiet(transformers), quiet(diffusers):
            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                str(folder),
                local_files_only=True,
                use_safetensors=True,
                dtype=getattr(torch, dtype),
            )
            pipeline.to(device)
    except Exception as error:  # a damaged pipeline makes the loaders raise whatever they like
        raise InputError(str(folder), f"cannot be loaded ({first_line(error)})", _CURE) from error
    pipeline.set_progress_bar_config(disable=True)
    software = f"torch {torch.__version__}, diffusers {diffusers.__version__}, {device}"
    name = f"{folder.resolve().name} ({type(pipeline).__name__})"
    return LoadedPipeline(pipeline, name, software)


def capture_pipeline(
    loaded: LoadedPipeline, recipe: PipelineRecipe, progress: Progress | None = None
) -> Trace:
    """Make the samples of a recipe, and keep every decision.

    Args:
        loaded: The pipeline; the recipe's ``weights`` only name it.
        recipe: The samples.
        progress: Called after each forward with denoising steps begun and in all.

    Raises:
        InputError: The recipe does not fit the pipeline, steps have different numbers of guidance
            passes, decisions take too much memory, or the device's memory does not suffice.
    """
    place = f"recipe {recipe.name}"
    torch = library("torch", place)
    wanted = Wanted(
        source=recipe.source,
        tau=float(recipe.tau),
        dense=recipe.dense,
        range_tokens=recipe.range_tokens,
        polynomial=recipe.polynomial,
        is_closed=recipe.loop == "closed",
        steps=recipe.steps,
    )
    pipeline = loaded.pipeline
    recorder = ForwardRecorder(pipeline.transformer, wanted, place)
    options = _options(pipeline, recipe)
    with recorder.attached():
        for number, prompt in enumerate(recipe.prompts):
            recorder.begin_sample()
            generator = torch.Generator("cpu").manual_seed(recipe.seed + number)
            try:
                pipeline(prompt=prompt, generator=generator, **options)
            except torch.cuda.OutOfMemoryError as error:
                cure = "take a smaller size, or dtype: bfloat16"
                raise InputError(place, "out of memory on the device", cure) from error
            except (ValueError, TypeError) as error:  # the pipeline refuses a size or a prompt
                problem = f"{type(pipeline).__name__} refuses it ({first_line(error)})"
                raise InputError(place, problem, "change the fields that it names") from error
            if progress is not None:
                progress(number + 1, len(recipe.prompts))
    return _trace(loaded, recipe, recorder)


def _options(pipeline: Any, recipe: PipelineRecipe) -> dict[str, Any]:
    """Arguments of the pipeline's call that the recipe states.

    Raises:
        InputError: The pipeline has no such argument.
    """
    stated = {
        "guidance_scale": recipe.guidance_scale,
        "height": recipe.height,
        "negative_prompt": recipe.negative_prompt,
        "num_frames": recipe.frames,
        "width": recipe.width,
    }
    fields = {"num_frames": "frames"}
    accepted = signature(pipeline.__call__).parameters
    options: dict[str, Any] = {
        "num_inference_steps": recipe.steps,
        "output_type": "latent",
    }
    for name in ("prompt", *options):
        if name not in accepted:
            problem = f"{type(pipeline).__name__} takes no {name}"
            raise InputError(f"recipe {recipe.name}", problem, "take a pipeline of text")
    for name, value in stated.items():
        if value is None:
            continue
        if name not in accepted:
            field = fields.get(name, name)
            problem = f"{type(pipeline).__name__} takes no {name}"
            raise InputError(f"recipe {recipe.name}: $.{field}", problem, "leave it out")
        options[name] = value
    return options


def _trace(loaded: LoadedPipeline, recipe: PipelineRecipe, recorder: ForwardRecorder) -> Trace:
    """The trace of what was recorded."""
    recorded = recorder.recorded()
    meta = _meta(loaded, recipe, recorder, recorded)
    if recipe.source == "forward":
        rule = InputChange(bits=None)
        return trace_of_rows(meta, recorded.least, float(recipe.tau), rule, recipe.name)
    if recorded.scores is not None:
        return trace_of_scores(meta, recorded.scores, recipe.decided, recipe.name)
    assert recorded.reused is not None
    counts = RangeCounts(recorded.reused, recorded.least, tokens=recorded.grid.tokens)
    return trace_of_counts(meta, counts, recipe.decided, recipe.name)


def _meta(
    loaded: LoadedPipeline, recipe: PipelineRecipe, recorder: ForwardRecorder, recorded: Recorded
) -> TraceMeta:
    """Metadata of a trace in which forwards are steps, each a frame of one token."""
    written = recipe.model_dump(mode="json")
    sizes = {name: written[name] for name in ("height", "width", "frames", "guidance_scale")}
    content: dict[str, Any] = {
        "loop": LOOPS[recipe.loop],
        "software": loaded.software,
        "clips": [{"prompt": prompt} for prompt in recipe.prompts],
        "denoising_steps": recipe.steps,
        "forwards_of_a_step": recorded.passes,
        "latent_frames": recorded.grid.frames,
        "stated_sizes": {name: value for name, value in sizes.items() if value is not None},
    }
    rows = recorded.least.shape[2]
    return TraceMeta(
        producer="carsim capture",
        producer_version=version("carsim"),
        decoded=recorder.geometry,
        simulated=recorder.geometry,
        n_frames=recipe.steps,
        tokens_per_frame=1,
        prompt_tokens=0,
        prompt_lengths=(0,) * rows,
        tau=None,
        rule=FASTCAR,
        attention=Dense(),
        seed=recipe.seed,
        dtype=recipe.dtype,
        mode="sampled",
        weights=loaded.name,
        content=content,
        command=f"carsim capture {recipe.name}.yaml",
    )
