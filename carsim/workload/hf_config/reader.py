"""From a model's own file to the section ``model`` of a design.

Simplifications: constants of norms and initialisers make no difference to time or memory; towers
for pictures or sound are left out, so that of a model of text and pictures the text is decoded.
LLaMA stands for LLaMA 1 to 3, TinyLlama, SmolLM, SmolLM2 and Yi. Phi 3 stores Q, K and V as one
matrix, gate and up as another. Layers of DeepSeek that predict tokens beyond the next one are left
out, as the authors' counts do. Where matrices of a role differ within a layer, the role has their
mean there.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.base.files import admit, read_json
from carsim.base.groups import grouped
from carsim.base.section import FieldError, first_problem, tuples
from carsim.base.yaml_file import MAX_BYTES, shown
from carsim.workload.body import Body
from carsim.workload.hf_config.architectures import READ, Architecture, architecture
from carsim.workload.hf_config.diffusers import is_of_diffusers, read_network
from carsim.workload.hf_config.gguf_file import is_gguf, read_gguf
from carsim.workload.hf_config.gguf_types import FLOAT_BITS, gguf_scheme
from carsim.workload.hf_config.keys import DESCRIBE, HfConfig
from carsim.workload.hf_config.nested import Text, read_text
from carsim.workload.hf_config.quantisation import SIDECAR, Scheme, plain, read_scheme
from carsim.workload.hf_config.stored import StoredMatrix, check_stored, expected_bytes
from carsim.workload.hf_config.tensors import Matrix, Shape, matrices
from carsim.workload.hf_config.video import video_fields
from carsim.workload.precision import Role

_SPARSE = "layers without experts between those with experts are not simulated"
UNSUPPORTED = {
    "mlp_only_layers": ([], _SPARSE),
    "moe_layer_freq": (1, "layers without experts are the first ones here"),
    "use_sliding_window": (False, "no published Qwen has windows"),
    "use_bidirectional_attention": (False, "decoding is causal here"),
}
"""Keys that ask for what is not simulated: the value that does not, and the reason."""


class HfFile(NamedTuple):
    """A file that was read.

    Attributes:
        path: The file.
        place: The place in it that the keys are of, as errors name it.
        config: Keys of the text's layers, checked.
        raw: Keys of the text's layers, and those of the whole, as the file has them.
        outer_kind: Type of the model as a whole.
        gguf_scheme: Forms of the tensors of a GGUF file.
    """

    path: Path
    place: str
    config: HfConfig
    raw: Mapping[str, Any]
    outer_kind: str
    gguf_scheme: Scheme | None = None


def load_hf_config(path: Path, kinds: Collection[str] = READ) -> HfFile:
    """Read what a file says of the text's layers, checked key by key.

    Args:
        path: A ``config.json``, or the folder that holds it.
        kinds: Types of model that the caller can use.

    Raises:
        InputError: The file is no such file, is of another type, lacks a key, or holds a value that
            makes no sense or that nothing here can express; one line.
    """
    forms = None
    if is_gguf(path):
        gguf = read_gguf(path)
        forms = gguf.scheme
        kind = gguf.config["model_type"]
        text = Text(path, f"{path}: $", kind=kind, raw=gguf.config, outer_kind=kind)
    else:
        text = read_text(path, kinds)
    entry = architecture(text.kind)
    renamed = {entry.renamed.get(key, key): value for key, value in text.raw.items()}
    for key, (usual, reason) in UNSUPPORTED.items():
        value = renamed.get(key, usual)
        if value != usual:
            problem = f"{shown(value)}: {reason}"
            raise InputError(f"{text.place}.{key}", problem, DESCRIBE)
    try:
        adapted = entry.adapt(renamed)
    except FieldError as error:
        raise InputError(f"{text.place}.{error.field}", error.problem, error.cure) from None
    fields = {**entry.defaults, **adapted, "model_type": text.kind}
    try:
        config = HfConfig.model_validate_json(json.dumps(fields))  # where lists are tuples
    except ValidationError as error:
        first = first_problem(error, fields)
        raise InputError(f"{text.place}.{first.path}", first.problem, first.cure) from None
    return HfFile(
        text.path,
        text.place,
        config,
        raw=text.raw,
        outer_kind=text.outer_kind,
        gguf_scheme=forms,
    )


def read_hf_config(path: Path, *, is_weighed: bool = False) -> dict[str, Any]:
    """The section ``model`` that a file describes.

    Args:
        path: A ``config.json``, or the folder that holds it.
        is_weighed: The design gives the bits of weights itself. The file still gives those of
            activations and the KV cache, if its format is read.

    Raises:
        InputError: As :func:`load_hf_config`; of a network as
            :func:`~carsim.workload.hf_config.diffusers.read_network`.
    """
    if not is_gguf(path) and is_of_diffusers(path):
        return read_network(path, is_weighed=is_weighed)
    file = load_hf_config(path)
    config = file.config
    try:
        section = {"name": _name(file.path, config.saved_as), **_model(config)}
    except FieldError as error:
        raise InputError(f"{file.place}.{error.field}", error.problem, error.cure) from None
    section |= video_fields(file.outer_kind, config)
    bits = config.float_bits
    beside_weights = {key: {"bits": bits} for key in ("kv", "activations", "replay")}
    scheme = file.gguf_scheme
    try:
        scheme = scheme or _scheme(file)
    except InputError:
        if not is_weighed:  # the cure of a format that is not read
            raise
    if scheme is not None and scheme.activation_bits is not None:
        beside_weights["activations"] = {"bits": scheme.activation_bits}
    if scheme is not None and scheme.kv_bits is not None:
        beside_weights["kv"] = {"bits": scheme.kv_bits}
    if is_weighed:
        return {**section, "weights": {"bits": bits}, **beside_weights}
    shape = _shape(file, section)
    if shape is None:  # the design's own check says what is wrong with the body
        return {**section, "weights": {"bits": bits}, **beside_weights}
    stored = stored_forms(matrices(shape), scheme, bits)
    if file.gguf_scheme is None:
        expected = expected_bytes(stored, shape.body, bits)
        check_stored(file.path, expected, shape.body.n_layers)
    norm_bits = bits if file.gguf_scheme is None else FLOAT_BITS
    return {**section, **precisions(stored, scheme, bits, norm_bits=norm_bits), **beside_weights}


def read_gguf_type(name: str, model: Mapping[str, Any]) -> dict[str, Any]:
    """``weights`` and ``weights_by_role`` of a type of GGUF such as ``q4_k_m``.

    Args:
        name: The type.
        model: The section ``model`` of a design, with its body and head.

    Raises:
        FieldError: There is no such type, or the model has no body and no classifier over a
            vocabulary from which the bits of each tensor follow.
    """
    body = model.get("body")
    head = model.get("head")
    if not isinstance(body, Mapping) or not isinstance(head, Mapping):
        raise FieldError(
            "weights", f"{shown(name)} needs a body and a head", "give bits: {bits: 4}"
        )
    try:
        layers = Body.model_validate(tuples(body))
    except ValidationError:
        return {"weights": {"bits": FLOAT_BITS}}  # the design's own check says what is wrong
    scheme = gguf_scheme(name, layers.n_layers, layers.n_heads // layers.n_kv_heads)
    vocabulary = head.get("vocabulary")
    if not isinstance(vocabulary, int):
        problem = f"{shown(name)} is for models with a vocabulary"
        raise FieldError("weights", problem, "give bits: {bits: 4}")
    is_tied = head.get("embedding") == "tied"
    shape = Shape(layers, vocabulary=vocabulary, is_tied=is_tied, names={})
    stored = stored_forms(matrices(shape), scheme, FLOAT_BITS)
    return precisions(stored, scheme, FLOAT_BITS, norm_bits=FLOAT_BITS)


# --------------------------------------------------------------------------- precision


def stored_forms(matrices: list[Matrix], scheme: Scheme | None, bits: int) -> list[StoredMatrix]:
    """The form of each matrix; what no scheme quantises has the bits of the file's type."""
    unquantised = plain(bits)
    if scheme is None:
        return [StoredMatrix(matrix, unquantised) for matrix in matrices]
    return [StoredMatrix(matrix, scheme.form_of(matrix) or unquantised) for matrix in matrices]


def precisions(
    stored: list[StoredMatrix], scheme: Scheme | None, bits: int, norm_bits: int
) -> dict[str, Any]:
    """``weights``, ``weights_by_role`` of the roles that differ, and ``weights_by_layer``.

    The precision of most of the layers' weights is that of ``weights``; that of most of a role's
    weights is that of the role.

    Args:
        stored: All matrices.
        scheme: How they are quantised; None: not at all.
        bits: Bits of what is not quantised.
        norm_bits: Bits of norms.
    """
    if scheme is None:
        return {"weights": {"bits": bits}}
    stored_in = grouped(
        (_RoleInLayer(entry.matrix.role, entry.matrix.layer), entry) for entry in stored
    )
    texts = {
        role_in_layer: json.dumps(_mean_precision(entries))
        for role_in_layer, entries in stored_in.items()
    }
    weights_of: Counter[str] = Counter()
    weights_of_role: dict[Role, Counter[str]] = {}
    for role_in_layer, entries in stored_in.items():
        text = texts[role_in_layer]
        weights = sum(entry.matrix.weights for entry in entries)
        weights_of_role.setdefault(role_in_layer.role, Counter())[text] += weights
        if role_in_layer.layer is not None:
            weights_of[text] += weights
    usual = weights_of.most_common(1)[0][0]
    of_role = {role: counts.most_common(1)[0][0] for role, counts in weights_of_role.items()}
    differing = {role: json.loads(text) for role, text in of_role.items() if text != usual}
    if json.loads(usual) != {"bits": bits}:
        differing["norms"] = {"bits": norm_bits}
    section: dict[str, Any] = {"weights": json.loads(usual)}
    if differing:
        section["weights_by_role"] = differing
    if by_layer := _by_layer(texts, of_role):
        section["weights_by_layer"] = by_layer
    return section


class _RoleInLayer(NamedTuple):
    """A role in one layer; None: outside of the layers."""

    role: Role
    layer: int | None


def _by_layer(
    texts: Mapping[_RoleInLayer, str], of_role: Mapping[Role, str]
) -> list[dict[str, Any]]:
    """Entries of ``weights_by_layer``, those of equal precisions together.

    Args:
        texts: Precision of each role in each layer, as JSON.
        of_role: Precision of each role in the other layers.
    """
    of_layer: dict[int, dict[str, Any]] = {}
    for (role, layer), text in texts.items():
        if layer is not None and text != of_role[role]:
            of_layer.setdefault(layer, {})[role] = json.loads(text)
    layers_of = grouped((json.dumps(roles), layer) for layer, roles in of_layer.items())
    return [{"layers": layers, **json.loads(roles)} for roles, layers in layers_of.items()]


def _mean_precision(entries: list[StoredMatrix]) -> dict[str, Any]:
    """Precision of some matrices, or their mean."""
    forms = dict.fromkeys(json.dumps(entry.form.precision) for entry in entries)
    if len(forms) == 1:
        return entries[0].form.precision
    weights = sum(entry.matrix.weights for entry in entries)
    stored_bits = 8 * sum(entry.form.stored_bytes(entry.matrix) for entry in entries)
    return {"bits": round(float(Fraction(stored_bits, weights)), 6)}


def _scheme(file: HfFile) -> Scheme | None:
    """How the file's weights are quantised; None: they are not."""
    sidecar_path = file.path.parent / SIDECAR
    is_section = file.path.name == "config.json" and admit(sidecar_path).is_file()
    sidecar = read_json(sidecar_path, MAX_BYTES) if is_section else None
    is_of_sidecar = sidecar is not None and "quantization_config" not in file.raw
    try:
        return read_scheme(file.raw, sidecar)
    except FieldError as error:
        # What is about a whole model stands at the top of its file, not among the text's keys.
        place = f"{sidecar_path if is_of_sidecar else file.path}: $"
        raise InputError(f"{place}.{error.field}", error.problem, error.cure) from None


def _shape(file: HfFile, section: Mapping[str, Any]) -> Shape | None:
    """The matrices' shapes; None where the body makes no sense."""
    try:
        body = Body.model_validate(tuples(section["body"]))
    except ValidationError:
        return None
    config = file.config
    return Shape(
        body,
        vocabulary=config.vocab_size,
        is_tied=config.tie_word_embeddings,
        names=architecture(config.model_type).names,
    )


# --------------------------------------------------------------------------- body


def _name(path: Path, saved: object) -> str:
    """Name of the model: what it was saved as, else the folder, else the file."""
    if isinstance(saved, str) and saved.isprintable() and saved.strip("/. "):
        return saved.rstrip("/").split("/")[-1]
    return path.resolve().parent.name if path.name == "config.json" else path.stem


def _model(config: HfConfig) -> dict[str, Any]:
    """Body, head and context."""
    entry = architecture(config.model_type)
    hidden = config.hidden_size
    heads = config.num_attention_heads
    body = {
        "n_layers": config.num_hidden_layers,
        "hidden_size": hidden,
        "n_heads": heads,
        "n_kv_heads": config.kv_heads,
        "ffn_size": config.intermediate_size,
        "head_size": None if config.head_size * heads == hidden else config.head_size,
        "biases": entry.biases(config),
        **entry.body(config),
        **windows_of(config),
        **_experts(config, entry),
        **(_latent(config) if entry.is_latent else {}),
    }
    embedding = "tied" if config.tie_word_embeddings else "separate"
    head = {"kind": "linear", "vocabulary": config.vocab_size, "embedding": embedding}
    return {"body": body, "head": head, "context": config.longest_context}


def windows_of(config: HfConfig) -> dict[str, Any]:
    """Fields of the body for attention windows."""
    entry = architecture(config.model_type)
    layers = range(config.num_hidden_layers)
    local = {layer for layer in layers if entry.is_local(config, layer)}
    if not local:
        return {}
    everywhere = tuple(layer for layer in layers if layer not in local)
    return {"window": config.needed(entry.window_key), "global_layers": everywhere}


def _experts(config: HfConfig, entry: Architecture) -> dict[str, Any]:
    """Experts, and the width of one, which goes before that of the MLP of layers without experts.

    Shared experts of DeepSeek are as wide as others; its first layers have one MLP for all tokens.
    """
    kind = config.model_type
    if not entry.experts_key:
        return {}
    count = getattr(config, entry.experts_key)
    if count is None and kind.startswith("deepseek"):
        return {}  # the files of DeepSeek's models without experts
    count = config.needed(entry.experts_key)
    width = config.moe_intermediate_size
    if width is None:
        is_one_width = kind in ("mixtral", "gpt_oss", "llama4_text")
        width = config.intermediate_size if is_one_width else config.needed("moe_intermediate_size")
    experts: dict[str, Any] = {
        "count": count,
        "active": config.needed("num_experts_per_tok"),
        "shared_ffn_size": (config.n_shared_experts or 0) * width,
        "router_bias": config.topk_method == "noaux_tc",
        "dense_layers": config.first_k_dense_replace,
        "dense_ffn_size": config.intermediate_size * (config.first_k_dense_replace > 0),
    }
    if config.decoder_sparse_step > 1:
        experts["step"] = config.decoder_sparse_step
        experts["dense_ffn_size"] = config.intermediate_size
    if kind == "qwen2_moe":
        experts["shared_ffn_size"] = config.needed("shared_expert_intermediate_size")
        experts["shared_gate"] = experts["shared_ffn_size"] > 0
    if kind == "llama4_text":
        step = config.interleave_moe_layer_step
        experts["shared_ffn_size"] = width
        experts["step"] = step
        experts["dense_ffn_size"] = config.needed("intermediate_size_mlp") if step > 1 else 0
    if kind == "gpt_oss":
        experts["router_bias"] = True
        experts["biases"] = True
    return {"experts": experts, "ffn_size": width}


def _latent(config: HfConfig) -> dict[str, Any]:
    return {
        "n_kv_heads": 1,
        "head_size": config.needed("qk_nope_head_dim"),
        "latent": {
            "rank": config.needed("kv_lora_rank"),
            "rotary_size": config.needed("qk_rope_head_dim"),
            "value_size": config.needed("v_head_dim"),
            "query_rank": config.q_lora_rank,
        },
    }
