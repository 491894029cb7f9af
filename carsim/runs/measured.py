"""Files of measured decoding speeds: tables of carsim, and what llama-bench prints.

The contents decide the format, not the name of the file:

* a CSV file with the columns of :data:`COLUMNS`;
* what ``llama-bench -o json``, ``-o jsonl`` and ``-o csv`` print;
* a Markdown table of llama-bench (``-o md``, as posted in issues), with other text around it.

llama-bench names neither the layers nor the vocabulary of a model. Its count of parameters tells
which preset it is. Bits per weight are the size over the parameters. Its test ``tg128`` decodes 128
tokens from an empty context; ``tg128 @ d512`` decodes them after 512 tokens. Tests of prompts
(``pp``, ``pg``) are left out.

Simplifications: the bits per weight are one mean of all tensors, the embedding included; keys and
values of a quantised cache count with the bits of the keys.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple

from carsim.base.errors import InputError

COLUMNS = ("tokens_per_s", "workload", "set")
"""Columns of a file of measured points; the last may be absent or empty."""

CACHE_BITS = {"f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5}
CACHE_BITS |= {"q4_1": 5.0, "q4_0": 4.5, "iq4_nl": 4.5}
"""Bits of an element of llama.cpp's types of caches, scales included (ggml-common.h)."""

PARAMETERS_TOLERANCE = 0.005
"""Relative difference of two counts of parameters that are of one model: tables have three digits,
and vocabularies are padded differently."""

GIB = 1024**3

_SIZES = {"GiB": GIB, "MiB": GIB / 1024, "T": 1e12, "B": 1e9, "M": 1e6, "K": 1e3}


@dataclass(frozen=True)
class BenchModel:
    """A model as llama-bench describes it.

    Attributes:
        name: Its name, such as ``llama 8B Q4_K - Medium``.
        size_bytes: Bytes of all tensors.
        parameters: Parameters of the model, its embedding included.
        cache_bits: Bits of an element of the cache of keys and values.
        device: Name of the GPU; empty if the file does not say.
    """

    name: str
    size_bytes: float
    parameters: float
    cache_bits: float
    device: str

    @property
    def weight_bits(self) -> float:
        """Mean bits per weight, to four digits."""
        return float(f"{8 * self.size_bytes / self.parameters:.4g}")

    def precision_changes(self) -> list[str]:
        """Changes of a design that give it the precision of this model."""
        plain = '"group":null,"scale_bits":0,"zero_bits":0'
        return [
            f'model.weights={{"bits":{self.weight_bits:g},{plain}}}',
            f'model.kv={{"bits":{self.cache_bits:g},{plain}}}',
        ]


class MeasuredRow(NamedTuple):
    """One measured decoding speed, as a file states it.

    Attributes:
        place: Its place in error messages.
        tokens_per_s: Decoding speed as text.
        workload: Workload that was timed, such as ``text:128+64``.
        changes: Changes of the design that the file states.
        model: Model that llama-bench names; None if the design or ``changes`` give it.
    """

    place: str
    tokens_per_s: str
    workload: str
    changes: tuple[str, ...] = ()
    model: BenchModel | None = None


def rows_of_file(place: str, content: str) -> Iterator[MeasuredRow]:
    """Read the measured decoding speeds of a file.

    Args:
        place: Name of the file in error messages.
        content: Its contents.

    Raises:
        InputError: No known format, or a row that cannot be read.
    """
    text = content.removeprefix("\ufeff")
    stripped = text.lstrip()
    if stripped.startswith(("[", "{")):
        records = list(_json_records(place, text))
    elif any(line.lstrip().startswith("|") for line in text.splitlines()):
        records = list(_markdown_records(place, text))
    else:
        header = next(csv.reader([text.split("\n", maxsplit=1)[0]], skipinitialspace=True), [])
        if "avg_ts" not in header:
            yield from _table_rows(place, text)
            return
        lines = csv.DictReader(StringIO(text), skipinitialspace=True)
        records = [(f"{place}:{lines.line_num}", row) for row in lines]
    rows = [row for where, record in records if (row := _bench_row(where, record)) is not None]
    if not rows:
        problem = "has no row of decoding (tg128 and such)"
        raise InputError(place, problem, "run llama-bench with -n 128")
    yield from rows


# -------------------------------------------------------------------- private


def _table_rows(place: str, text: str) -> Iterator[MeasuredRow]:
    """Rows of a file with carsim's own columns."""
    lines = csv.DictReader(StringIO(text), skipinitialspace=True)
    columns = lines.fieldnames or []
    if sorted({*columns, "set"}) != sorted(COLUMNS) or len({*columns}) < len(columns):
        problem = f"its columns are {', '.join(columns) or 'none'}"
        cure = f"write {', '.join(COLUMNS)} (set may be absent), or give what llama-bench prints"
        raise InputError(place, problem, cure)
    for row in lines:
        where = f"{place}:{lines.line_num}"
        if None in row or None in row.values():
            problem = f"has more or fewer cells than {len(columns)} columns"
            raise InputError(where, problem, "write a cell for each column, decimals with a point")
        changes = tuple((row.get("set") or "").split())
        yield MeasuredRow(where, row["tokens_per_s"], row["workload"], changes)


def _json_records(place: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Records of a JSON list, or of one JSON object a line."""
    try:
        documents = [json.loads(text)]
    except json.JSONDecodeError:
        try:
            documents = [json.loads(line) for line in text.splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            problem = f"is no JSON: {error.msg} in line {error.lineno}"
            raise InputError(place, problem, "give what llama-bench -o json prints") from None
    records = [
        record
        for document in documents
        for record in (document if isinstance(document, list) else [document])
    ]
    for index, record in enumerate(records):
        where = f"{place}: $[{index}]"
        if not isinstance(record, dict) or "avg_ts" not in record:
            problem = "has no avg_ts"
            raise InputError(where, problem, "give what llama-bench -o json prints")
        yield where, record


def _markdown_records(place: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of Markdown tables that have a column ``t/s``, as llama-bench's JSON has them."""
    header: Sequence[str] = ()
    has_header = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.lstrip().startswith("|"):
            header = ()
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if {"test", "t/s"} <= {*cells}:
            header = cells
            has_header = True
        elif header and not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            where = f"{place}:{number}"
            if len(cells) != len(header):
                problem = f"has {len(cells)} cells under {len(header)} columns"
                raise InputError(where, problem, "copy the table as llama-bench printed it")
            yield where, _as_json(where, dict(zip(header, cells, strict=True)))
    if not has_header:
        problem = "its table has no columns test and t/s"
        raise InputError(place, problem, "copy the table with its header from llama-bench")


def _as_json(where: str, row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a Markdown table with the names that llama-bench's JSON has."""
    test = re.fullmatch(r"(pp|tg)(\d+)(?:\+tg(\d+))?(?:\s*@\s*d(\d+))?", row["test"])
    if test is None:
        problem = f"got the test {row['test']!r}"
        raise InputError(where, problem, "leave in rows such as tg128 and pp512 alone")
    kind, tokens, also, depth = test.groups()
    for column in ("size", "params"):
        if column not in row:
            problem = f"has no column {column}"
            raise InputError(where, problem, "copy the whole table of llama-bench")
    return {
        "model_type": row.get("model", ""),
        "model_size": _quantity(where, row["size"]),
        "model_n_params": _quantity(where, row["params"]),
        "type_k": row.get("type_k", "f16"),
        "n_prompt": int(tokens) if kind == "pp" else 0,
        "n_gen": int(tokens) if kind == "tg" else int(also or 0),
        "n_depth": int(depth or 0),
        "avg_ts": row["t/s"].split("±")[0].strip(),
    }


def _quantity(where: str, text: str) -> float:
    """A number with a unit, such as ``4.58 GiB`` or ``8.03 B``."""
    value, _, unit = text.partition(" ")
    try:
        return float(value) * _SIZES[unit.strip()]
    except (KeyError, ValueError):
        raise InputError(where, f"got {text!r}", "write a size as 4.58 GiB or 8.03 B") from None


def _bench_row(where: str, record: Mapping[str, Any]) -> MeasuredRow | None:
    """A row of llama-bench; None for a test of prompts."""
    try:
        prompt = int(record["n_prompt"])
        new = int(record["n_gen"])
        depth = int(record.get("n_depth") or 0)
        if prompt or not new:
            return None
        model = BenchModel(
            name=str(record.get("model_type") or record.get("model_filename") or "model"),
            size_bytes=float(record["model_size"]),
            parameters=float(record["model_n_params"]),
            cache_bits=CACHE_BITS[str(record.get("type_k") or "f16")],
            device=str(record.get("gpu_info") or ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        problem = f"is no row of llama-bench: {error}"
        cure = "give what llama-bench prints with -o json, -o csv or -o md"
        raise InputError(where, problem, cure) from None
    if not 0.5 <= 8 * model.size_bytes / max(model.parameters, 1.0) <= 64:
        problem = f"{model.size_bytes:g} bytes for {model.parameters:g} parameters"
        raise InputError(where, problem, "check the size and the parameters of the model")
    workload = f"text:{depth}+{new}"
    return MeasuredRow(where, str(record["avg_ts"]), workload, (), model)
