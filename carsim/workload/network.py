"""Networks whose tokens go through all layers together: diffusion transformers, depth encoders.

``model.body`` has the layers (width, heads, width of the MLP), this section has what surrounds
them: how text and time enter, patches, and what follows the last layer. Parameters are counted
exactly. ``carsim validate diffusion`` compares them, and the products of a forward, with published
figures.

Families of diffusion transformers, by how text enters (``text``):

* ``cross``: cross-attention in each layer (Wan, LTX-Video, PixArt);
* ``streams``: text and image tokens attend jointly. The first ``dual_blocks`` layers have weights
  of their own for either; in the others one product makes Q, K, V and the inner layer of the MLP,
  and one takes the outputs of attention and MLP (HunyuanVideo, FLUX);
* ``sequence``: text tokens join the sequence and share all weights (CogVideoX);
* ``none``: a class joins the time (DiT).

Self-attention of ``cross`` and ``none`` may alternate (``attention``): in even layers, tokens of
one latent frame attend to each other, in odd ones the tokens at one place of all latent frames
(Open-Sora 1.2).

Modulation (scale, shift and gate of a layer) is one product with the time for all layers
(``shared``), or one in each layer (``block``), which reads 6 d^2 weights a forward for one row.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.workload.body import Body, Size
from carsim.workload.precision import Role
from carsim.workload.sample import Sample

Triple = Annotated[tuple[PositiveInt, PositiveInt, PositiveInt], Field(strict=False)]
Widths = Annotated[tuple[Size, ...], Field(strict=False)]

FEATURES = 256
"""Sines and cosines of a time step, from which its embedding is made."""

JOINT_MODULATION = 6
"""Vectors of modulation of a layer: scale, shift and gate before attention and before the MLP."""

SINGLE_MODULATION = 3
"""Vectors of modulation of a single-stream layer, in which attention and MLP stand side by side."""

MOST_REFINERS = 256
"""Layers over text tokens at most; no network has a tenth of it."""

HEAD_CHANNELS = 32
"""Channels of the last convolutions of the DPT head."""

MOST_ITERATIONS = 64
"""Iterations of a recurrent head at most; published ones have 4 and 8."""

DEPTH_ANCHORS = 256
"""Distances among which the recurrent head takes the mean, weighted by a softmax."""

NORMAL_CHANNELS = 128
"""Channels of the layers that make the first normals."""

REFINED_CHANNELS = 6
"""Refined maps: depth, its confidence, three parts of a normal, and its confidence."""

UPSAMPLED_SIDE = 4
"""Pixels of a side that a place of the refined maps becomes."""

UPSAMPLED_NEIGHBOURS = 9
"""Places of which an upsampled pixel is the weighted mean."""

GATES = 3
"""Convolutions of a gated recurrent unit: update, reset, and the new state."""


def linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Parameters of a linear layer.

    >>> linear(4, 3)
    15
    """
    return inputs * outputs + outputs * bias


class DiffusionTransformer(GrownSection):
    """A diffusion transformer around the layers of ``model.body``."""

    later: ClassVar[frozenset[str]] = frozenset({"modulation_vectors", "attention"})

    kind: Literal["diffusion"] = "diffusion"
    text: Literal["cross", "streams", "sequence", "none"] = Field(description="how text enters")
    attention: Literal["full", "alternating"] = Field(
        "full",
        description="all tokens attend to each other; or alternating: in even layers those of one "
        "latent frame, in odd layers those at one place of all latent frames (Open-Sora 1.2)",
    )
    text_tokens: NonNegativeInt = Field(0, description="tokens of the prompt, padding included")
    text_width: NonNegativeInt = Field(4096, description="width of what the text encoder gives")
    text_layers: Literal[1, 2] = Field(
        2, description="linear layers between text encoder and transformer"
    )
    refiner_blocks: Annotated[int, Field(ge=0, le=MOST_REFINERS)] = Field(
        0, description="layers over the text tokens alone, once a forward (HunyuanVideo)"
    )
    dual_blocks: NonNegativeInt = Field(
        0, description="first layers, in which text and image tokens have their own weights"
    )
    cross_norm: bool = Field(False, description="the norm before cross-attention has weights")
    modulation: Literal["shared", "block"] = Field(
        "shared", description="one product with the time for all layers, or one in each layer"
    )
    modulation_vectors: PositiveInt = Field(
        JOINT_MODULATION,
        description="vectors of modulation of a layer that has a product of its own: scale, shift "
        "and gate before attention and before the MLP, or less (MAGI-1: two gates)",
    )
    modulation_width: Size | None = Field(
        None, description="width of the time's embedding; absent: the hidden size"
    )
    time_features: Size = Field(FEATURES, description="width of what it is made of")
    vectors: Widths = Field(
        (), description="widths of vectors that join the time: a pooled text, a guidance scale"
    )
    classes: NonNegativeInt = Field(0, description="rows of an embedding of classes (DiT)")
    affine_norms: bool = Field(False, description="norms have weights and biases (CogVideoX)")
    channels: Size = Field(description="latent channels")
    out_channels: Size | None = Field(None, description="absent: as many as channels")
    patch: Triple = Field((1, 2, 2), description="latent frames, rows and columns of a token")
    stride: Triple = Field((4, 8, 8), description="frames, rows and columns of pixels of a latent")

    @model_validator(mode="after")
    def _vectors_are_of_layers(self) -> "DiffusionTransformer":
        is_usual = self.modulation_vectors == JOINT_MODULATION
        if not is_usual and (self.modulation == "shared" or self.text == "streams"):
            problem = f"{self.modulation_vectors}, where layers have no product of one stream"
            cure = "say modulation: block, with text of another kind than streams, or leave it out"
            raise FieldError("modulation_vectors", problem, cure)
        return self

    @model_validator(mode="after")
    def _text_is_outside_of_alternating_attention(self) -> "DiffusionTransformer":
        if self.attention == "alternating" and self.text in ("streams", "sequence"):
            problem = f"'alternating', where text: {self.text} puts text among the tokens"
            raise FieldError("attention", problem, "take text: cross or none, or attention: full")
        return self

    # ---------------------------------------------------------------- geometry

    def latent_frames(self, sample: Sample) -> int:
        """Latent frames of a sample without chunks: the first pixel frame has one of its own."""
        return 1 + (sample.frames - 1) // self.stride[0]

    def tokens_per_frame(self, sample: Sample) -> int:
        """Tokens of a latent frame (of ``patch[0]`` of them)."""
        rows = sample.height // (self.stride[1] * self.patch[1])
        columns = sample.width // (self.stride[2] * self.patch[2])
        return rows * columns

    def tokens(self, sample: Sample) -> int:
        """Image tokens of a forward; of chunks those of one chunk."""
        return self.tokens_of(sample, sample.chunk_frames or self.latent_frames(sample))

    def tokens_of(self, sample: Sample, frames: int) -> int:
        """Tokens of so many latent frames."""
        return -(-frames // self.patch[0]) * self.tokens_per_frame(sample)

    def attending_tokens(self, sample: Sample, layer: int) -> int:
        """Image tokens of a forward that attend to each other in a layer.

        Args:
            sample: The sample.
            layer: Number of the layer.
        """
        if self.attention == "full":
            return self.tokens(sample)
        if layer % 2 == 0:
            return self.tokens_per_frame(sample)
        return self.tokens(sample) // self.tokens_per_frame(sample)

    def pixel_frames(self, sample: Sample) -> int:
        """Pixel frames of a sample; a chunk's latent frame has ``stride[0]`` of them."""
        if sample.chunk_frames is None:
            return sample.frames
        return sample.chunks * sample.chunk_frames * self.stride[0]

    def check(self, sample: Sample) -> None:
        """Refuse a sample that the network cannot make.

        Raises:
            FieldError: Sides or frames that strides and patches do not divide.
        """
        stride = self.stride[0]
        if sample.chunk_frames is None and (sample.frames - 1) % stride:
            lower = sample.frames - (sample.frames - 1) % stride
            problem = f"{sample.frames} is not 1 + a multiple of {stride}, the stride in time"
            raise FieldError("frames", problem, f"give {lower} or {lower + stride}")
        if sample.chunk_frames is not None and sample.chunk_frames % self.patch[0]:
            problem = f"{sample.chunk_frames} is no multiple of {self.patch[0]}, a token's frames"
            raise FieldError("chunk_frames", problem, "give a multiple")
        if sample.chunk_frames is not None and self.attention == "alternating":
            problem = "makes chunks, which alternating attention does not do"
            raise FieldError("chunk_frames", problem, "leave it out")
        for field, axis in (("height", 1), ("width", 2)):
            unit = self.stride[axis] * self.patch[axis]
            check_side(field, getattr(sample, field), unit)

    def check_body(self, body: Body) -> None:
        """Any layers fit a diffusion transformer."""

    # ---------------------------------------------------------------- sizes

    def time_width(self, body: Body) -> int:
        """Width of the embedding of the time."""
        return self.modulation_width or body.hidden_size

    @property
    def patch_size(self) -> int:
        """Elements of a token before the first layer."""
        return self.channels * self.patch[0] * self.patch[1] * self.patch[2]

    @property
    def out_size(self) -> int:
        """Elements of a token behind the last layer."""
        channels = self.out_channels or self.channels
        return channels * self.patch[0] * self.patch[1] * self.patch[2]

    def modulation_columns(self, body: Body) -> int:
        """Outputs of the product that modulates a layer of one stream of tokens."""
        twice = 2 if self.text == "sequence" else 1  # image and text tokens apart
        return twice * self.modulation_vectors * body.hidden_size

    def is_dual(self, layer: int) -> bool:
        """A layer has weights of their own for text and image tokens."""
        return self.text == "streams" and layer < self.dual_blocks

    def is_single(self, layer: int) -> bool:
        """A layer takes attention and MLP side by side."""
        return self.text == "streams" and layer >= self.dual_blocks

    # ---------------------------------------------------------------- parameters

    def weights_by_role(self, body: Body) -> dict[Role, int]:
        """Weights of matrices by role; biases, norms and tables are not among them.

        Weights that modulate are of the role ``mlp``, those before the first and behind the last
        layer of the role ``head``.
        """
        d = body.hidden_size
        layers = body.n_layers
        qkv = d * (body.q_size + body.kv_elements)
        output = d * body.attended_size
        inner = (body.inner_matrices + 1) * d * body.ffn_size
        streams = layers + self.dual_blocks
        modulation = 0
        if self.modulation == "block":
            columns = self.modulation_columns(body)
            singles = layers - self.dual_blocks if self.text == "streams" else 0
            duals = 2 * self.dual_blocks if self.text == "streams" else layers
            modulation = duals * columns + singles * SINGLE_MODULATION * d
            modulation *= self.time_width(body)
        crossing = self.text == "cross"
        return {
            "attention_qkv": streams * qkv + crossing * layers * qkv,
            "attention_output": streams * output + crossing * layers * output,
            "mlp": streams * inner + modulation,
            "head": self._outer_weights(body),
        }

    def _outer_weights(self, body: Body) -> int:
        """Weights of matrices before the first and behind the last layer."""
        d = body.hidden_size
        width = self.time_width(body)
        weights = self.patch_size * d + d * self.out_size
        weights += self.time_features * width + width * width
        weights += sum(vector * d + d * d for vector in self.vectors)
        if self.text_tokens:
            weights += self.text_width * d + (self.text_layers - 1) * d * d
        if self.refiner_blocks:  # its own time, and the pooled text
            weights += FEATURES * d + d * d + self.text_width * d + d * d
            weights += self.refiner_blocks * (6 * d * d + 2 * d * body.ffn_size)
        weights += JOINT_MODULATION * d * width * (self.modulation == "shared")
        return weights + 2 * d * width * (self.modulation == "block")

    def parameters(self, body: Body) -> int:
        """All parameters: weights, biases, norms, tables and classes."""
        weights = sum(self.weights_by_role(body).values())
        return weights + self._small_parameters(body)

    def _small_parameters(self, body: Body) -> int:
        """Biases, norms, tables and classes."""
        d = body.hidden_size
        width = self.time_width(body)
        layers = body.n_layers
        norms = self._norms(body)
        biases = 4 * d + body.inner_matrices * body.ffn_size + d
        if self.text == "streams":
            single = 7 * d + d + norms
            of_layers = self.dual_blocks * 2 * (biases + norms)
            of_layers += (layers - self.dual_blocks) * single
        else:
            of_layers = layers * (biases + norms)
        if self.text == "cross":
            of_layers += layers * (4 * d + norms + 2 * d * self.cross_norm)
        of_time = 2 * width
        final = self.out_size
        if self.modulation == "shared":
            of_layers += layers * JOINT_MODULATION * d  # tables
            of_time += JOINT_MODULATION * d
            final += 2 * d
        else:
            of_layers += self._modulation_biases(body)
            final += 2 * d
        if self.affine_norms:
            of_layers += layers * 4 * d
            final += 4 * d
        entering = d + sum(2 * d for _ in self.vectors) + self.classes * d
        if self.text_tokens:
            entering += self.text_layers * d
        if self.refiner_blocks:
            of_refiner = 4 * d + 4 * d + body.ffn_size + d + 2 * d
            entering += 4 * d + self.refiner_blocks * of_refiner
        return of_layers + of_time + final + entering

    def _modulation_biases(self, body: Body) -> int:
        """Biases of the products that modulate the layers, one in each."""
        columns = self.modulation_columns(body)
        if self.text != "streams":
            return body.n_layers * columns
        singles = body.n_layers - self.dual_blocks
        return self.dual_blocks * 2 * columns + singles * SINGLE_MODULATION * body.hidden_size

    def _norms(self, body: Body) -> int:
        """Weights of the norms of queries and keys of one attention."""
        if not body.qk_norm:
            return 0
        vectors = 2 if self.affine_norms else 1
        if body.qk_norm_span == "layer":
            return vectors * (body.q_size + body.kv_size)
        return vectors * 2 * body.head_dim


class RecurrentHead(Section):
    """Head of Metric3D v2: gated recurrent units of convolutions refine depth and normals.

    Three units work at a quarter, a seventh and a fourteenth of the picture's side (Hu et al.,
    arXiv 2404.15506; RAFT-Stereo, arXiv 2109.07547). An iteration updates the coarse unit three
    times, the middle one twice, and the fine one once.
    """

    iterations: Annotated[int, Field(ge=1, le=MOST_ITERATIONS)] = Field(
        description="updates of depth and normals"
    )
    channels: Size = Field(description="channels of the state at each of the three scales")


class DepthEncoder(GrownSection):
    """A vision transformer (DINOv2) with a head of convolutions that makes a depth map.

    Layers of the encoder are not modulated; LayerScale multiplies what joins the residual. The head
    is one of two:

    * DPT, as Depth Anything has it (Ranftl et al., arXiv 2103.13413). Features of four layers go
      through 1x1 projections, up- and down-sampling, four fusion blocks of two pairs of 3x3
      convolutions, and 3x3 convolutions at full size.
    * With ``recurrent``: the head of Metric3D v2, which makes depth and normals together. Features
      go through a readout that adds class and registers, sampling, and three fusion blocks at a
      fourteenth, a seventh and a quarter of the side. From them follow a first depth and normal,
      and the states and contexts of the recurrent units. The third and fourth feature keep the
      width of the encoder.
    """

    later: ClassVar[frozenset[str]] = frozenset({"recurrent"})

    kind: Literal["depth"] = "depth"
    patch_side: PositiveInt = Field(14, description="pixels of a side of a token")
    registers: NonNegativeInt = Field(0, description="tokens beside patches and class")
    trained_side: PositiveInt = Field(518, description="pixels for which positions are stored")
    head_channels: Annotated[tuple[Size, Size, Size, Size], Field(strict=False)] = Field(
        description="channels of the four features behind their projections"
    )
    fusion_channels: Size = Field(description="channels of the fused features")
    recurrent: RecurrentHead | None = Field(
        None, description="the head of Metric3D v2; absent: the DPT head"
    )

    @model_validator(mode="after")
    def _sides_divide(self) -> "DepthEncoder":
        check_side("trained_side", self.trained_side, self.patch_side)
        return self

    def tokens(self, sample: Sample) -> int:
        """Tokens of an image: patches, one of the class, registers."""
        rows, columns = self.grid(sample)
        return rows * columns + 1 + self.registers

    def grid(self, sample: Sample) -> tuple[int, int]:
        """Rows and columns of patches."""
        return sample.height // self.patch_side, sample.width // self.patch_side

    def scales(self, sample: Sample) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Rows and columns of the recurrent head's three scales, the finest first.

        >>> head = RecurrentHead(iterations=1, channels=8)
        >>> sizes = {"head_channels": (8, 8, 8, 8), "fusion_channels": 8, "recurrent": head}
        >>> DepthEncoder(**sizes).scales(Sample(height=252, width=280))
        ((63, 70), (36, 40), (18, 20))
        """
        rows, columns = self.grid(sample)
        # Features are sampled by 7/2, and a fraction of a place is left out.
        fine = (7 * rows // 2, 7 * columns // 2)
        return fine, (2 * rows, 2 * columns), (rows, columns)

    def pixel_frames(self, sample: Sample) -> int:
        """Images of a sample."""
        return 1

    def check(self, sample: Sample) -> None:
        """Refuse a sample that the network cannot make.

        Raises:
            FieldError: Sides that are no multiple of a patch, or denoising.
        """
        for field in ("height", "width"):
            check_side(field, getattr(sample, field), self.patch_side)
        for field in ("frames", "steps", "passes"):
            if getattr(sample, field) != 1:
                problem = f"{getattr(sample, field)}, where a depth map takes one forward"
                raise FieldError(field, problem, "leave it out")
        if sample.chunk_frames is not None:
            raise FieldError("chunk_frames", "means nothing for a depth map", "leave it out")

    def check_body(self, body: Body) -> None:
        """Refuse a head that does not fit the layers.

        Raises:
            FieldError: Features of the recurrent head that have another width than the layers.
        """
        width = body.hidden_size
        if self.recurrent is None or self.head_channels[2:] == (width, width):
            return
        channels = list(self.head_channels)
        problem = f"{channels} does not end with the hidden size {width} twice"
        cure = f"give {[*channels[:2], width, width]}: the recurrent head keeps that width"
        raise FieldError("head_channels", problem, cure)

    def weights_by_role(self, body: Body) -> dict[Role, int]:
        """Weights of matrices and convolutions by role; the head and the patches are ``head``."""
        patches = 3 * self.patch_side**2 * body.hidden_size
        return {**body.weights_by_role, "head": patches + self._head_parameters(body, bias=False)}

    def parameters(self, body: Body) -> int:
        """All parameters: weights, biases, norms, positions, class, mask and LayerScale."""
        d = body.hidden_size
        positions = (self.trained_side // self.patch_side) ** 2 + 1
        of_layer = 4 * d + 4 * d + body.ffn_size + d + 2 * d
        of_encoder = body.weights + body.n_layers * of_layer
        of_encoder += linear(3 * self.patch_side**2, d) + (2 + self.registers + positions) * d
        return of_encoder + 2 * d + self._head_parameters(body, bias=True)

    def _head_parameters(self, body: Body, *, bias: bool) -> int:
        """Parameters of the head."""
        if self.recurrent is not None:
            return self._recurrent_parameters(body, self.recurrent, bias=bias)
        return self._dpt_parameters(body, bias=bias)

    def _dpt_parameters(self, body: Body, *, bias: bool) -> int:
        """Parameters of the DPT head."""
        fused = self.fusion_channels
        first, second, _, last = self.head_channels
        conv = convolution
        count = sum(
            linear(body.hidden_size, channels, bias=bias) for channels in self.head_channels
        )
        count += conv(4, first, first, bias) + conv(2, second, second, bias)
        count += conv(3, last, last, bias)
        count += sum(conv(3, channels, fused, False) for channels in self.head_channels)
        count += 4 * (conv(1, fused, fused, bias) + 4 * conv(3, fused, fused, bias))
        count += conv(3, fused, fused // 2, bias)
        count += conv(3, fused // 2, HEAD_CHANNELS, bias)
        return count + conv(1, HEAD_CHANNELS, 1, bias)

    def _recurrent_parameters(self, body: Body, head: RecurrentHead, *, bias: bool) -> int:
        """Parameters of the recurrent head, in the order in which they are used."""
        d = body.hidden_size
        fine, middle, coarse, _ = self.head_channels
        fused = self.fusion_channels
        conv = convolution
        # Readout of the four features: patches with a bias; class and registers without.
        count = 4 * (conv(1, d, d, bias) + (1 + self.registers) * d * d)
        # Sampling of the two finer features.
        count += conv(2, d, middle, False) + middle * bias + conv(1, d, fine, bias)
        # Fusion blocks; the coarsest has nothing to be fused with.
        count += 2 * conv(3, d, d, bias) + conv(1, d, d, bias)
        count += 4 * conv(3, d, d, bias) + conv(1, d, middle, bias)
        count += 4 * conv(3, middle, middle, bias) + conv(1, middle, fused + 2, bias)
        # The first depth, and the first normal.
        count += conv(3, fused, DEPTH_ANCHORS, bias) + conv(1, DEPTH_ANCHORS, DEPTH_ANCHORS, bias)
        count += conv(3, fused, NORMAL_CHANNELS, bias)
        count += 2 * conv(1, NORMAL_CHANNELS, NORMAL_CHANNELS, bias)
        count += conv(1, NORMAL_CHANNELS, 3, bias)
        # State and context of each scale, and what the gates take of the context.
        states = head.channels
        for channels in (fine, middle, coarse):
            count += 2 * self._context_parameters(channels, states, bias=bias)
            count += conv(3, states, GATES * states, bias)
        # Recurrent units, from the coarse to the fine one.
        for entering in (2 * states, 3 * states, 2 * states + REFINED_CHANNELS):
            count += GATES * conv(3, entering, states, bias)
        # Changes of depth and of normals, and the weights of upsampling.
        count += 2 * conv(3, states, states, bias)
        count += conv(3, states, 2, bias) + conv(3, states, REFINED_CHANNELS - 2, bias)
        count += conv(3, states, states, bias)
        return count + conv(1, states, UPSAMPLED_SIDE**2 * UPSAMPLED_NEIGHBOURS, bias)

    @staticmethod
    def _context_parameters(channels: int, states: int, *, bias: bool) -> int:
        """Parameters of a residual block of two norms, and of the convolution behind it."""
        count = convolution(3, channels, states, bias) + 2 * convolution(3, states, states, bias)
        norms = 2
        if channels != states:  # the residual is projected, with a norm of its own
            count += convolution(1, channels, states, bias)
            norms += 1
        return count + norms * 2 * states * bias


Network = Annotated[DiffusionTransformer | DepthEncoder, Field(discriminator="kind")]


def convolution(side: int, inputs: int, outputs: int, bias: bool) -> int:
    """Parameters of a convolution of ``side`` x ``side``.

    >>> convolution(3, 2, 4, True)
    76
    """
    return side * side * inputs * outputs + outputs * bias


def check_side(field: str, pixels: int, unit: int) -> None:
    """Refuse a side that is no multiple of a token's.

    Raises:
        FieldError: It is none.
    """
    if pixels % unit:
        lower = max(unit, pixels - pixels % unit)
        problem = f"{pixels} is no multiple of {unit}, the pixels of a token"
        raise FieldError(field, problem, f"give {lower} or {lower + unit}")
