"""AutoRound: stored as GPTQ or AWQ has it, with bits of single modules in ``extra_config``.

Source: intel/auto-round, ``auto_round/export``.
"""

from carsim.workload.hf_config.quantisation.fields import Fields, compiled, is_matched, is_named
from carsim.workload.hf_config.quantisation.form import Form, Scheme
from carsim.workload.hf_config.quantisation.gptq import INDEX_BITS, grouped_form
from carsim.workload.hf_config.tensors import Matrix

FLOAT_BITS = 16
"""Modules with so many bits are not quantised."""


def read_auto_round(fields: Fields) -> Scheme:
    """Forms of an AutoRound file."""
    bits = fields.bits("bits")
    group = fields.whole("group_size", 128, least=-1)
    has_index = "gptq" in fields.text("packing_format", "auto_round:auto_gptq")
    index_bits = INDEX_BITS if has_index else 0
    extra = fields.inner("extra_config")

    def form_of(matrix: Matrix) -> Form | None:
        for key, section in extra.sections().items():
            pattern = compiled(key, extra.at(key)) if set(key) & set("*[(^$\\") else None
            is_meant = is_named(matrix, [key])
            if pattern is not None:
                is_meant = is_matched(matrix, pattern)
            if is_meant:
                own_bits = section.bits("bits", bits)
                own_group = section.whole("group_size", group, least=-1)
                if own_bits >= FLOAT_BITS:
                    return None
                return grouped_form(own_bits, own_group, index_bits=index_bits)
        if not matrix.is_plain or matrix.role in ("head", "router"):
            return None
        return grouped_form(bits, group, index_bits=index_bits)

    return Scheme(f"AutoRound, {bits} bits", form_of)
