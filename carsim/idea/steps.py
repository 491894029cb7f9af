"""The steps from an idea to a page. Each is kept in a folder, and is not done twice.

======== ==================================================================================
contract hold the idea to the contract of its role
cost     what a machine has to do for it: stated, and traced from what it does
capture  a threshold that replays half (rules), and a trace of decisions
price    seconds and joules on three machines, next to simpler ideas
loss     nats per token on held-out scenes, next to baselines
page     one page and one PDF
======== ==================================================================================
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.decisions.attention.base import Array, Bools
from carsim.decisions.replay import MachineShape, ReplayRule, Tas
from carsim.decisions.trace import Trace, load_trace, save_trace
from carsim.decisions.trace.stated import stated_trace
from carsim.decoder.capture import capture
from carsim.decoder.workers import Progress
from carsim.design import load_design
from carsim.idea.content import (
    BENCHMARK_SCENES,
    EXEMPT_LAYERS,
    N_LAYERS,
    Content,
    shipped_content,
)
from carsim.idea.loss import Loss, measure_policy, measure_rule
from carsim.idea.price import prices_of_policy, prices_of_rule
from carsim.idea.subject import ATTENTION_DECISION, Subject, subject_of
from carsim.idea.tuning import CLOSE, Rules, frames_decoded, rules_recipe, tuned, values_of
from carsim.program.program import TOKEN
from carsim.testing import check_kind
from carsim.workload.workload import Workload

STEPS = ("contract", "cost", "capture", "price", "loss", "page")
SHARE = 0.5
TRIES = 2
"""Captures at most at a threshold, where a share of the held-out scenes is wanted."""

FREE_SHARE = 1 - len(EXEMPT_LAYERS) / N_LAYERS
"""Share of layers that may replay."""

VILA_U = MachineShape(
    n_heads=32, n_kv_heads=32, head_dim=128, hidden_size=4096, activation_bits=Fraction(16)
)
FASTCAR_RULE = Tas(form="paper")


@dataclass(frozen=True)
class Size:
    """How much is decoded.

    Attributes:
        scenes: Held-out scenes.
        n_frames: Frames of each.
    """

    scenes: int
    n_frames: int


@dataclass(frozen=True)
class Threshold:
    """Where the threshold of a rule comes from; with neither, half of two tuning scenes replay.

    Attributes:
        tau: The threshold.
        ratio: Share of all eligible steps of the held-out scenes that replay at the threshold.
    """

    tau: float | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        """Refuse a ratio that cannot be, or both."""
        if self.ratio is not None and not 0 < self.ratio < FREE_SHARE:
            problem = f"{self.ratio:g}, and {len(EXEMPT_LAYERS)} of {N_LAYERS} layers never replays"
            raise InputError("`ratio`", problem, f"take more than 0, and less than {FREE_SHARE:g}")
        if self.tau is not None and self.ratio is not None:
            raise InputError("`ratio`", "is given, and so is tau", "give one of them")


HALF = Threshold()


class Captured(NamedTuple):
    """A trace, and the thresholds at which it was captured, by decision."""

    trace: Trace
    taus: Mapping[str, float]


SHORT = Size(scenes=5, n_frames=4)
FULL = Size(scenes=40, n_frames=8)

Say = Callable[[str], None]


class Trial:
    """An idea that is tried, and the folder in which its steps are kept.

    Args:
        file: File of the idea.
        folder: Where results are kept.
        size: How much is decoded.
        workers: Processes.
        kind: Name of the kind, where the file has several.
        threshold: Where the threshold of a rule comes from.
        say: Told a line about each step.
        progress: Told about units done while something is decoded.
    """

    def __init__(  # noqa: PLR0913 - what a trial needs, by name
        self,
        file: Path,
        folder: Path,
        *,
        size: Size = SHORT,
        workers: int = 2,
        kind: str | None = None,
        threshold: Threshold = HALF,
        say: Say = lambda line: None,
        progress: Progress | None = None,
    ) -> None:
        self.subject: Subject = subject_of(file, kind)
        self.folder = folder
        self.size = size
        self.workers = workers
        self.threshold = threshold
        if self.subject.rule is None and threshold != HALF:
            problem = "has no threshold, as it is no rule of replay"
            raise InputError(str(file), problem, "leave out tau and ratio")
        if threshold.tau is not None and len(self.subject.rules) > 1:
            problem = f"makes the decisions {', '.join(self.subject.rules)}, each at its threshold"
            raise InputError(str(file), problem, "give ratio, or neither")
        self.content: Content = shipped_content()
        self._say = say
        self._progress = progress
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, only: str | None = None) -> dict[str, Any]:
        """All steps, or those up to one; results by step.

        Args:
            only: Name of the last step.

        Raises:
            InputError: The idea breaks its contract, or a step cannot be done.
        """
        last = STEPS.index(only) if only else len(STEPS) - 1
        results: dict[str, Any] = {}
        steps = [name for name in STEPS[: last + 1] if self._applies(name)]
        for number, name in enumerate(steps):
            start = monotonic()
            self._say(f"{number + 1}/{len(steps)} {name} ...")
            results[name] = self._once(name, results)
            self._say(f"    {self._told(name, results[name])} ({monotonic() - start:.0f} s)")
        return results

    # ---------------------------------------------------------------- private

    def _applies(self, name: str) -> bool:
        """A step can be done: no decoder can follow an array of decisions on other scenes."""
        return name != "loss" or self.subject.decisions is None

    @property
    def _key(self) -> str:
        """All that results follow from."""
        inputs = (self.subject.sha256, self.subject.name, asdict(self.size), version("carsim"))
        threshold = "" if self.threshold == HALF else repr(asdict(self.threshold))
        return hashlib.sha256(f"{inputs!r}{threshold}".encode()).hexdigest()

    def _once(self, name: str, results: dict[str, Any]) -> Any:
        """A step, done now or before with the same file."""
        path = self.folder / f"{name}.json"
        if path.is_file() and name != "page":
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["key"] == self._key:
                return stored["result"]
        result = getattr(self, f"_{name}")(results)
        text = json.dumps({"key": self._key, "result": result}, indent=1)
        write_whole(path, lambda unfinished: unfinished.write_text(text, encoding="utf-8"))
        return result

    def _told(self, name: str, result: Any) -> str:
        """A result in one line."""
        if name == "capture":
            told = f"tau {result['tau']:.5g}, {result['ratio']:.0%} of eligible steps replay"
            for decision, further in result.get("further", {}).items():
                told += f"; {decision}: tau {further['tau']:.5g}, {further['ratio']:.0%}"
            return told
        if name == "price":
            best = max((price for price in result if price["way"] == "idea"), key=_speedup)
            return f"up to {best['speedup']:.2f} times as fast ({best['machine']})"
        if name == "loss":
            idea = result["excess"]["idea"]
            return f"{idea['mean']:+.3f} nats [{idea['low']:.3f}, {idea['high']:.3f}]"
        return str(result["line"])

    def _contract(self, results: dict[str, Any]) -> dict[str, Any]:
        subject = self.subject
        if subject.decisions is not None:
            return {"line": "decisions have no contract", "checked": False}
        if subject.attention_rule is not None:
            check_attention_rule(subject.attention_rule, str(subject.file))
        if subject.name == "replays":
            return {"line": "a function is checked as it decodes", "checked": False}
        kinds: list[Any] = [*subject.rules.values()] or [subject.policy]
        for kind in kinds:
            broken = check_kind(subject.role, kind)
            if broken:
                named = f"{subject.role} {kind.kind!r} of {subject.file.name}"
                raise InputError(named, f"breaks its contract: {broken[0]}", "mend it")
        return {"line": "keeps its contract", "checked": True}

    def _cost(self, results: dict[str, Any]) -> dict[str, Any]:
        policy = self.subject.policy
        if self.subject.rule is not None and self.subject.name != "replays":
            costs = {name: _cost_of(rule) for name, rule in self.subject.rules.items()}
            of_token = costs.pop(TOKEN)
            if costs:
                lines = [f"{name}: {cost['line']}" for name, cost in costs.items()]
                of_token["line"] = "; ".join([of_token["line"], *lines])
                of_token["further"] = costs
            return of_token
        if policy is not None:
            side = policy.side_work(_context(), 32, 32, 128)
            return {"line": f"{_total(side.element_ops):,} operations a step beside attention"}
        return {"line": "no score: nothing is charged for deciding"}

    def _capture(self, results: dict[str, Any]) -> dict[str, Any]:
        subject = self.subject
        if subject.decisions is not None:
            trace = self._of_arrays()
            return self._kept(Captured(trace, dict.fromkeys([TOKEN, *trace.further], 0.5)))
        scenes = BENCHMARK_SCENES[: self.size.scenes]
        if subject.rules:
            frames = self._frames
            if self.threshold.ratio is not None:
                share = self.threshold.ratio / FREE_SHARE
                shares = dict.fromkeys(subject.rules, share)
                return self._kept(self._at_shares(subject.rules, shares, frames))
            if self.threshold.tau is not None:
                taus = {TOKEN: self.threshold.tau}
            else:
                taus = self._taus(subject.rules)
            return self._kept(self._captured(subject.rules, taus, frames))
        recipe = self.content.recipe(scenes, self.size.n_frames, attention=subject.policy)
        return self._kept(Captured(self._decoded(recipe), {TOKEN: 0.0}))

    def _price(self, results: dict[str, Any]) -> list[dict[str, Any]]:
        idea = load_trace(self.folder / "idea.npz")
        policy = self.subject.policy
        if policy is not None:
            return [asdict(price) for price in prices_of_policy(policy, idea)]
        if self.subject.decisions is not None:
            prices = prices_of_rule(idea, None)
        else:
            prices = prices_of_rule(idea, self._fastcar(idea))
        return [asdict(price) for price in prices]

    def _loss(self, results: dict[str, Any]) -> dict[str, Any]:
        subject = self.subject
        scenes = BENCHMARK_SCENES[: self.size.scenes]
        if subject.decisions is not None:
            problem = "decisions are an array, which no decoder can follow on other scenes"
            raise InputError(
                str(subject.file), problem, "write a rule or replays(seen) for the loss"
            )
        loss: Loss
        if subject.rules:
            captured = results["capture"]
            taus = {TOKEN: captured["tau"]}
            taus |= {name: of["tau"] for name, of in captured.get("further", {}).items()}
            recipe = rules_recipe(self.content, scenes, self._frames, subject.rules, taus)
            loss, _ = measure_rule(recipe, workers=self.workers, progress=self._progress)
        else:
            recipe = self.content.recipe(scenes, self.size.n_frames, attention=subject.policy)
            loss = measure_policy(recipe, workers=self.workers, progress=self._progress)
        return asdict(loss)

    def _page(self, results: dict[str, Any]) -> dict[str, Any]:
        from carsim.idea.page import write_page

        paths = write_page(self.folder, self.subject, self.size.scenes, results)
        return {"line": " and ".join(str(path) for path in paths)}

    @property
    def _frames(self) -> int:
        """Frames that are decoded of each scene."""
        return frames_decoded(self.subject.rules, self.size.n_frames)

    def _taus(self, rules: Rules) -> dict[str, float]:
        return tuned(
            self.content,
            rules,
            SHARE,
            self.size.n_frames,
            workers=self.workers,
            progress=self._progress,
        )

    def _decoded(self, recipe: Any) -> Trace:
        return capture(recipe, Path(), workers=self.workers, progress=self._progress)

    def _fastcar(self, idea: Trace) -> Trace:
        """FastCar's rule on the same scenes, at the shares that the idea replays."""
        shares = {}
        for name in (TOKEN, *idea.further):
            replay = idea.scored(name).replay
            free = replay[idea.tokens_per_frame :, len(EXEMPT_LAYERS) :]
            shares[name] = float(free.mean())
        rules = dict.fromkeys(shares, FASTCAR_RULE)
        return self._at_shares(rules, shares, idea.n_frames).trace

    def _at_shares(self, rules: Rules, shares: Mapping[str, float], n_frames: int) -> Captured:
        """Rules on the held-out scenes, at thresholds at which shares of free layers replay.

        Args:
            rules: Decision -> rule.
            shares: Decision -> share of eligible steps of layers that are not exempt.
            n_frames: Frames of each scene.

        Raises:
            InputError: A rule decides by itself.
        """
        captured = self._captured(rules, dict.fromkeys(rules, float("inf")), n_frames)
        for _ in range(TRIES):
            taus = {
                name: _tau_at(rules[name], captured.trace.scored(name).tas, share)
                for name, share in shares.items()
            }
            captured = self._captured(rules, taus, n_frames)
            missed = []
            for name, share in shares.items():
                replayed = captured.trace.scored(name).replay[captured.trace.tokens_per_frame :]
                missed.append(abs(float(replayed.mean()) / FREE_SHARE - share))
            if max(missed) < CLOSE:
                break
        return captured

    def _captured(self, rules: Rules, taus: Mapping[str, float], n_frames: int) -> Captured:
        """Rules on the held-out scenes."""
        scenes = BENCHMARK_SCENES[: self.size.scenes]
        recipe = rules_recipe(self.content, scenes, n_frames, rules, taus)
        return Captured(self._decoded(recipe), taus)

    def _of_arrays(self) -> Trace:
        """The decisions of an array, or of one about MLPs and one about attention."""
        subject = self.subject
        assert subject.decisions is not None
        trace = self._of_array(subject.decisions)
        if subject.attention_decisions is not None:
            about_attention = self._of_array(subject.attention_decisions)
            trace = trace.with_decision(ATTENTION_DECISION, about_attention)
        return trace

    def _of_array(self, array: Bools) -> Trace:
        """The decisions of an array, for the model that machines simulate."""
        design = load_design("zcu102")
        if array.ndim != 3 or array.shape[0] % 256 or array.shape[2] % 2:
            problem = f"has shape {array.shape}"
            cure = "give bool[steps, layers, rows]: whole frames of 256, and an even number of rows"
            raise InputError(f"{self.subject.file}: DECISIONS", problem, cure)
        frames = array.shape[0] // 256
        like = stated_trace(Workload("video", frames=frames), design.model, array.shape[2])
        return Trace.from_decisions(array, like, f"decisions of {self.subject.file.name}")

    def _kept(self, captured: Captured) -> dict[str, Any]:
        path = self.folder / "idea.npz"
        saved = save_trace(path, captured.trace, overwrite=True)
        by_decision = {}
        for name, tau in captured.taus.items():
            eligible = saved.scored(name).replay[saved.tokens_per_frame :]
            by_decision[name] = {"tau": tau, "ratio": float(eligible.mean())}
        kept: dict[str, Any] = by_decision.pop(TOKEN) | {"sha256": saved.sha256}
        if by_decision:
            kept["further"] = by_decision
        return kept


def check_attention_rule(rule: ReplayRule, place: str) -> None:
    """Refuse a rule that cannot decide about attention beside one that decides about the MLP.

    Args:
        rule: The rule.
        place: The file, for messages.

    Raises:
        InputError: The rule is known too late, or holds data for each place.
    """
    named = f"{place}: the decision {ATTENTION_DECISION!r}"
    if rule.point != "q":
        problem = f"is known at {rule.point!r}, behind attention"
        raise InputError(named, problem, "look at values that are known at the query")
    held_bytes = rule.work(VILA_U).held_bytes
    if held_bytes:
        problem = f"is made by a rule that holds {held_bytes:,} bytes for each place"
        raise InputError(named, problem, "hold nothing, or let that rule decide about the MLP")


def _cost_of(rule: ReplayRule) -> dict[str, Any]:
    """What a machine has to do for a rule: stated, and traced from what it does."""
    traced = rule.traced(VILA_U)
    stated = rule.work(VILA_U)
    line = (
        f"known at {rule.point}; {stated.vector_ops:,} operations, "
        f"{stated.key_elements:,} key elements, {stated.held_bytes:,} bytes held"
    )
    return {
        "line": line,
        "point": rule.point,
        "stated": rule.states_work,
        "work": stated._asdict(),
        "traced_operations": traced.score_operations + traced.computed_operations,
        "looks_at": sorted(traced.used),
        "cheaper": rule.cheaper,
    }


def _tau_at(rule: ReplayRule, tas: Array, share: float) -> float:
    """The threshold that a share of scores exceeds.

    Args:
        rule: Rule of the scores.
        tas: Scores, [S, L, B].
        share: Wanted share of eligible steps of layers that are not exempt.

    Raises:
        InputError: The rule decides by itself.
    """
    scores = values_of(np.asarray(tas, np.float64))
    if len(np.unique(scores[:: 1 + len(scores) // 10_000])) <= 2:
        problem = "decides by itself: no threshold changes its ratio"
        raise InputError(f"rule {rule.kind}", problem, "leave out ratio")
    return float(np.quantile(scores, 1 - share))


def _speedup(price: dict[str, Any]) -> float:
    return float(price["speedup"])


def _context() -> Any:
    return np.array([1086])


def _total(amount: Any) -> int:
    return int(np.sum(amount))
