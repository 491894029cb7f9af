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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.base.files import write_whole
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
from carsim.idea.subject import Subject, subject_of
from carsim.idea.tuning import CLOSE, rule_recipe, tuned, values_of
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
    """A trace, and the threshold at which it was captured."""

    trace: Trace
    tau: float


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
            return f"tau {result['tau']:.5g}, {result['ratio']:.0%} of eligible steps replay"
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
        if subject.name == "replays":
            return {"line": "a function is checked as it decodes", "checked": False}
        broken = check_kind(subject.role, subject.rule or subject.policy)
        if broken:
            named = f"{subject.role} {subject.name!r} of {subject.file.name}"
            raise InputError(named, f"breaks its contract: {broken[0]}", "mend it")
        return {"line": "keeps its contract", "checked": True}

    def _cost(self, results: dict[str, Any]) -> dict[str, Any]:
        rule = self.subject.rule
        policy = self.subject.policy
        if rule is not None and self.subject.name != "replays":
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
        if policy is not None:
            side = policy.side_work(_context(), 32, 32, 128)
            return {"line": f"{_total(side.element_ops):,} operations a step beside attention"}
        return {"line": "no score: nothing is charged for deciding"}

    def _capture(self, results: dict[str, Any]) -> dict[str, Any]:
        subject = self.subject
        if subject.decisions is not None:
            trace = self._of_array()
            return self._kept(trace, tau=0.5)
        scenes = BENCHMARK_SCENES[: self.size.scenes]
        if subject.rule is not None:
            frames = self._frames(subject.rule)
            if self.threshold.ratio is not None:
                share = self.threshold.ratio / FREE_SHARE
                captured = self._at_share(subject.rule, share, frames)
                return self._kept(captured.trace, tau=captured.tau)
            tau = self.threshold.tau
            if tau is None:
                tau = self._tau(subject.rule, SHARE)
            recipe = rule_recipe(self.content, scenes, frames, subject.rule, tau)
            return self._kept(self._decoded(recipe), tau=tau)
        recipe = self.content.recipe(scenes, self.size.n_frames, attention=subject.policy)
        return self._kept(self._decoded(recipe), tau=0.0)

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
        if subject.rule is not None:
            tau = results["capture"]["tau"]
            frames = self._frames(subject.rule)
            recipe = rule_recipe(self.content, scenes, frames, subject.rule, tau)
            loss, _ = measure_rule(recipe, workers=self.workers, progress=self._progress)
        else:
            recipe = self.content.recipe(scenes, self.size.n_frames, attention=subject.policy)
            loss = measure_policy(recipe, workers=self.workers, progress=self._progress)
        return asdict(loss)

    def _page(self, results: dict[str, Any]) -> dict[str, Any]:
        from carsim.idea.page import write_page

        paths = write_page(self.folder, self.subject, self.size.scenes, results)
        return {"line": " and ".join(str(path) for path in paths)}

    def _frames(self, rule: ReplayRule) -> int:
        """Frames that are decoded: two at least are scored."""
        return max(self.size.n_frames, rule.first_frame + 2)

    def _tau(self, rule: ReplayRule, share: float) -> float:
        return tuned(
            self.content,
            rule,
            share,
            self.size.n_frames,
            workers=self.workers,
            progress=self._progress,
        )

    def _decoded(self, recipe: Any) -> Trace:
        return capture(recipe, Path(), workers=self.workers, progress=self._progress)

    def _fastcar(self, idea: Trace) -> Trace:
        """FastCar's rule on the same scenes, at the share that the idea replays."""
        free = idea.replay[idea.tokens_per_frame :, len(EXEMPT_LAYERS) :]
        return self._at_share(FASTCAR_RULE, float(free.mean()), idea.n_frames).trace

    def _at_share(self, rule: ReplayRule, share: float, n_frames: int) -> Captured:
        """A rule on the held-out scenes, at a threshold at which a share of free layers replays.

        Args:
            rule: The rule.
            share: Share of eligible steps of layers that are not exempt.
            n_frames: Frames of each scene.

        Raises:
            InputError: The rule decides by itself.
        """
        captured = self._captured(rule, float("inf"), n_frames)
        for _ in range(TRIES):
            scores = values_of(np.asarray(captured.trace.tas, np.float64))
            if len(np.unique(scores[:: 1 + len(scores) // 10_000])) <= 2:
                problem = "decides by itself: no threshold changes its ratio"
                raise InputError(f"rule {rule.kind}", problem, "leave out ratio")
            captured = self._captured(rule, float(np.quantile(scores, 1 - share)), n_frames)
            replayed = captured.trace.replay[captured.trace.tokens_per_frame :]
            if abs(float(replayed.mean()) / FREE_SHARE - share) < CLOSE:
                break
        return captured

    def _captured(self, rule: ReplayRule, tau: float, n_frames: int) -> Captured:
        """A rule on the held-out scenes."""
        scenes = BENCHMARK_SCENES[: self.size.scenes]
        recipe = rule_recipe(self.content, scenes, n_frames, rule, tau)
        return Captured(self._decoded(recipe), tau)

    def _of_array(self) -> Trace:
        """The decisions of an array, for the model that machines simulate."""
        array = self.subject.decisions
        assert array is not None
        design = load_design("zcu102")
        if array.ndim != 3 or array.shape[0] % 256 or array.shape[2] % 2:
            problem = f"has shape {array.shape}"
            cure = "give bool[steps, layers, rows]: whole frames of 256, and an even number of rows"
            raise InputError(f"{self.subject.file}: DECISIONS", problem, cure)
        frames = array.shape[0] // 256
        like = stated_trace(Workload("video", frames=frames), design.model, array.shape[2])
        return Trace.from_decisions(array, like, f"decisions of {self.subject.file.name}")

    def _kept(self, trace: Trace, tau: float) -> dict[str, Any]:
        path = self.folder / "idea.npz"
        saved = save_trace(path, trace, overwrite=True)
        eligible = saved.replay[saved.tokens_per_frame :]
        return {"tau": tau, "ratio": float(eligible.mean()), "sha256": saved.sha256}


def _speedup(price: dict[str, Any]) -> float:
    return float(price["speedup"])


def _context() -> Any:
    return np.array([1086])


def _total(amount: Any) -> int:
    return int(np.sum(amount))
