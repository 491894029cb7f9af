"""The program of a forward: all layers of a network, and what surrounds them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.decisions.replay import ReplayRule
from carsim.program.block import Block
from carsim.program.convolution import Convolve
from carsim.program.diffusion import (
    AttendAll,
    AttendChunks,
    AttendGroups,
    Cross,
    Enter,
    ForwardBlock,
    ForwardMlp,
    Leave,
    Modulate,
    MoveKeys,
    Project,
    Queries,
    Refine,
    Text,
    fullest_forward,
    network_of,
    part_of_forwards,
)
from carsim.program.dpt_head import dpt_head
from carsim.program.program import TOKEN, Layer, Program
from carsim.program.reads import Reads
from carsim.program.recurrent_head import recurrent_head
from carsim.program.skips import Skip
from carsim.workload.forwards import ForwardKind, forwards_of
from carsim.workload.model import Model
from carsim.workload.network import DepthEncoder, DiffusionTransformer
from carsim.workload.ops import Share
from carsim.workload.sample import Sample
from carsim.workload.workload import TokenReuse

OTHER_SKIPS = "every_module or by_module"
"""Kinds that skip layers in which attention and MLP have their products together."""


def sample_program(  # noqa: PLR0913 - the options of a program, by name
    model: Model,
    skip: Skip | None,
    *,
    decided: bool,
    rule: ReplayRule | None = None,
    reuse: TokenReuse | None = None,
    kind: ForwardKind | None = None,
) -> Program:
    """The layers of a forward.

    Decisions of whole rows are known before the forward. Those of single tokens are known behind
    the block that scores them; a policy that decides before the layer compares the tokens that
    enter the first layer, once a forward.

    Args:
        model: The model; it has a network and a sample.
        skip: What rows skip in forwards that reuse an earlier one; None: nothing is ever reused.
        decided: Decisions are taken in these forwards.
        rule: Rule whose score is computed for each token, where ranges of tokens decide.
        reuse: What tokens reuse; None: whole rows decide.
        kind: Latent frames that pass, of a sample in chunks; None: those of its fullest forward.

    Raises:
        InputError: Tokens cannot skip what the policy skips.
    """
    if skip is not None and reuse is not None:
        _check_parts(skip, reuse)
    network = model.network
    sample = model.sample
    assert network is not None
    assert sample is not None
    if isinstance(network, DepthEncoder):
        layers = _depth_layers(model, network, sample)
    else:
        if kind is None and sample.chunk_frames is not None:
            kind = fullest_forward(model).kind
        layers = _diffusion_layers(model, network, sample, kind=kind)
    if skip is not None and reuse is not None:
        if reuse.beside_forwards:
            layers = [_kept_for_forwards(skip.of_forwards, layer) for layer in layers]
        return _by_token(model, skip.of_tokens, layers, rule=rule, reuse=reuse)
    if skip is not None:
        skip = skip.of_forwards
        if skip.compares_forwards:
            layers = [_compare_patches(layer) for layer in layers]
        layers = _marked(skip, layers, OTHER_SKIPS)
    known_after = _known_before(layers)
    return Program(layers=tuple(layers), known_after=known_after, decided=decided)


def _marked(skip: Skip, layers: Sequence[Layer], other_skips: str) -> list[Layer]:
    """The layers as a skip marks them.

    Args:
        skip: The skip.
        layers: The layers, unmarked.
        other_skips: Kinds that skip layers in which attention and MLP have their products together;
            empty where none can be taken.

    Raises:
        InputError: The skip leaves out the MLP alone, or attention alone, of layers in which both
            have their products together.
    """
    fused = [number for number, layer in enumerate(layers) if _is_fused(layer)]
    marked = []
    for number, layer in enumerate(layers):
        try:
            layer_marked = skip.mark(layer, number)
        except InputError as error:
            if number in fused:
                raise _skips_half(skip, fused, other_skips) from error
            raise
        if number in fused and len({block.follows for block in layer_marked if _inner(block)}) > 1:
            raise _skips_half(skip, fused, other_skips)
        marked.append(layer_marked)
    return marked


def _inner(block: Block) -> int:
    """Width of the MLP's inner layer that a projection of attention makes or takes as well."""
    return block.inner if isinstance(block, Queries | Project) else 0


def _is_fused(layer: Layer) -> bool:
    """Attention and MLP of a layer have their products together."""
    return any(_inner(block) for block in layer)


def _skips_half(skip: Skip, fused: Sequence[int], other_skips: str) -> InputError:
    """Error message if a skip leaves out attention or MLP alone where both are fused."""
    problem = (
        f"skips attention or MLP alone, which have their products together in layers {fused[0]} "
        f"to {fused[-1]}"
    )
    cure = "set model.network.single_stream=apart"
    if other_skips:
        cure = f"{cure}, or take {other_skips}"
    return InputError(f"policy.skip.kind {skip.kind!r}", problem, cure)


def _known_before(layers: Sequence[Layer]) -> dict[str, str | None]:
    """All decisions that blocks follow; None: each is known before the layer."""
    decisions = {block.follows for layer in layers for block in layer if block.follows is not None}
    return dict.fromkeys([TOKEN, *decisions])


def _by_token(
    model: Model,
    skip: Skip,
    layers: Sequence[Layer],
    *,
    rule: ReplayRule | None,
    reuse: TokenReuse,
) -> Program:
    """The layers of a forward in which tokens decide one by one.

    Args:
        model: The model.
        skip: What tokens skip.
        layers: The layers, unmarked.
        rule: Rule of their score.
        reuse: What they reuse.
    """
    place = f"policy.skip.kind {skip.kind!r}"
    if skip.of_whole_forwards:
        cure = "take every_module, by_module, attention_too, attention or mlp"
        raise InputError(place, "skips all layers at once, and tokens decide layer by layer", cure)
    if skip.compares_forwards or skip.decides_before:
        layers = [_compare_patches(layer) for layer in layers]
    layers = _marked(skip, layers, "" if reuse.beside_forwards else OTHER_SKIPS)
    network = model.network
    sample = model.sample
    assert isinstance(network, DiffusionTransformer)
    assert sample is not None
    scored = network.tokens(sample)
    if reuse.source != "step":
        if any(block.name == "qkv" and block.follows for layer in layers for block in layer):
            problem = "leaves out keys and values, which each frame has for itself"
            raise InputError(place, problem, "take mlp, attention or attention_too")
        scored -= network.tokens_per_frame(sample) * (reuse.source == "frame")
    known_after: str | None = None
    if rule is not None and not skip.decides_before:
        known_after = _scoring_block(rule, layers[-1])
        layers = [
            tuple(_with_score(block, rule, scored, at=known_after) for block in layer)
            for layer in layers
        ]
    if sample.chunk_frames is None:
        layers = [tuple(_keeping_keys(block) for block in layer) for layer in layers]
    known_after_of = {**_known_before(layers), TOKEN: known_after}
    return Program(layers=tuple(layers), known_after=known_after_of, decided=True)


def _scoring_block(rule: ReplayRule, layer: Layer) -> str:
    """Name of the block of a layer in which tokens are scored."""
    names = [block.name for block in layer]
    skipped = [block.name for block in layer if block.follows == TOKEN]
    if rule.point == "residual" and "mlp" in names:
        return names[names.index("mlp") - 1]
    return "qkv" if "attention" in skipped else "attention"


def _with_score(block: Block, rule: ReplayRule, scored: int, *, at: str) -> Block:
    """The block; one named ``at`` scores tokens, and a skipped MLP writes what the rule holds."""
    if block.name == at and isinstance(block, ForwardBlock):
        return replace(block, scores=rule, scored=scored)
    if isinstance(block, ForwardMlp) and block.follows is not None:
        return replace(block, rule=rule)
    return block


def _keeping_keys(block: Block) -> Block:
    """The block; projections that tokens skip keep keys and values, as no cache does."""
    if isinstance(block, Queries) and block.follows is not None:
        return replace(block, keeps_keys=True)
    return block


def _check_parts(skip: Skip, reuse: TokenReuse) -> None:
    """Refuse a skip that does not say what both forwards and tokens leave out, or says too much.

    Raises:
        InputError: The skip does not suit what is reused.
    """
    says_both = skip.of_forwards is not skip.of_tokens
    if reuse.beside_forwards and not says_both:
        problem = "forwards reuse others, tokens reuse outputs, and it says one of both"
        cure = (
            "set policy.skip.kind=forwards_and_tokens, or leave every or replay out of `workload`"
        )
        raise InputError(f"policy.skip.kind {skip.kind!r}", problem, cure)
    if says_both and reuse.source == "step":
        problem = "both parts would reuse outputs of earlier steps"
        cure = f"say source=frame or source=chunk, or set policy.skip.kind={skip.of_tokens.kind}"
        raise InputError(f"policy.skip.kind {skip.kind!r}", problem, cure)


def _kept_for_forwards(skip: Skip, layer: Layer) -> Layer:
    """The layer; what a later forward reuses is written where all tokens leave the last layer."""
    if skip.compares_forwards:
        layer = _compare_patches(layer)
    return tuple(
        replace(block, keeps=True) if isinstance(block, Leave) else block for block in layer
    )


def _compare_patches(layer: Layer) -> Layer:
    """The layer; an `Enter` block compares its patches with those of the last forward."""
    return tuple(
        replace(block, compares=True) if isinstance(block, Enter) else block for block in layer
    )


def text_block(model: Model) -> Text | None:
    """The block that prepares a prompt before the forwards; None where there is none."""
    network = model.network
    sample = model.sample
    if not isinstance(network, DiffusionTransformer) or not network.text_tokens:
        return None
    assert sample is not None
    if sample.text_keys == "recomputed":
        return None
    return Text(keys=network.text == "cross")


def _diffusion_layers(
    model: Model, network: DiffusionTransformer, sample: Sample, *, kind: ForwardKind | None
) -> list[Layer]:
    """The layers of a diffusion transformer.

    Args:
        model: The model.
        network: Its network.
        sample: Its sample.
        kind: Latent frames that pass, of a sample in chunks.
    """
    frames = passing_frames(network, sample, kind)
    image = network.tokens_of(sample, frames)
    levels = network.noise_levels(frames)
    recomputes = sample.text_keys == "recomputed"
    joined = network.text in ("streams", "sequence")
    text = network.text_tokens if joined else 0
    layers = []
    for number in range(model.body.n_layers):
        blocks = _layer(model, network, number, tokens=(image, text), kind=kind)
        if number == 0:
            enter: list[Block] = [
                Enter(tokens=image, recomputes_text=recomputes, noise_levels=levels)
            ]
            if network.refiner_blocks:
                enter.append(Refine(tokens=network.text_tokens, blocks=network.refiner_blocks))
            blocks = [*enter, *blocks]
        if number == model.body.n_layers - 1:
            modulates = network.modulation == "block"
            blocks.append(Leave(tokens=image, modulation=modulates, noise_levels=levels))
        layers.append(tuple(blocks))
    return layers


def passing_frames(network: DiffusionTransformer, sample: Sample, kind: ForwardKind | None) -> int:
    """Latent frames that pass a forward.

    Args:
        network: The network.
        sample: Its sample.
        kind: Latent frames of each part, of a sample in chunks.
    """
    return network.latent_frames(sample) if kind is None else sum(kind.frames)


def _layer(
    model: Model,
    network: DiffusionTransformer,
    number: int,
    *,
    tokens: tuple[int, int],
    kind: ForwardKind | None,
) -> list[Block]:
    """The blocks of one layer.

    Args:
        model: The model.
        network: Its network.
        number: Number of the layer.
        tokens: Image and text tokens of a row.
        kind: Latent frames that pass, of a sample in chunks.
    """
    assert model.sample is not None
    frames = passing_frames(network, model.sample, kind)
    body = model.body
    recomputes = model.sample.text_keys == "recomputed"
    image, text = tokens
    every = image + text
    is_dual = network.is_dual(number)
    inner = body.ffn_size if network.is_fused(number) else 0
    blocks: list[Block] = []
    if network.modulation == "block":
        columns = network.modulation_columns(body)
        if network.text == "streams":
            columns = 2 * columns if is_dual else columns // 2
        levels = network.noise_levels(frames)
        blocks.append(Modulate(outputs=columns, noise_levels=levels))
    blocks.append(Queries(tokens=every, text=text, apart=is_dual, inner=inner))
    if network.attention == "alternating":
        attending = network.attending_tokens(model.sample, number, frames)
        blocks.append(AttendGroups(tokens=every, group=attending))
    elif kind is None:
        blocks.append(AttendAll(tokens=every, steps=network_steps(model)))
    else:
        blocks += _attention_of_chunks(model, text, kind)
    blocks.append(Project(tokens=every, text=text, apart=is_dual, inner=inner))
    if network.text == "cross":
        blocks.append(Cross(tokens=image, keys=network.text_tokens, recomputes_keys=recomputes))
    if not inner:
        blocks.append(ForwardMlp(tokens=every, text=text, apart=is_dual))
    return blocks


def network_steps(model: Model) -> int:
    """Denoising steps of a model's sample."""
    assert model.sample is not None
    return model.sample.steps


def _attention_of_chunks(model: Model, text: int, kind: ForwardKind) -> list[Block]:
    """Self-attention of a forward of chunks: a block for each part of it.

    Args:
        model: The model.
        text: Text tokens in the sequence.
        kind: Latent frames of each part.
    """
    if text:
        problem = "text tokens join the sequence, which is not simulated in chunks"
        raise InputError("model.sample.chunk_frames", problem, "leave it out")
    network = network_of(model)
    sample = model.sample
    assert sample is not None
    blocks: list[Block] = []
    if kind.moved:
        passing = network.tokens_of(sample, sum(kind.frames))
        blocks.append(MoveKeys(tokens=passing, moved=network.tokens_of(sample, kind.moved)))
    for number, frames in enumerate(kind.frames):
        keys, done = part_of_forwards(model, number)
        block = AttendChunks(
            tokens=network.tokens_of(sample, frames), keys_of_forward=keys, done_of_forward=done
        )
        blocks.append(block)
    return blocks


def _depth_layers(model: Model, network: DepthEncoder, sample: Sample) -> list[Layer]:
    """The layers of a vision transformer; the first takes patches in, the last has the head."""
    tokens = network.tokens(sample)
    grid = network.grid(sample)
    plain: list[Block] = [
        Queries(tokens=tokens),
        AttendAll(tokens=tokens),
        Project(tokens=tokens),
        ForwardMlp(tokens=tokens, modulated=False),
    ]
    layers = [list(plain) for _ in range(model.body.n_layers)]
    layers[0].insert(0, _patches(network, model.body.hidden_size, grid))
    if network.recurrent is None:
        layers[-1] += dpt_head(network, model.body.hidden_size, grid)
    else:
        layers[-1] += recurrent_head(network, model.body.hidden_size, sample)
    return [tuple(layer) for layer in layers]


def _patches(network: DepthEncoder, width: int, grid: tuple[int, int]) -> Block:
    """The convolution that makes tokens out of pixels: one product for each patch."""
    rows, columns = grid
    return Convolve(
        tokens=rows * columns,
        label_of="patches",
        side=1,
        inputs=3 * network.patch_side**2,
        outputs=width,
        entering=rows * columns,
        width=columns,
    )


def forward_macs(model: Model) -> dict[str, int]:
    """Multiply-accumulates of one row of a forward, by name of block; of chunks in the fullest."""
    program = sample_program(model, None, decided=False)
    macs: Counter[str] = Counter()
    for block, layers in program.blocks.items():
        reads = None
        if isinstance(block, AttendChunks):
            assert model.sample is not None
            fullest = forwards_of(model.sample).index(fullest_forward(model))
            reads = Reads.of_tokens(block.keys_of_forward[fullest])
        rows = block.tokens if block.deals == "all_tokens" else 1
        ops = block.operations(model, reads)(Share(rows))
        macs[block.name] += len(layers) * sum(int(np.max(op.macs)) for op in ops)
    return dict(macs)


def macs_of_all_forwards(model: Model) -> dict[str, int]:
    """Multiply-accumulates of one row of all forwards of a sample, by name of block."""
    sample = model.sample
    assert sample is not None
    if sample.chunk_frames is None:
        return {name: sample.forwards * macs for name, macs in forward_macs(model).items()}
    forwards_of_kind = grouped(
        (forward.kind, number) for number, forward in enumerate(forwards_of(sample))
    )
    macs: Counter[str] = Counter()
    for kind, numbers in forwards_of_kind.items():
        program = sample_program(model, None, decided=False, kind=kind)
        for block, layers in program.blocks.items():
            rows = block.tokens if block.deals == "all_tokens" else 1
            reads = None
            visits = len(numbers)
            if isinstance(block, AttendChunks):
                reads = Reads.of_tokens([block.keys_of_forward[number] for number in numbers])
                visits = 1
            ops = block.operations(model, reads)(Share(rows))
            macs[block.name] += len(layers) * visits * sum(int(np.sum(op.macs)) for op in ops)
    return dict(macs)


def text_macs(model: Model) -> int:
    """Multiply-accumulates of one row that are done once a prompt."""
    block = text_block(model)
    if block is None:
        return 0
    return sum(int(op.macs) for op in block.operations(model, None)(Share(1)))
