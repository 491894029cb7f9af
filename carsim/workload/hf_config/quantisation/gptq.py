"""GPTQ, as AutoGPTQ and GPTQModel store it.

A group of inputs has a scale of 16 bits and a zero point, which is stored for symmetric weights as
well, and every input has the number of its group in 32 bits. ``dynamic`` gives modules bits of
their own, or leaves them out, by regular expressions.
Source: GPTQModel, ``gptqmodel/quantization/config.py`` and ``nn_modules/qlinear``.
"""

import re
from typing import NamedTuple

from carsim.workload.hf_config.quantisation.fields import Fields, compiled, is_matched, is_named
from carsim.workload.hf_config.quantisation.form import PER_OUTPUT, Form, Scheme, plain
from carsim.workload.hf_config.tensors import Matrix

INDEX_BITS = 32
"""Bits of the group's number of an input (``g_idx``)."""

SCALE_BITS = 16


class Rule(NamedTuple):
    """An entry of ``dynamic``: the modules it is about, and their form; None: not quantised."""

    pattern: re.Pattern[str]
    form: Form | None


def grouped_form(bits: int, group: int, *, index_bits: int = INDEX_BITS) -> Form:
    """Weights in groups with a zero point; a group of -1 is all inputs of an output."""
    return Form(
        bits=plain(bits).bits,
        group=PER_OUTPUT if group < 1 else group,
        scale_bits=SCALE_BITS,
        zero_bits=bits,
        input_bits=index_bits,
    )


def read_gptq(fields: Fields) -> Scheme:
    """Forms of a GPTQ file."""
    bits = fields.bits("bits")
    group = fields.whole("group_size", 128, least=-1)
    usual = grouped_form(bits, group)
    rules = _rules(fields.inner("dynamic"), bits=bits, group=group)
    left_out = fields.names("modules_to_not_convert")
    chosen = _chosen(fields)
    with_head = fields.flag("lm_head")

    def form_of(matrix: Matrix) -> Form | None:
        if not matrix.is_plain or is_named(matrix, left_out):
            return None
        if matrix.role == "head" and not with_head:
            return None
        for rule in rules:
            if is_matched(matrix, rule.pattern):
                return rule.form
        if matrix.role == "router":
            return None
        if chosen and matrix.role != "head" and not is_named(matrix, chosen):
            return None
        return usual

    return Scheme(f"GPTQ, {bits} bits", form_of)


def _chosen(fields: Fields) -> list[str]:
    """Modules that are quantised, from a list of lists; empty: all of them."""
    blocks = fields.raw.get("modules_in_block_to_quantize")
    if not isinstance(blocks, list):
        return []
    names = [name for block in blocks if isinstance(block, list) for name in block]
    return [name for name in names if isinstance(name, str)]


def _rules(dynamic: Fields, *, bits: int, group: int) -> list[Rule]:
    """Entries of ``dynamic``, in the file's order: the first that matches decides."""
    rules = []
    for key in dynamic.raw:
        pattern = compiled(key.removeprefix("+:").removeprefix("-:"), dynamic.at(key))
        if key.startswith("-:"):
            rules.append(Rule(pattern, None))
            continue
        section = dynamic.inner(key)
        form = grouped_form(
            section.bits("bits", bits), section.whole("group_size", group, least=-1)
        )
        rules.append(Rule(pattern, form))
    return rules
