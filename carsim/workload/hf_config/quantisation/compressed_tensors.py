"""compressed-tensors, as LLM Compressor and vLLM have it: groups of modules with their forms.

Scales have 16 bits; those of NVFP4 have 8, and a matrix one of 32 more. Packed weights come with
the shape of their matrix in two numbers of 64 bits. Activations have the bits of
``input_activations``, and the KV cache has those of ``kv_cache_scheme``.
Source: neuralmagic/compressed-tensors, ``quantization/quant_args.py`` and ``compressors``.
"""

import re
from fractions import Fraction
from typing import NamedTuple

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import PUBLISHED
from carsim.workload.hf_config.quantisation.fields import Fields, compiled, is_matched, is_named
from carsim.workload.hf_config.quantisation.form import PER_OUTPUT, Form, Scheme, plain
from carsim.workload.hf_config.tensors import Matrix

SCALE_BITS = 16
SHAPE_BITS = 2 * 64
"""Bits of the shape that lies beside packed weights."""
GLOBAL_SCALE_BITS = 32
"""Bits of a matrix's section scale in NVFP4."""
FP8_SCALE_BITS = 8


CLASSES = ("Linear", "Embedding")
"""Classes of modules that targets name."""


class Target(NamedTuple):
    """Modules that a group is about: the class Linear, a name, or a regular expression."""

    text: str
    pattern: re.Pattern[str] | None

    @property
    def is_general(self) -> bool:
        """The target is a class or a regular expression, and no name."""
        return self.pattern is not None or self.text in CLASSES

    def means(self, matrix: Matrix) -> bool:
        """The module is among the targets."""
        if self.pattern is not None:
            return is_matched(matrix, self.pattern)
        if self.text == "Linear":
            return matrix.is_plain and matrix.role != "embedding"
        if self.text == "Embedding":
            return matrix.role == "embedding"
        return is_named(matrix, [self.text])


class Group(NamedTuple):
    """Targets and their form."""

    targets: list[Target]
    form: Form


def read_compressed_tensors(fields: Fields) -> Scheme:
    """Forms of a compressed-tensors file."""
    packing = fields.text("format")
    groups = []
    activation_bits: list[int] = []
    names: list[str] = []
    for section in fields.inner("config_groups").sections().values():
        weights = section.inner("weights")
        if not weights.raw:  # a group for activations alone
            continue
        form = _form(weights, section.text("format", packing))
        groups.append(Group(_targets(section, "targets"), form))
        names.append(f"{weights.text('type', 'int')}{weights.bits('num_bits')}")
        inputs = section.inner("input_activations")
        if inputs.raw:
            activation_bits.append(inputs.bits("num_bits", 8))
    if not groups:
        raise FieldError(fields.at("config_groups"), "has no group with weights", PUBLISHED)
    ignored = _targets(fields, "ignore")
    # Lists of hundreds of names are compared in one go.
    ignored_names = [target.text for target in ignored if not target.is_general]
    ignored_generally = [target for target in ignored if target.is_general]
    cache = fields.inner("kv_cache_scheme")

    def form_of(matrix: Matrix) -> Form | None:
        if is_named(matrix, ignored_names):
            return None
        if any(target.means(matrix) for target in ignored_generally):
            return None
        return _form_of_group(groups, matrix)

    return Scheme(
        f"compressed-tensors, {' and '.join(dict.fromkeys(names))}",
        form_of,
        activation_bits=max(activation_bits, default=None),
        kv_bits=cache.bits("num_bits", 8) if cache.raw else None,
    )


def _form_of_group(groups: list[Group], matrix: Matrix) -> Form | None:
    """The form of the group that means a matrix; names go before classes."""
    for is_class in (False, True):
        for group in groups:
            targets = [target for target in group.targets if (target.text in CLASSES) == is_class]
            if any(target.means(matrix) for target in targets):
                return group.form
    return None


def _targets(fields: Fields, key: str) -> list[Target]:
    """Entries of a list of targets."""
    targets = []
    for text in fields.names(key):
        pattern = None
        if text.startswith("re:"):
            pattern = compiled(text.removeprefix("re:"), fields.at(key))
        targets.append(Target(text, pattern))
    return targets


def _form(weights: Fields, packing: str) -> Form:
    """Form of a group's weights."""
    bits = weights.bits("num_bits")
    is_symmetric = weights.flag("symmetric", usual=True)
    zero_bits = 0 if is_symmetric else bits
    shape_bits = SHAPE_BITS if packing == "pack-quantized" else 0
    strategy = weights.text("strategy") or ("group" if weights.raw.get("group_size") else "tensor")
    if strategy == "tensor":
        return Form(plain(bits).bits, tensor_bits=SCALE_BITS + zero_bits + shape_bits)
    if strategy == "channel":
        return Form(
            plain(bits).bits,
            group=PER_OUTPUT,
            scale_bits=SCALE_BITS,
            zero_bits=zero_bits,
            tensor_bits=shape_bits,
        )
    if strategy in ("group", "tensor_group"):
        is_float = weights.text("type", "int") == "float"
        has_global = strategy == "tensor_group"
        return Form(
            plain(bits).bits,
            group=weights.whole("group_size", 16 if has_global else None),
            scale_bits=FP8_SCALE_BITS if has_global or (is_float and bits == 4) else SCALE_BITS,
            zero_bits=zero_bits,
            tensor_bits=shape_bits + GLOBAL_SCALE_BITS * has_global,
        )
    if strategy == "block":
        structure = weights.raw.get("block_structure")
        if not isinstance(structure, list) or len(structure) != 2:
            problem = f"should be two sizes such as [128, 128], got {shown(structure)}"
            raise FieldError(weights.at("block_structure"), problem, PUBLISHED)
        block = Fields({"outputs": structure[0], "inputs": structure[1]}, weights.path)
        return Form(
            Fraction(bits),
            group=block.whole("inputs"),
            block_outputs=block.whole("outputs"),
            scale_bits=SCALE_BITS,
        )
    problem = f"{shown(strategy)} is none of tensor, channel, group, tensor_group and block"
    raise FieldError(weights.at("strategy"), problem, PUBLISHED)
