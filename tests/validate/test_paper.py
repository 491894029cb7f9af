"""FastCar's published rows: what is drawn, what is fitted, and both rivals."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from carsim import run
from carsim.cost.fit import check_fit
from carsim.decisions.trace import load_trace
from carsim.design import load_design
from carsim.validate import paper
from carsim.validate.part import Group, Part
from studies.paper import correlation
from studies.paper.candidates import Candidate, candidate_design, own_candidate, searched
from studies.paper.expected import explain

ROOT = Path(__file__).parents[2]
BASE = load_design(paper.DESIGN)
ROWS = paper.paper_rows()
OWN = own_candidate(BASE)


@pytest.fixture(scope="module")
def part() -> Part:
    return paper.validate_paper()


@pytest.fixture(scope="module")
def groups(part: Part) -> dict[str, Group]:
    return {group.title: group for group in part.groups}


def study_text() -> str:
    """The study of the paper, with its details."""
    pages = (ROOT / "studies/paper" / name for name in ("README.md", "details.md"))
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_stock_designs_gain_less_and_correlation_raises_the_gain(part: Part) -> None:
    (group,) = (group for group in part.groups if group.title == "speed-up, nothing fitted")
    gains = {each.what: each for each in group.rows}
    assert len(gains) == 12
    for what, each in gains.items():
        assert each.ours < each.reference, what
        if "correlated" in what:
            assert each.ours > gains[what.replace("correlated", "independent")].ours
    readme = study_text()
    for ratio in (20, 50, 80):
        of = [each for what, each in gains.items() if f"{ratio}%" in what]
        cells = [of[0].reference, *(each.ours for each in of), of[0].rival]
        assert f"| {ratio} % | {' | '.join(f'{cell:.2f}' for cell in cells)} |" in readme
    # Losses are not hidden: linear skipping, which knows no machine, is nearer.
    assert group.theirs.mean < group.ours.mean


# -------------------------------------------------------------------------------------- the rivals


def test_linear_skipping_is_linear_in_the_work_that_is_skipped() -> None:
    # Per token: 4.329e9 MACs of MLP in 6.476e9 of weights, 262,144 per token attended to.
    mean_context = 62 + (2048 + 1) / 2
    work = 6_476_005_376 + 262_144 * mean_context
    mlp = 0.5 * 32 * 3 * 4096 * 11008
    body = BASE.model.body
    assert paper.skipping_s(ROWS[4], body) == pytest.approx(689.7 * (1 - mlp * 7 / 8 / work))
    window16 = 689.7 * (6_476_005_376 + 262_144 * 20) / work
    assert paper.skipping_s(ROWS[2], body) == pytest.approx(window16)


def test_no_line_near_the_fitted_one_errs_less() -> None:
    latencies = np.array([row.latency_s for row in ROWS])
    replays = np.array([row.replay_ratio for row in ROWS])
    fitted = np.array(paper.line_s(BASE.model.body))
    best = np.abs(fitted / latencies - 1).mean()
    for level, start, slope in product((-1, 0, 1), (-1, 0, 1), (-2, 0, 2)):
        moved = fitted + np.where(replays > 0, start + slope * replays, level)
        assert np.abs(moved / latencies - 1).mean() >= best - 1e-12


# --------------------------------------------------------------------------------- what is printed


def test_errors_are_within_their_bounds(part: Part, groups: dict[str, Group]) -> None:
    assert part.ok, part.failures
    saved = groups["time saved over dense in s"]
    assert saved.rows[2].reference == pytest.approx(689.7 - 556.8)
    assert (round(saved.ours.mean, 3), saved.ours.count) == (0.072, 7)
    readme = study_text()
    for row, other in zip(groups["the same rows"].rows[1:], saved.rows, strict=True):
        errors = (row.error, other.error, row.rival_error)
        cells = " | ".join(f"{100 * error:+.1f} %" for error in errors if error is not None)
        assert f"| {row.reference} | {row.ours:.1f} | {cells} |" in readme


def test_replay_saves_the_share_of_operations_that_fastcar_states(groups: dict[str, Group]) -> None:
    (saved,) = groups["operations saved"].rows
    assert abs(saved.error) < 0.01 < abs(saved.rival_error or 0)


def test_another_machine_is_nearer_by_the_three_rows_that_were_called_fitted() -> None:
    def mean_error(machine: Candidate) -> float:
        (found,) = explain(BASE, [machine], ROWS)
        names = ("dense", "replay20", "replay80")
        errors = zip(ROWS, found.errors, strict=True)
        return float(np.mean([abs(error) for row, error in errors if row.name in names]))

    other = Candidate(9, 10, "heads", 0.3, "eligible", "4 bit in DDR4")
    assert mean_error(other) < 0.004 < 0.006 < mean_error(OWN)


def test_what_is_said_to_be_identified_holds_for_every_member() -> None:
    members = [candidate for group, candidate in searched() if group == "set"]
    assert all(member.batch == member.cores + 1 for member in members)
    assert {member.mapping for member in members} == {OWN.mapping}
    assert (min(each.cores for each in members), max(each.cores for each in members)) == (3, 14)


def test_the_rows_need_clock_cores_batch_and_schedule_of_the_design() -> None:
    assert check_fit(candidate_design(BASE, OWN, 287.8), paper.PAPER_VIDEO).fits
    assert paper.simulate_row(BASE, ROWS[3], schedule="static").latency_s / ROWS[3].latency_s > 1.08


def test_shipped_traces_give_the_rows_as_near_as_the_documents_say() -> None:
    validation = ROOT / "docs/reference/validation.md"
    texts = [validation.read_text(encoding="utf-8"), study_text()]
    for kind in ("correlated", "independent"):
        errors = []
        for row in ROWS[3:6]:
            trace = load_trace(f"published_{round(100 * row.replay_ratio)}_{kind}")
            found = run(BASE, [trace]).chosen
            errors.append(f"{100 * (found.latency_s / row.latency_s - 1):+.1f}")
        for text in texts:
            assert f"{errors[0]}, {errors[1]} and {errors[2]} %" in " ".join(text.split())


def test_what_rows_imply_of_correlation_is_what_the_study_says() -> None:
    points = pd.read_csv(correlation.KEPT)
    again = points.query("kind == 'pairs' and row == 'replay80' and correlation == 0.1").iloc[0]
    found = correlation.measured(0.8, 0.1, "pairs")
    assert {name: again[name] for name in found} == pytest.approx(found, abs=1e-4)
    readme = study_text()
    ends = points[points.correlation.isin([0.0, 0.99])].set_index(["row", "kind", "correlation"])
    for row, ratio in correlation.RATIOS.items():
        keys = ("pairs", 0.0), ("pairs", 0.99), ("pairs and clips", 0.99)
        at = [ends.loc[(row, *key)] for key in keys]
        implied = (correlation.implied(points, kind, row) for kind in correlation.KINDS)
        cells = [
            f"{correlation.published()[row]:.3f}",
            *(f"{each.speed_up:.3f}" for each in at),
            *("none" if each is None else f"{each:.2f}" for each in implied),
            *(f"{each.drs_gain:.1f} %" for each in at),
        ]
        assert f"| {ratio:.0%} | {' | '.join(cells)} |".replace("%", " %", 1) in readme
