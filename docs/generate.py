"""Make the pages of the reference and the gallery from the code and the studies.

    python docs/generate.py

The tests compare what :func:`pages` returns with the files that are committed.
"""

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT))

from carsim.cli import COMMANDS, carsim  # noqa: E402
from carsim.decoder.recipe import recipe_schema  # noqa: E402
from carsim.design.document import design_schema  # noqa: E402
from carsim.design.load import load_design, shipped_designs, shipped_presets  # noqa: E402
from carsim.explore import axis  # noqa: E402
from carsim.explore.study import study_schema  # noqa: E402
from carsim.hardware.expected import (  # noqa: E402
    COVERAGE_TABLE,
    FORWARD_COVERAGE_TABLE,
    FORWARD_TABLE,
    TABLE,
)
from carsim.hardware.memory import STANDARDS, AccessPattern  # noqa: E402
from carsim.hardware.memory.base import MemoryStandard  # noqa: E402
from carsim.hardware.memory.sustained import SEQUENTIAL, scheduled  # noqa: E402
from carsim.hardware.memory.table import standard  # noqa: E402
from carsim.metrics import METRICS  # noqa: E402
from carsim.metrics.columns import COLUMNS  # noqa: E402
from carsim.validate.claims import claims_page  # noqa: E402
from carsim.validate.forward_intervals import (  # noqa: E402
    forward_coverage,
    forward_table,
)
from carsim.validate.forward_times import forward_times  # noqa: E402
from carsim.validate.intervals import (  # noqa: E402
    calibrated_speed,
    coverage_table,
    coverage_text,
    left_out_speeds,
    one_factor,
    peak_point,
    published_table,
    table_text,
)
from carsim.validate.published import (  # noqa: E402
    Predicted,
    later_rows,
    predict,
    predict_rows,
)

NOTE = "*Made by `python docs/generate.py` from {}; change it there.*"
Schema = dict[str, Any]


def pages() -> dict[str, str]:
    """The text of every page that is made, by its path in docs."""
    made = {
        "reference/commands.md": commands_page(),
        "reference/metrics.md": metrics_page(),
        "reference/columns.md": columns_page(),
        "reference/presets.md": presets_page(),
        "reference/api.md": api_page(),
        "gallery.md": gallery_page(),
        "reference/claims.md": claims_page(),
        **published_files(),
        "../configs/later/rows.md": later_page(),
        os.path.relpath(MEMORY / SEQUENTIAL, DOCS): sequential_table(),
    }
    for kind, (schema_of, opening) in FILES.items():
        made[f"reference/{kind}.md"] = fields_page(kind, schema_of(), opening)
        made[f"schema/{kind}.json"] = json.dumps(schema_of(), indent=2) + "\n"
    return made


MEMORY = ROOT / "carsim/hardware/memory"


def sequential_table() -> str:
    """Efficiency of sequential reads of the memories that most boards have."""
    usual = {
        (row.with_density(gbit), row.channel_bits)
        for row in STANDARDS.values()
        for gbit, _ in row.trfc_ns_by_gbit
    }
    shipped = {
        (standard(memory.standard, memory.density_gbit), memory.part.width(memory.channel_bits))
        for name in shipped_designs()
        for memory in load_design(name).board.memories.values()
    }
    lines = ["standard,density_gbit,burst_bytes,efficiency"]
    for part, bits in usual | shipped:
        burst_bytes = part.burst_length * bits // 8
        found = scheduled(part, AccessPattern(), burst_bytes)
        lines.append(",".join(map(str, (part.name, part.density_gbit, burst_bytes, found))))
    return "\n".join([lines[0], *sorted(set(lines[1:]))]) + "\n"


FILES = {
    "design": (
        design_schema,
        "A design says what is built, and what is decoded on it. Shipped ones: "
        "[presets](presets.md#designs). How to write one: "
        "[describe a board](../howto/describe-a-board.md).",
    ),
    "study": (
        study_schema,
        "A study says which designs a sweep or a search evaluates: "
        "[find the best machine](../tutorials/find-the-best-machine.md).\n\n"
        + re.sub(r"``([^`]+)``", r"`\1`", (axis.__doc__ or "").partition("\n\n")[2]),
    ),
    "recipe": (
        recipe_schema,
        "A recipe says what `carsim capture` decodes, and how: "
        "[traces](../../traces/README.md#recipes).",
    ),
}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    head = list(head)
    lines = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", "\\|") for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(title: str, source: str, *parts: str) -> str:
    """A page of these paragraphs, without empty ones."""
    return (
        "\n\n".join(p.strip("\n") for p in (f"# {title}", NOTE.format(source), *parts) if p) + "\n"
    )


def sentence(text: str) -> str:
    """One paragraph, without the roles of Sphinx, on one line."""
    text = re.sub(r":\w+:`~?([\w.]+\.)?(\w+)`", r"`\2`", text)
    return " ".join(re.sub(r"``([^`]+)``", r"`\1`", text).split())


# Published systems


def published_files() -> dict[str, str]:
    """Every published row next to its predictions, and the intervals that follow from all."""
    predicted = predict_rows()
    times = forward_times()

    def by_name(speeds: Iterable[tuple[Predicted, float]]) -> dict[str, float]:
        return {each.row.name: speed for each, speed in speeds}

    ours = by_name(left_out_speeds(predicted, calibrated_speed))
    factor = by_name(left_out_speeds(predicted, one_factor))
    peak = by_name(left_out_speeds(predicted, calibrated_speed, point=peak_point))

    def cells(each: Predicted) -> Iterator[str]:
        row = each.row
        least, most = each.expected.low, each.expected.high
        speeds = (each.speed, row.at_peak(0.9), row.at_peak(0.8), ours.get(row.name))
        yield from (row.name, f"{row.tok_per_s:g}", row.split)
        for speed in (*speeds, factor.get(row.name), peak.get(row.name)):
            yield "-" if speed is None else f"{100 * (speed / row.tok_per_s - 1):+.1f}"
        yield f"{least:.3g} to {most:.3g}"
        yield "yes" if least <= row.tok_per_s <= most else "**no**"

    head = (
        "row", "tokens/s", "split", "without runtime overhead", "0.9 of peak", "0.8 of peak",
        "calibrated", "one factor", "peak, two constants", "expected tokens/s", "inside",
    )  # fmt: skip
    text = (
        "Errors of tokens/s in %. *Calibrated* is a time per layer, with a share of the bandwidth "
        "where it helps, and *one factor* a factor on all time, both fitted to the other rows of "
        "the system (- if there are none). *Peak, two constants* fits the constants of a "
        "calibration to bytes over the peak bandwidth. The interval is that of the row's kind of "
        "system and type of control, here with the row's own system in it; `carsim validate "
        "boards` prints the coverage with it left out."
    )
    return {
        "../configs/published/rows.md": page(
            "Every published row",
            "the table of published rows",
            text,
            table(head, map(cells, predicted)),
        ),
        f"../carsim/hardware/{TABLE}": table_text(published_table(predicted)),
        f"../carsim/hardware/{COVERAGE_TABLE}": coverage_text(coverage_table(predicted)),
        f"../carsim/hardware/{FORWARD_TABLE}": table_text(forward_table(times)),
        f"../carsim/hardware/{FORWARD_COVERAGE_TABLE}": coverage_text(forward_coverage(times)),
    }


def later_page() -> str:
    """Every row of FPGAs that came later next to its prediction."""

    def cells(each: Predicted) -> Iterator[str]:
        row = each.row
        least, most = each.expected.low, each.expected.high
        yield from (row.name, row.config)
        contexts = sorted({row.first_context, row.last_context})
        yield " to ".join(map(str, contexts))
        yield f"{row.tok_per_s:g}"
        for speed in (each.speed, row.at_peak(0.9), row.at_peak(0.8)):
            yield f"{100 * (speed / row.tok_per_s - 1):+.1f}"
        yield f"{least:.3g} to {most:.3g}"
        yield "yes" if least <= row.tok_per_s <= most else "**no**"
        if row.power_w is None:
            yield "-"
        else:
            yield f"{row.power_w:g} ({each.watts.low_j:.3g} to {each.watts.high_j:.3g})"
        yield row.source

    head = (
        "row", "design", "contexts", "tokens/s", "without runtime overhead", "0.9 of peak",
        "0.8 of peak", "expected tokens/s", "inside", "W (carsim)", "source",
    )  # fmt: skip
    text = (
        "Errors of tokens/s in %. No number of carsim was chosen with these rows in view, and no "
        "expected time or interval rests on them. Power is published for few rows; carsim's "
        "interval stands behind it."
    )
    return page(
        "Every row of FPGAs that came later",
        "the table of later rows",
        text,
        table(head, map(cells, map(predict, later_rows()))),
    )


# Commands


def commands_page() -> str:
    """Every command with its arguments and options, as its help has them."""
    parts = [
        "`carsim` stands for `python3 carsim` in a checkout. Every command has `--help`; most have "
        "`--json`, which prints one JSON document and nothing else. "
        "Exit status: [questions](questions.md#exit-status).",
        table(
            ("command", "what it does"),
            ((f"[carsim {name}](#carsim-{name})", text) for name, text in COMMANDS.items()),
        ),
    ]
    context = click.Context(carsim, info_name="carsim", **carsim.context_settings)
    for name in COMMANDS:
        command = carsim.get_command(context, name)
        assert command is not None
        parts += command_parts(command, click.Context(command, context, name), "##")
    return page("Commands", "the commands", *parts)


def command_parts(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    """Heading, usage, help and options of a command, then those of its subcommands."""
    yield f"{level} {context.command_path}"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```"
    yield paragraphs(command.help or "")
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [option.get_help_record(context) for option in options if "--help" not in option.opts]
    if records:
        told = ((f"`{record[0]}`", record[1]) for record in records if record)
        yield table(("option", "meaning"), told)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from command_parts(child, click.Context(child, context, name), f"{level}#")


def paragraphs(text: str) -> str:
    """A docstring as paragraphs of one line each."""
    return "\n\n".join(sentence(part) for part in text.split("\n\n"))


# Metrics


def metrics_page() -> str:
    """Every figure with unit, meaning and formula."""
    return page(
        "Metrics",
        "`carsim/metrics/table.py`",
        "The figures of a row, which is one policy on one design. Names are those of JSON, CSV, "
        "frames, and the objectives and constraints of studies. `carsim config metrics` prints the "
        "same.",
        table(
            ("name", "unit", "better", "meaning", "formula"),
            (
                (
                    f"`{metric.name}`",
                    metric.unit,
                    metric.better or "",
                    sentence(metric.meaning),
                    f"`{metric.formula}`" if metric.formula else "",
                )
                for metric in METRICS.values()
            ),
        ),
    )


# Columns


def columns_page() -> str:
    """Every column of every CSV."""
    parts = []
    for name, columns in COLUMNS.items():
        own = {key: text for key, text in columns.items() if key not in METRICS}
        rows = [(f"`{key}`", sentence(text)) for key, text in own.items()]
        if len(own) < len(columns):
            rows.append(("every metric", "see [Metrics](metrics.md)"))
        parts += [f"## {name}", table(("column", "meaning"), rows)]
    return page(
        "Columns of CSV files",
        "`carsim/metrics/columns.py`",
        "`carsim run --out DIR` writes `comparison.csv` and `utilisation.csv`, "
        "`carsim sweep` and `search` write `points.csv`, `carsim report --front` writes "
        "`pareto.csv`. Columns of `.parquet` files are the same. An empty cell is a number that "
        "does not exist. Text that a spreadsheet would take as a formula (it "
        "begins with `=`, `+`, `-` or `@`) has an apostrophe in front.",
        *parts,
    )


# Fields


def fields_page(kind: str, schema: Schema, opening: str) -> str:
    """Every section of a file of YAML, with its fields."""
    return page(
        f"Fields of a {kind}",
        f"the code; [schema/{kind}.json](../schema/{kind}.json) says the same to editors",
        opening,
        *Fields(schema).parts(),
    )


class Fields:
    """The sections of a schema, each once, in the order in which a reader meets them."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.seen: set[str] = set()

    def parts(self) -> Iterator[str]:
        """The file itself, or each kind of file, then all sections below it."""
        for name in references(self.schema):
            yield f"## {re.sub(r'(?<=[a-z])(?=[A-Z])', ' ', name).capitalize()}"
            yield docstring(self.schema["$defs"][name])[0]
            yield from self.section(self.schema["$defs"][name], "", name)
        if "properties" in self.schema:
            yield from self.section(self.schema, "", "")

    def section(self, found: Schema, path: str, name: str) -> Iterator[str]:
        """Heading, docstring and fields of a section, then its subsections."""
        properties: dict[str, Schema] = found.get("properties", {})
        kind = properties.get("kind", {}).get("const")
        if path:
            yield f"## {path}{f', kind {kind}' if kind else ''}"
            yield docstring(found)[0]
        shown = {key: value for key, value in properties.items() if key != "kind"}
        if shown:
            notes = docstring(found)[1] | (STANDARD if name == "Timings" else {})
            required = found.get("required", ())
            yield table(
                ("field", "value", "default", "meaning"),
                (
                    (
                        f"`{key}`",
                        self.value(field),
                        default(field, key in required),
                        sentence(field.get("description", notes.get(key, self.opening(field)))),
                    )
                    for key, field in shown.items()
                ),
            )
        for key, field in shown.items():
            below = f"{path}.{key}" if path else key
            for reference in references(field):
                if field.get("type") == "object":
                    below = f"{path}.{key}.NAME" if path else f"{key}.NAME"
                if reference not in self.seen:
                    self.seen.add(reference)
                    yield from self.section(self.schema["$defs"][reference], below, reference)

    def opening(self, field: Schema) -> str:
        """The first sentence on the section that a field holds."""
        texts = [docstring(self.schema["$defs"][name])[0] for name in references(field)]
        return texts[0].partition(". ")[0].split("\n\n")[0].rstrip(".") if len(texts) == 1 else ""

    def value(self, field: Schema) -> str:
        """What a field may be."""
        if "enum" in field:
            return ", ".join(f"`{each}`" for each in field["enum"])
        if "const" in field:
            return f"`{field['const']}`"
        for several in ("anyOf", "oneOf"):
            if several in field:
                found = [self.value(each) for each in field[several] if each.get("type") != "null"]
                return " or ".join(dict.fromkeys(found))
        if "$ref" in field:
            kind = self.schema["$defs"][field["$ref"].rpartition("/")[2]]["properties"].get(
                "kind", {}
            )
            return f"`kind: {kind['const']}`" if "const" in kind else "section"
        of = field.get("type")
        if of == "array":
            return f"list of {self.value(field['items'])}" if "items" in field else "list"
        if of == "object":
            if "preset" in field.get("properties", {}):
                return "`preset: NAME`"
            if "from" in field.get("properties", {}):
                return "`from: FILE`"
            inner = field.get("additionalProperties")
            return (
                f"by name, {self.value(inner)}" if isinstance(inner, dict) else "names and values"
            )
        words = {"integer": "whole number", "boolean": "`true`, `false`", "string": "text"}
        return words.get(of or "", of or "anything") + limits(field)


def docstring(found: Schema) -> tuple[str, dict[str, str]]:
    """Paragraphs of a docstring, and what it says of attributes."""
    text, _, attributes = found.get("description", "").partition("Attributes:")
    notes = re.findall(r"^ *(\w+): ((?:.|\n(?! *\w+: ))*)", attributes, re.MULTILINE)
    return paragraphs(text.strip()), {name: sentence(note).rstrip(".") for name, note in notes}


STANDARD = docstring({"description": inspect.cleandoc(MemoryStandard.__doc__ or "")})[1]
"""What timings of a memory mean: those of a standard."""


def references(field: Schema) -> Iterator[str]:
    """Names of the sections that a field may hold."""
    if "$ref" in field:
        yield field["$ref"].rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        for each in field.get(several, ()):
            yield from references(each)
    by_name = field.get("patternProperties", {}).values()
    for inner in (field.get("items"), field.get("additionalProperties"), *by_name):
        if isinstance(inner, dict):
            yield from references(inner)


def limits(field: Schema) -> str:
    """The range of a number, without ends that only catch nonsense."""
    signs = (
        ("exclusiveMinimum", ">"),
        ("minimum", "≥"),
        ("exclusiveMaximum", "<"),
        ("maximum", "≤"),
    )
    told = [f"{sign} {field[key]:,}" for key, sign in signs if abs(field.get(key, 1e9)) < 1e9]
    return f" {', '.join(told)}" if told else ""


def default(field: Schema, required: bool) -> str:
    """The default as YAML has it."""
    if required:
        return "required"
    value = field.get("default")
    if value is None:
        return ""
    if value in ("", [], {}):
        return "empty"
    if isinstance(value, dict) and "source" in value:
        return f"`{value['value']:g}` ({value['low']:g} to {value['high']:g}): {value['source']}"
    return f"`{json.dumps(value)}`".replace('"', "")


# Presets


def presets_page() -> str:
    """Shipped designs, and presets of boards, models and energy."""
    designs = {name: load_design(name).description for name in sorted(shipped_designs())}
    listed = {"designs": designs, **shipped_presets()}
    parts = []
    for section, named in listed.items():
        rows = ((f"`{name}`", sentence(text)) for name, text in named.items())
        parts += [f"## {section.capitalize()}", table(("name", "what it is"), rows)]
    return page(
        "Designs and presets",
        "the files that carsim ships",
        "`carsim run NAME` takes a design, `board: {preset: NAME}` a preset, of which a design may "
        "change single keys. `carsim config show NAME` spells everything out. Sources of the "
        "figures are in the files (`carsim/design/presets`).",
        *parts,
    )


# Python


def api_page() -> str:
    """Public names of Python, each with its signature and the first sentence of its docstring.

    The site adds the whole docstrings (docs/conf.py).
    """
    parts = [
        "What `import carsim` offers, and the classes that plugins derive from. "
        "[Python](python.md) shows how to use it, [Plugins](plugins.md) the contracts. "
        "On the site, the whole docstrings follow the tables."
    ]
    for title, names in API.items():
        rows = ((f"`{name}`", opening_sentence(public(name))) for name in names)
        parts += [f"## {title}", table(("name", "what it is or does"), rows)]
    return page("Python API", "docstrings", *parts)


def public(name: str) -> Any:
    """An object by its dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def opening_sentence(item: Any) -> str:
    """The first paragraph of a docstring."""
    return sentence((inspect.getdoc(item) or "").split("\n\n")[0])


API = {
    "Designs, traces, workloads": (
        "carsim.load_design", "carsim.open_design", "carsim.override", "carsim.Design",
        "carsim.shipped_designs", "carsim.design_schema", "carsim.design_yaml",
        "carsim.load_trace", "carsim.save_trace", "carsim.Trace", "carsim.shipped_traces",
        "carsim.Workload", "carsim.workload_of",
    ),
    "Runs": (
        "carsim.run", "carsim.Report", "carsim.RowResult", "carsim.save_report", "carsim.summary",
        "carsim.write_page", "carsim.compare", "carsim.RunComparison",
    ),
    "Many designs": (
        "carsim.sweep", "carsim.search", "carsim.pareto", "carsim.load_study", "carsim.Study",
    ),
    "Errors and plugins": (
        "carsim.CarsimError", "carsim.InputError", "carsim.MisfitError", "carsim.load_plugins",
    ),
    "Contracts of kinds": (
        "carsim.hardware.schedule.base.Schedule",
        "carsim.decisions.attention.base.AttentionPolicy",
        "carsim.decisions.replay.base.ReplayRule",
        "carsim.program.skips.base.Skip",
        "carsim.hardware.mapping.base.Mapping",
        "carsim.hardware.memory.base.MemoryStandard",
        "carsim.hardware.memory.base.MemoryFamily",
        "carsim.hardware.technology.base.Technology",
        "carsim.metrics.Metric",
    ),
}  # fmt: skip
"""Heading of the page -> dotted names below it."""


# Gallery


def gallery_page() -> str:
    """A contact sheet of the studies: question, one sentence and picture of each."""
    parts = [
        "Each study answers one question on the design space, on decisions, or on carsim itself. "
        "Its page has the method, the numbers, and the command that remakes it."
    ]
    text = (ROOT / "studies" / "README.md").read_text(encoding="utf-8")
    cells: list[str] = []
    for line in text.splitlines():
        group = re.fullmatch(r"\| \*\*(.+)\*\* \| \|", line)
        study = re.fullmatch(r"\| (.+) \| \[\w+\]\((\w+)/README.md\) \|", line)
        if group:
            parts += [sheet(cells), f"## {group[1]}"]
            cells = []
        if study:
            cells.append(study_cell(study[1], ROOT / "studies" / study[2]))
    return page("Gallery of studies", "the studies", *parts, sheet(cells))


def sheet(cells: list[str]) -> str:
    """Cells two to a row; empty without cells."""
    if not cells:
        return ""
    padded = [*cells, ""] if len(cells) % 2 else cells
    pairs = zip(padded[::2], padded[1::2], strict=True)
    return table(("", ""), pairs)


def study_cell(question: str, folder: Path) -> str:
    """Question, first sentence of the finding, and first picture of a study, on one line."""
    home = os.path.relpath(folder, DOCS)
    text = (folder / "README.md").read_text(encoding="utf-8")
    finding = re.search(r"\*\*Finding\.\*\* (.+?)(?=\n\n)", text, re.DOTALL)
    assert finding is not None, f"{folder.name} has no finding"
    first = re.split(r"(?<=[.)])\s+(?=[A-Z*`])", sentence(finding[1]))[0]
    first = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", first).replace("**", "")
    picture = re.search(r"^(!\[[^]]*\]\()([^)]+)\)$", text, re.MULTILINE)
    shown = f"{picture[1]}{home}/{picture[2]})" if picture else ""
    return f"**[{question}]({home}/README.md)** {first} {shown}".rstrip()


if __name__ == "__main__":
    for name, content in pages().items():
        target = DOCS / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
