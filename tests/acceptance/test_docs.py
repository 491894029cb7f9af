"""What the documents show is what happens."""

import csv
import os
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from readme import (
    DOCUMENTS,
    NUMBERS,
    README,
    ROOT,
    Folder,
    blocks,
    commands,
    execute,
    matches,
    pieces,
    refreshed,
    with_numbers,
)
from turns import turn

from carsim import load_design, load_trace, override, run
from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import RULES
from carsim.decisions.trace.stats import phi
from carsim.report.notes import notes_of
from carsim.validate.published import predict_rows

TEXT = README.read_text(encoding="utf-8")


def test_the_readme_is_short_and_has_a_block_that_is_executed() -> None:
    assert len(TEXT.splitlines()) < 90
    assert any(block.language == "console" for block in blocks(TEXT))


def prose(text: str) -> str:
    """A document without its blocks, comments and the marks of tables."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    return re.sub(r"\|[-: |]*\||\|", " ", text)


@pytest.mark.parametrize(
    "tutorial", sorted((ROOT / "docs/tutorials").glob("*.md")), ids=lambda path: path.stem
)
def test_a_tutorial_is_short_and_has_a_picture(tutorial: Path) -> None:
    text = tutorial.read_text(encoding="utf-8")
    assert len(prose(text).split()) <= 900
    assert "![" in text


@pytest.mark.parametrize(
    "study", sorted((ROOT / "studies").glob("*/README.md")), ids=lambda path: path.parent.name
)
def test_a_study_has_at_most_600_words_and_one_figure(study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    assert len(prose(text).split()) <= 600
    assert text.count("![") == 1
    assert "(details.md)" in text


def test_the_page_on_trust_is_short() -> None:
    text = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    assert len(prose(text).split()) <= 600


def test_each_line_of_the_first_screen_is_explained() -> None:
    text = (ROOT / "docs/start/output.md").read_text(encoding="utf-8")
    (screen,) = (commands(block.body)[0][1] for block in blocks(text))
    first, *_, last = screen.split("\n\n")
    lines = [*first.splitlines(), *last.splitlines()]
    labels = {line[:11].strip() for line in lines if not line.startswith(" ")} - {""}
    assert {"design", "expected", "fits", "10 % more", "next"} <= labels
    explained = text.replace(screen, "")
    unexplained = {
        label
        for label in labels
        if f"| {label} |" not in explained and f"*{label}*" not in explained
    }
    assert unexplained == set()


def test_every_page_of_a_shelf_is_in_the_navigation() -> None:
    navigation = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs/reference/README.md").read_text(encoding="utf-8")
    for page in DOCUMENTS[1:]:
        name = page.relative_to(ROOT / "docs").as_posix()
        is_listed = f"({name})" in navigation or f"({page.name})" in reference
        assert is_listed or name in ("README.md", "reference/README.md"), name


LONG_PAGES = (
    "docs/howto/run-diffusion.md",
    "docs/howto/draw-figures.md",
    "docs/howto/reuse-in-diffusion.md",
    "docs/tutorials/test-your-skipping-rule.md",
    "docs/reference/measurement.md",
    "docs/reference/validation.md",
    "docs/howto/compare-published-numbers.md",
    "docs/howto/run-on-a-cluster.md",
    "docs/tutorials/simulate-your-board.md",
    "docs/howto/explore-a-front.md",
    "docs/tutorials/find-the-best-machine.md",
    "docs/reference/plugins.md",
    "docs/reference/ideas.md",
)
"""Pages whose blocks take some ten seconds. Commits take turns, a third of them each; CARSIM_LONG
takes all."""


def test_long_pages_are_pages() -> None:
    assert set(LONG_PAGES) <= {page.relative_to(ROOT).as_posix() for page in DOCUMENTS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_of_a_document_does_what_it_shows(document: Path, tmp_path: Path) -> None:
    page = document.relative_to(ROOT).as_posix()
    if page in LONG_PAGES and "CARSIM_LONG" not in os.environ:
        is_its_turn = LONG_PAGES.index(page) % 3 == turn() % 3
        if not is_its_turn:
            pytest.skip("a long page, whose turn it is not; set CARSIM_LONG")
    folder = Folder(tmp_path)
    text = document.read_text(encoding="utf-8")
    problems = [execute(block, folder)[0] for block in blocks(text)]
    problems += with_numbers(text, folder)[0]
    assert not any(problems), "python tests/readme.py refreshes outputs\n" + "\n".join(problems)


MARKED = """It takes 1.0 s,
and 2,000 steps.

<!-- numbers: python
{2 / 2:.1f} -> takes # s
{4381:,} -> and # steps
{1} -> is # nowhere
-->
"""


def test_a_block_that_is_not_run_hides_no_later_block() -> None:
    skipped = "<!-- not run: too long -->\n```console\n$ carsim first\n```\n"
    text = f"{skipped}\n```console\n$ carsim second\n```\n\n{skipped}"
    assert [block.body for block in blocks(text)] == ["$ carsim second\n"]


def test_a_stale_number_of_a_sentence_is_found_and_refreshed(tmp_path: Path) -> None:
    stale, text = with_numbers(MARKED, Folder(tmp_path))
    assert stale == [
        "'and # steps': 2,000 is 4,381 now",
        "'is # nowhere' stands 0 times in the document",
    ]
    assert text.startswith("It takes 1.0 s,\nand 4,381 steps.")


def test_numbers_of_a_run_are_those_of_its_command(tmp_path: Path) -> None:
    text = "It takes 1 s.\n\n<!-- numbers: carsim run zcu102 --trace vilau_8f\n"
    text += '{own["seconds_per_video"]:.0f} -> takes # s\n-->\n'
    report = run("zcu102", ["vilau_8f"])
    stale, text = with_numbers(text, Folder(tmp_path))
    assert len(stale) == 1
    assert text.startswith(f"It takes {report.chosen.seconds_per_video:.0f} s.")


def test_documents_mark_numbers_of_their_sentences() -> None:
    comments = [
        match for path in DOCUMENTS for match in NUMBERS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert sum(len(match["lines"].splitlines()) for match in comments) >= 7


def test_the_two_commands_of_the_readme_are_those_that_ci_calls() -> None:
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert os.access(ROOT / ".ci/run", os.X_OK)
    run, test = (
        "python3 carsim run configs/zcu102.yaml --trace traces/vilau_8f.npz",
        "python3 tests",
    )
    assert f"$ {run}\n" in TEXT
    for to, command in (("run", run), ("test", test)):
        assert f"| install and {to} | `{command}` |" in TEXT
        assert f"\n    {command}\n" in ci


def test_pages_that_are_made_are_fresh() -> None:
    made = runpy.run_path(str(ROOT / "docs/generate.py"))["pages"]()
    stale = [
        name
        for name, content in made.items()
        if (ROOT / "docs" / name).read_text(encoding="utf-8") != content
    ]
    assert not stale, "python docs/generate.py makes them"
    unsaid = [
        f"{name}: {line}"
        for name, content in made.items()
        for line in content.splitlines()
        if name.startswith("reference/")
        and line.startswith("| `")
        and line.endswith("|  |")
        and not name.endswith("metrics.md")
    ]
    assert not unsaid, "a field or an option without a meaning"


def test_every_policy_stands_with_its_paper() -> None:
    text = (ROOT / "docs/reference/policies.md").read_text(encoding="utf-8")
    for kind, policy in {**ATTENTION, **RULES}.items():
        if not policy.__module__.startswith("carsim."):  # registered by a document
            continue
        number = policy.paper.removeprefix("arXiv ")
        row = rf"^\| .*`{kind}`.*{re.escape(number)}|^\| .*{re.escape(number)}.*`{kind}`"
        assert re.search(row, text, re.MULTILINE), kind


def test_citation_and_changelog_are_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    bibtex = (ROOT / "CITATION.bib").read_text(encoding="utf-8")
    assert f"version = {{{citation['version']}}}" in bibtex
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    latest = re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert latest[1] in ("Unreleased", project["version"])
    assert "### Model changes" in changelog


def flat(name: str) -> str:
    """A document without line breaks."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_figures_between_the_blocks_are_those_of_a_run() -> None:
    trace = load_trace(ROOT / "traces/vilau_8f.npz")
    report = run(load_design("zcu102"), [trace])
    dense, fastcar = report.row("dense, static"), report.chosen
    (memory,) = (path for path in fastcar.simulation.plan.hw.paths if path.name == "ps_ddr")
    step_s = dense.ms_per_token / 1000
    prefill_s = dense.latency_s - step_s * dense.simulation.plan.video.n_steps
    # 13.52e9 MAC per step, see tests/hardware/technology/test_energy.py.
    macs_per_cycle = 13.52e9 / (step_s * report.design.board.fabric_clock_mhz * 1e6)
    # Bytes of decoding: the prompt streams the weights many times, whatever replays.
    prompt_gb = sum(dense.simulation.totals["prefill"].dram_bytes) / 1e9 / dense.videos
    dense_gb, fastcar_gb = (row.dram_gb_per_video - prompt_gb for row in (dense, fastcar))
    saved = 1 - fastcar_gb / dense_gb
    # MLPs are 3 x 11008 of 3 x 11008 + 4 x 4096 columns of a layer's weights, those 3.364e9 B.
    mlps = 3 * 11008 / (3 * 11008 + 4 * 4096) * 3.364 * 2048 / dense_gb
    eligible = fastcar.replay_eligible
    eligible_steps = trace.replay[trace.tokens_per_frame :]
    acting = eligible_steps.any(axis=(0, 2))  # layers that may replay
    pairs = trace.meta.guidance_pairs
    together = [phi(*(eligible_steps[:, acting, row] for row in pair)) for pair in pairs]
    for text in (
        f"| {memory.sustained_gbps:.2f} GB/s: four ports",
        f"the DRAM would sustain {memory.dram_gbps:.1f} |",
        f"| 254 ms | {1000 * step_s:.1f} ms |",
        f"| 254 ms | {1000 * step_s * memory.sustained_gbps / 14.5:.0f} ms |",
        f"| 3.67 GB | {dense_gb / 2048:.2f} GB |",
        f"| 520 s | {dense.latency_s:.1f} s, of which {prefill_s:.1f} s of prefill",
        f"| 214 | {macs_per_cycle:.0f} of 512",
        f"{eligible:.1%} eligible replay, {0.875 * eligible**2 * mlps:.0%} of".replace("%", " %"),
        f"independently, {0.875 * eligible * mlps:.0%} if they always agreed".replace("%", " %"),
        f"in this trace (phi {np.mean(together):.2f}) it is {saved:.0%}.".replace("%", " %"),
    ):
        assert text in flat("docs/reference/validation.md"), text


def test_errors_of_boards_are_those_of_the_table_beside_them() -> None:
    """The table is an executed output; after the count of a row stand its mean and its median."""
    validation = (ROOT / "docs/reference/validation.md").read_text(encoding="utf-8")
    row = r" +\d+ +([\d.]+) +([\d.]+).*\n - [^\n]*? +\d+ +([\d.]+) +([\d.]+)"

    def of(title: str) -> list[str]:
        (found,) = re.findall(rf"^ {re.escape(title)}{row}", validation, re.MULTILINE)
        return [f"{float(each):.1f} %" for each in found]

    inside, outside = of("tokens/s, in scope"), of("tokens/s, out of scope")
    unseen, at_0_8 = of("tokens/s, unseen"), of("tokens/s, unseen (0.8)")
    fitted, of_unseen = of("calibrated by row"), of("calibrated by row, unseen")
    rival, rival_unseen = of("peak rival by row"), of("peak rival by row, unseen")
    expected_in = of("expected, in scope")
    fpga, gpu, npu = of("expected, FPGAs"), of("expected, GPUs"), of("expected, NPUs")
    for name, texts in {
        "docs/trust.md": (
            f"| {inside[0]} (median {inside[1]}) |",
            f"| {inside[2]} (median {inside[3]}) |",
            f"| {outside[0]} | {outside[2]} |",
            f"| {unseen[0]} | {unseen[2]}; 0.8 x peak",
            f"errs by {at_0_8[2]}",
            f"| {fitted[0]} (unseen: {of_unseen[0]}) | {fitted[2]}",
            f"**{rival[2]} (unseen: {rival_unseen[2]})**, the same two constants",
            f"(14 in scope: {expected_in[0]}) | {fpga[0]} | {fpga[2]}, 0.9 of peak with a factor "
            f"of its own (in scope: {expected_in[2]})",
            f"| {gpu[0]}, {npu[0]} | {gpu[2]}, {npu[2]} |",
        ),
        "README.md": (f"FPGAs err by {fpga[0]} on average",),
        "docs/reference/validation.md": (rival[2], fitted[0], of_unseen[0]),
        "docs/reference/limits.md": (unseen[0], unseen[2], at_0_8[2], of_unseen[0]),
    }.items():
        assert all(text in flat(name) for text in texts), (name, texts)
    found = {each.row.name: each.point for each in predict_rows() if "RK3576" in each.row.name}
    tiny = [point for name, point in found.items() if "TinyLlama" in name and "groups" not in name]
    longer = sorted((point.measured_us - point.bound_us) / 1000 for point in tiny)
    assert f"{longer[1]:.1f} ms a token longer" in flat("docs/reference/validation.md")
    assert f"with 8-bit weights {longer[0]:.1f} ms" in flat("docs/reference/validation.md")


def test_the_comment_of_the_first_machine_is_that_of_a_run() -> None:
    report = run(load_design("zcu102_head"), [load_trace(ROOT / "traces/vilau_8f.npz")])
    head_s = report.chosen.latency_s - report.chosen.body_latency_s
    comments = (ROOT / "configs/zcu102_head.yaml").read_text(encoding="utf-8")
    assert f"{head_s:.1f} s a video" in comments


def test_other_mappings_beat_the_bound_by_what_the_documents_say() -> None:
    trace = load_trace(ROOT / "traces/vilau_8f.npz")
    design = load_design("u280_compute_bound")
    shipped = run(design, [trace])
    bound_s = shipped.bound.latency_s
    one_core = {"cores": 1, "array.rows": 64, "vector.lanes": 64}
    assert one_core["array.rows"] == design.machine.cores * design.machine.array.rows
    others: tuple[dict[str, Any], ...] = (
        {"mapping": "hybrid"},
        {"mapping": "tensor", "activation_buffer_kib": 512},
        {**one_core, "activation_buffer_kib": 1024, "kv_buffer_kib": 1024},
    )
    model = flat("docs/reference/machine.md")
    assert "u280_compute_bound" not in " ".join(notes_of(shipped)), "where DRS gains nothing"
    assert f"the bound is {bound_s:.1f} s a batch" in model
    for machine in others:
        other = override(design, {f"machine.{key}": value for key, value in machine.items()})
        latency_s = run(other, [trace]).chosen.latency_s
        change = latency_s / bound_s - 1
        assert f"| {latency_s:.1f} s | {change:+.1%} |".replace("%", " %") in model


def anchor(heading: str) -> str:
    """The anchor that forges and the site give a heading."""
    words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower())
    return words.strip().replace(" ", "-")


def without_code(text: str) -> str:
    """A document without its fenced blocks and code within lines."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def headings(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def broken_links(document: Path) -> list[str]:
    """Links of a document to files that are not there, or to headings that these do not have."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(document.read_text(encoding="utf-8"))):
        name, _, heading = link.partition("#")
        target = document.parent / name if name else document
        if re.match(r"https?:|mailto:", link):
            continue
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    return broken


def coined(text: str) -> list[str]:
    """Coined words of the table of terms in a document, each with the term to write instead."""
    with (ROOT / "tests/data/terms.csv").open(encoding="utf-8", newline="") as file:
        terms = [(row["coined"], row["write instead"]) for row in csv.DictReader(file)]
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return [
        f"{found[0]}: {instead}"
        for pattern, instead in terms
        for found in re.finditer(rf"\b{pattern}\b", prose, re.IGNORECASE)
    ]


CHANGES = ROOT / "docs/changes"
"""Parts of the changelog, which may name what is gone; only the guide is a document."""

LINKED = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent != CHANGES),
    CHANGES / "README.md",
    *sorted(ROOT.glob("studies/**/README.md")),
    *sorted(ROOT.glob("studies/*/details.md")),
    ROOT / "traces/README.md",
    ROOT / "configs/networks/README.md",
    ROOT / "configs/published/README.md",
]


@pytest.mark.parametrize("document", LINKED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere_and_terms_are_those_of_the_field(document: Path) -> None:
    assert broken_links(document) == []
    if document.name != "CHANGELOG.md":
        assert coined(document.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b, `c`\n[x](#a-b-c) [y](#d) [z](e.md) [w](page.md#a-b-c) `[v](f.md)`\n")
    assert broken_links(page) == ["#d", "e.md"]


def test_outputs_are_compared_line_by_line_but_for_ellipses() -> None:
    body = "$ carsim a \\\n    b\nx 1\n...\nz 3\n$ carsim c\n"
    assert commands(body) == [("carsim a \\\n    b", "x 1\n...\nz 3\n"), ("carsim c", "")]
    shown = commands(body)[0][1]
    assert pieces(shown) == ["x 1\n", "z 3\n"]
    assert matches(shown, "x 1\ny 2\nz 3\n")
    assert not matches(shown, "x 1\ny 2\nz 4\n")
    assert not matches(shown, "x 1\ny 2\nz 3\nmore\n")
    assert refreshed(shown, "x 5\ny 6\ny 7\nz 8\n") == "x 5\n...\nz 8\n"


def test_a_python_block_that_lies_is_found(tmp_path: Path) -> None:
    (block,) = blocks("```python\n>>> 1 + 1\n3\n```\n")
    told, right = execute(block, Folder(tmp_path))
    assert "Expected:\n    3\nGot:\n    2" in told
    assert right == ">>> 1 + 1\n2\n"
