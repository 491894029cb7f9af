"""Try to break carsim: damaged and odd input, kills and interrupts, from a seed that is printed.

    python tests/fuzz.py                 about a minute, all kinds in turn, a fresh seed
    python tests/fuzz.py --long          so many of each kind as KINDS says; hours
    python tests/fuzz.py --long --only studies --from 200    the 201st study and those after it
    python tests/fuzz.py designs:17 --seed 4    one trial again; its files stay in the folder named

A trial ends with a finding if a command leaves a traceback, hangs, says what is wrong in more than
a line, or prints a share outside 0 to 1 or a row that beats its bound; and if a store or a summary
that was damaged, or a sweep that was killed or wrote beside another, gives another table than one
that was not. Exit status 1 if there was one. Faults at every file operation are in
acceptance/test_file_faults.py, numbers at every limit of the schema in design/test_schema_walk.py.
"""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

sys.path.append(str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from commands import TRACES, Ended, call
from explore_study import AXES, write_study
from recipe_maker import make_recipe
from tiny import DESIGN_YAML

from carsim.base.errors import InputError
from carsim.explore.sweep import sweep
from carsim.metrics import METRICS

CHANCES = 1e-9
"""By so much a share may leave 0 to 1, and a row beat its bound: rounding."""

MANY: dict[str, Any] = {**AXES, "policy.tau": {"range": [-1.0, 0.8, 0.2]}, "policy.batch": [2, 4]}
"""Of sweeps that are broken off: 120 points."""

ODD: Sequence[Any] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 10**12, 10**20, -(10**30), int("9" * 399)),
    *(0.0, -0.0, 0.5, 1e-320, 5e-324, 1e308, -1e308, float("inf"), float("nan"), 0.1 + 0.2),
    *("", " ", "a", "no", "1e9", "010", "captured", "dense", "ddr", "tensor", "drs", "../x", "/"),
    *(3.3333333333333335, 0.30000000000000004, 63.99999999999999, 7.000000000000001, 1 - 2**-53),
    *(2**53 + 1, 2**63 - 1, 2**63, 2**64, 65_536, 1e9, 1e6, 0.0001, 1e-9, 64, 1024, 10_000),
    *("١٢", "１２", "𝟙", "e\u0301", "\ufeff", "ﬁ", "İ", "\u2028", "🂡"),
    *("\x1b[31m", "\n", "\0", "\ud800", "\u202e", "a" * 300, "日本", "-" * 999, "x" * 100_000),
    *([], [1], [[]], [None], list(range(40)), {}, {"kind": "dense"}, {"kind": 1}, {"a": {"b": 1}}),
    *({"range": [0, 1, 1e-320]}, {"range": {"from": 0, "to": 1, "points": 2}}),
    {"log2": {"from": 1e-300, "to": 1e300}},
    *({"choice": {"a": {"machine.cores": 10**20}}}, {"range": {"from": 1, "to": 3, "points": 2}}),
    *(["machine.cores > 1"], ["machine.cores > " + "-" * 900 + "1"], ["9" * 900 + " > 1"]),
    *(["1 / 0 > 1"], ["not not machine.cores"], ["policy.tau in (0.0, 0.5)"], ["latency_s < 1"]),
)

NEST = (f"l{n}: &l{n} [{', '.join([f'*l{n - 1}' if n else 'x'] * 9)}]\n" for n in range(9))
ALIASES = (
    *("&a ", "*a", "<<: *a\n", "&a [*a, *a]", "? ", "!!python/name:os.system ", "--- "),
    *("%YAML 9\n", "\nx: &a [1]\ny: &b [*a, *a, *a]\nz: [*b, *b, *b]\n", "[" * 2000),
    *("{a: " * 500, "[" * 200 + "]" * 200, "- " * 3000, "\n" + "".join(NEST)),
)
"""Aliases, some of which grow without end, nesting, and words of YAML."""

UNCHECKED = {"study.yaml"}
"""Files that nothing is read from."""

HF_CONFIGS = json.loads((Path(__file__).parent / "data/hf_configs.json").read_text("utf-8"))
PUBLISHED = [each["config"] for each in HF_CONFIGS.values() if isinstance(each, dict)]

Trial = Callable[[random.Random, Path], str]


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every place in a YAML document: the dict or list that holds it, and its key."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    inner = (document[key] for key in keys if isinstance(document[key], dict | list))
    return [
        *((document, key) for key in keys),
        *(place for each in inner for place in places(each)),
    ]


def spoilt(document: Any, rng: random.Random) -> Any:
    """A YAML document some of whose values are others, missing, or under other names."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = json.loads(json.dumps(document))
        if not (found := places(document)):
            break
        holder, key = rng.choice(found)
        what, value = rng.random(), holder[key]
        if type(value) in (int, float) and what < 0.4:
            half = value * rng.choice((1, 4, 6, -2))  # of 399 digits, none becomes a float
            holder[key] = half // 2 if type(value) is int else half / 2
            holder[key] += rng.choice((0, 1))
        elif what < 0.7:
            holder[key] = rng.choice(ODD)
        elif what < 0.85:
            del holder[key]
        elif isinstance(holder, dict):
            holder[rng.choice(("x", str(key)[:-1], "kind", "name"))] = rng.choice(ODD)
    return document


def nudged(document: Any, rng: random.Random) -> Any:
    """A YAML document some of whose numbers are somewhat different."""
    document = json.loads(json.dumps(document))
    numbers = [(of, key) for of, key in places(document) if type(of[key]) in (int, float)]
    for holder, key in rng.sample(numbers, rng.choice((1, 2, 4))):
        value = holder[key]
        holder[key] = type(value)(value * rng.choice((0.5, 1, 2, 3, 10))) + rng.choice((0, 0, 1))
    return document


def spoilt_text(text: str, rng: random.Random) -> str:
    """A text of which some characters are others."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        if rng.random() < 0.1:
            text = text[:at] + rng.choice(ALIASES) + text[at:]
        put = "".join(rng.choices("\t\n &*!{}[]:,-#'\"|>%@<0.eE~?\0\u2028x", k=rng.randint(0, 3)))
        text = text[:at] + put + text[at + rng.randint(0, 3) :]
    return text


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A file of which a bit, a stretch or the end is another."""
    what, at = rng.random(), rng.randrange(len(data))
    if what < 0.7:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if what < 0.8:
        return data[:at]
    if what < 0.9:
        return data[:at] + rng.randbytes(rng.randint(1, 600)) + data[at:]
    length = rng.randint(1, 5000)
    if what < 0.95:
        zeros = bytes(length)
        return rng.choice((data + zeros, zeros + data, data + data, data + data[at:]))
    return data[:at] + bytes(length) + data[at + length :]


def written(path: Path, document: Any) -> None:
    """Write YAML, surrogates and all, as escapes."""
    path.write_text(yaml.safe_dump(document, allow_unicode=False, width=10**6), encoding="utf-8")


def impossible(document: dict[str, Any]) -> str:
    """What of a run's figures cannot be; empty if all can."""
    shares = [name for name, metric in METRICS.items() if metric.unit == "share"]
    rows = document["policies"]
    for row in rows:
        for name in shares:
            value = row.get(name)
            if name == "fill" and not document["fits"]:
                continue
            if value is not None and not -CHANCES <= value <= 1 + CHANCES:
                return f"{row['policy']}: {name} is {value}"
    chosen = next(row for row in rows if row["is_chosen"])
    for bound in rows:
        if bound["is_bound"] and chosen["latency_s"] < bound["latency_s"] * (1 - CHANCES):
            return f"{chosen['policy']} beats its bound: {chosen['latency_s']} s"
    return ""


def table(out: Path) -> list[str]:
    """The lines of a sweep's table, without the seconds that points took."""
    import csv

    with (out / "points.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [repr({k: v for k, v in row.items() if k != "seconds"}) for row in rows]


class Fuzzer:
    """The trials, and what they compare with.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.base = folder
        write_study(folder, axes=AXES, objectives=["latency_s", "energy_per_video_j"])
        self.study = yaml.safe_load((folder / "study.yaml").read_text())
        for arguments in (
            ("sweep", folder / "study.yaml", "--out", folder / "done", "--workers", "0"),
            ("run", folder / "toy.yaml", "--trace", folder / "toy.npz", "--out", folder / "ran"),
        ):
            ended = call(*arguments, seconds=300)
            assert ended.status == 0, ended
        self.design = json.loads(call("config", "show", folder / "toy.yaml", "--json").out)
        self.trace = (folder / "toy.npz").read_bytes()
        self.info = call("trace", "info", folder / "toy.npz", "--json").out
        self.contents = {of: self._contents(folder / of) for of in ("ran", "done")}
        paths = [path for of in ("ran", "done") for path in sorted((folder / of).iterdir())]
        self.files = [(path.name, path.parent.name) for path in paths if path.stat().st_size]
        self.outcomes: Counter[str] = Counter()

    @cached_property
    def many(self) -> list[str]:
        """The table of a sweep of many points that nobody broke off."""
        folder = self.base / "many"
        folder.mkdir()
        study = write_study(folder, axes=MANY)
        ended = call("sweep", study, "--out", folder / "done", "--workers", "0", seconds=300)
        assert ended.status == 0, ended
        return table(folder / "done")

    # ------------------------------------------------------------ kinds of trials

    def designs(self, rng: random.Random, folder: Path) -> str:
        """A design of which keys, values or characters are others."""
        path, how = folder / "toy.yaml", rng.random()
        if how < 0.2:
            path.write_text(spoilt_text(DESIGN_YAML, rng), encoding="utf-8", errors="replace")
        elif how < 0.5:
            written(path, spoilt(yaml.safe_load(DESIGN_YAML), rng))
        else:
            written(path, nudged(self.design, rng))
        more: tuple[str, ...] = rng.choice(((), (), (), ("--allow-misfit",)))
        if rng.random() < 0.1 and (text := f"machine.cores={rng.choice(ODD)!r:.200}").isprintable():
            more = ("--set", text)
        given = ("--trace", str(self.base / "toy.npz"))
        if rng.random() < 0.2:
            given = ("--workload", "text:4+4")
        return self._sound(call("run", path, *given, "--json", *more))

    def traces(self, rng: random.Random, folder: Path) -> str:
        """A trace that is damaged: refused, or what it was."""
        path = folder / "toy.npz"
        path.write_bytes(damaged(self.trace, rng))
        ended = call("trace", "info", path, "--json")
        if finding := self._tidy(ended):
            return finding
        if ended.status:
            return ""
        same = self._without_hash(ended.out) == self._without_hash(self.info)
        return "" if same else "another trace"

    def metadata(self, rng: random.Random, folder: Path) -> str:
        """A whole trace that says odd things of itself."""
        import numpy as np

        from carsim.decisions.trace.npz import npz_bytes

        with np.load(self.base / "toy.npz") as arrays:
            contents = dict(arrays)
        contents["meta"] = np.array(json.dumps(spoilt(json.loads(str(contents["meta"])), rng)))
        with suppress(ValueError, UnicodeEncodeError):
            (folder / "toy.npz").write_bytes(npz_bytes(contents))
            if finding := self._tidy(call("trace", "info", folder / "toy.npz")):
                return finding
            run = ("run", self.base / "toy.yaml", "--trace", folder / "toy.npz", "--json")
            return self._sound(call(*run))
        return ""

    def models(self, rng: random.Random, folder: Path) -> str:
        """A config.json of a published model, of which keys, values or characters are others."""
        config = rng.choice(PUBLISHED)
        text = json.dumps(rng.choice((spoilt, nudged))(config, rng))
        if rng.random() < 0.2:
            text = spoilt_text(json.dumps(config), rng)
        (folder / "config.json").write_text(text, "utf-8", errors="replace")
        design = yaml.safe_load(DESIGN_YAML) | {"model": {"from": "config.json"}}
        written(folder / "toy.yaml", design)
        more = ("--workload", "text:4+4", "--allow-misfit", "--json")
        return self._sound(call("run", folder / "toy.yaml", *more))

    def recipes(self, rng: random.Random, folder: Path) -> str:
        """A recipe of which keys, values or characters are others, until decoding would begin."""

        def stop() -> None:
            import carsim.decoder.capture

            carsim.decoder.capture._decode = lambda *_: sys.exit(0)

        path = make_recipe(folder)
        text = path.read_text(encoding="utf-8")
        if rng.random() < 0.2:
            path.write_text(spoilt_text(text, rng), "utf-8", errors="replace")
        else:
            written(path, rng.choice((spoilt, nudged))(json.loads(text), rng))
        return self._tidy(call("capture", path, "--workers", "1", before=stop))

    def studies(self, rng: random.Random, folder: Path) -> str:
        """A study of which keys, values or characters are others."""
        for name in ("toy.yaml", "toy.npz"):
            shutil.copy(self.base / name, folder)
        path = folder / "study.yaml"
        study = {**self.study, "axes": {"machine.cores": [1, 2], "policy.tau": [0.0, 0.5]}}
        study |= rng.choice(({}, {"filters": ["machine.cores > 1"]}, {"set": {"policy.batch": 2}}))
        study |= rng.choice(({}, {"sampling": {"method": "lhs", "points": 3, "seed": 1}}))
        if rng.random() < 0.2:
            path.write_text(spoilt_text(yaml.safe_dump(study), rng), "utf-8", errors="replace")
        else:
            written(path, spoilt(study, rng))
        out = folder / "out"
        for arguments in (
            ("sweep", path, "--out", out, "--workers", "0"),
            ("report", out, "--front", "--json"),
        ):
            ended = call(*arguments)
            if (finding := self._tidy(ended)) or ended.status not in (0, 1):
                return finding
        return ""

    def folders(self, rng: random.Random, folder: Path) -> str:
        """Results a file of which is damaged: right, refused or rescued, never silently different.

        Each file, and each 16th of it, is as likely as the others. In this process, to be quick.
        """
        from carsim.report.rescue import UNKNOWN, inspect, rescue

        name, of = rng.choice(self.files)
        out, new = folder / of, folder / "new"
        shutil.copytree(self.base / of, out)
        data = (out / name).read_bytes()
        begin = rng.randrange(16) * len(data) // 16
        (out / name).write_bytes(data[:begin] + damaged(data[begin:], rng))
        if set(inspect(out).values()) <= {"", UNKNOWN}:
            self.outcomes["right"] += 1
            same = name in UNCHECKED or self._contents(out) == self.contents[of]
            return "" if same else f"{name} is another, and no damage was found"
        try:
            rescue(out, new)
        except InputError as error:
            self.outcomes["refused"] += 1
            return "" if "can be rescued" in str(error) else str(error)
        self.outcomes["rescued"] += 1
        for each in (out, new):
            if not self._contents(each) <= self.contents[of]:
                return f"{each.name} differs after damage to {name}"
        if of == "done":
            with suppress(InputError):
                sweep(self.base / "study.yaml", out, workers=0)
                same = self._contents(out) == self.contents[of]
                return "" if same else "resumed to another table"
        return "" if set(inspect(new).values()) == {""} else "what was rescued is damaged"

    def _contents(self, folder: Path) -> set[str]:
        """What readers make of results: lines of a table, or figures of a run."""
        from carsim.report.report import results
        from carsim.report.stored import StoredRun

        try:
            found = results(folder)
        except InputError:
            return set()
        if isinstance(found, StoredRun):
            return {f"{name}: {value!r}" for name, value in found if name != "notes"}
        return {repr(row) for row in found.frame.drop(columns="seconds").to_dict("records")}

    def kills(self, rng: random.Random, folder: Path) -> str:
        """A sweep all of whose processes are killed at some moment, and then resumed."""
        return self._broken_off(rng, folder, signal.SIGKILL)

    def interrupts(self, rng: random.Random, folder: Path) -> str:
        """A sweep that is interrupted at some moment, as from a terminal, and then resumed."""
        return self._broken_off(rng, folder, signal.SIGINT)

    def writers(self, rng: random.Random, folder: Path) -> str:
        """Two sweeps into one folder at the same time: one of them is refused, or both agree."""
        first = self._start(folder, "--workers", "1")
        time.sleep(rng.uniform(0, 3))
        second = self._start(folder, "--workers", "1")
        return self._end(second, {0, 2}) or self._end(first, {0, 2}) or self._resumed(folder)

    def clusters(self, rng: random.Random, folder: Path) -> str:
        """A sweep on a Dask cluster, the scheduler or a worker of which is killed."""
        sys.path.append(str(Path(__file__).parent / "acceptance"))
        from test_sweep_cluster import cluster

        with cluster(folder, 2) as (address, (scheduler, worker, *_)):
            process = self._start(folder, "--scheduler", address)
            time.sleep(rng.uniform(1, 6))
            rng.choice((scheduler, worker)).kill()
            finding = self._end(process, {0, 2})
        return finding or self._resumed(folder)

    # ------------------------------------------------------------------- private

    def _tidy(self, ended: Ended) -> str:
        self.outcomes["refused" if ended.status else "done"] += 1
        return ended.finding and f"{ended.finding} | {' '.join(ended.arguments)[:200]}"

    def _sound(self, ended: Ended) -> str:
        """The finding of a run as JSON, its figures included."""
        if (finding := self._tidy(ended)) or ended.status:
            return finding
        return impossible(json.loads(ended.out))

    def _without_hash(self, text: str) -> dict[str, Any]:
        document = json.loads(text)
        return {key: value for key, value in document.items() if key not in ("sha256", "path")}

    def _start(self, folder: Path, *options: str) -> "subprocess.Popen[str]":
        assert self.many
        study = self.base / "many" / "study.yaml"
        command = (sys.executable, "-m", "carsim", "sweep", study, "--out", folder / "out")
        return subprocess.Popen(
            [*map(str, command), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Where this runs in the background, it would be ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )

    def _broken_off(self, rng: random.Random, folder: Path, number: int) -> str:
        process = self._start(folder, "--workers", "2")
        time.sleep(rng.uniform(0.05, 4))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        allowed = {-signal.SIGKILL, 0} if number == signal.SIGKILL else {130, -signal.SIGINT, 0}
        return self._end(process, allowed) or self._resumed(folder)

    def _end(self, process: "subprocess.Popen[str]", allowed: set[int]) -> str:
        """Wait for a sweep; all of its processes are to be gone soon after it."""
        try:
            _, said = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "hangs"
        began_late = "<frozen " in said and "carsim" not in said  # Python itself was interrupted
        if any(trace in said for trace in TRACES) and not began_late:
            return f"traceback: {said[-500:]!r}"
        if process.returncode not in allowed and not began_late:
            return f"exit status {process.returncode}: {said[-300:]!r}"
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return ""
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        return "leaves processes behind"

    def _resumed(self, folder: Path) -> str:
        study = self.base / "many" / "study.yaml"
        ended = call("sweep", study, "--out", folder / "out", "--workers", "0", seconds=300)
        if (finding := self._tidy(ended)) or ended.status:
            return finding or f"not resumed: {ended.err}"
        return "" if table(folder / "out") == self.many else "another table"


KINDS = {
    # Kind -> trials of a long run, and share of the time of a short one.
    "designs": (10_000, 0.2),
    "traces": (10_000, 0.1),
    "metadata": (2_000, 0.1),
    "studies": (5_000, 0.1),
    "models": (2_000, 0.1),
    "recipes": (1_000, 0.05),
    "folders": (2_000, 0.15),
    "kills": (300, 0.1),
    "interrupts": (100, 0.05),
    "writers": (50, 0.05),
    "clusters": (50, 0.0),
}


def trial(fuzzer: Fuzzer, kind: str, number: int, seed: int, folder: Path) -> str:
    """One trial; the same for the same kind, number and seed, but for the moments of signals."""
    folder.mkdir(parents=True)
    try:
        return str(getattr(fuzzer, kind)(random.Random(f"{seed} {kind} {number}"), folder))
    except Exception as error:  # the trials that follow are worth having
        return f"the trial itself: {error!r:.300}"


def fuzz(
    fuzzer: Fuzzer, seed: int, seconds: float | None, only: Sequence[str] = (), first: int = 0
) -> int:
    """Trials of all kinds; how many findings there were.

    Args:
        fuzzer: The trials.
        seed: Seed of all of them.
        seconds: Of a short run; a long one takes what it takes.
        only: Kinds, if not all.
        first: Number of the first trial of each kind.
    """
    findings = 0
    for kind in only or KINDS:
        most, share = KINDS[kind]
        began, done = time.monotonic(), first
        share = share if not only else 1 / len(only)
        fuzzer.outcomes.clear()
        while done < most:
            if seconds is not None and time.monotonic() - began > share * seconds:
                break
            folder = fuzzer.base / f"{kind}-{done}"
            if finding := trial(fuzzer, kind, done, seed, folder):
                findings += 1
                print(f"FINDING {kind}:{done} --seed {seed}: {finding}", flush=True)
            shutil.rmtree(folder)
            done += 1
        took = time.monotonic() - began
        outcomes = ", ".join(f"{n:,} {what}" for what, n in sorted(fuzzer.outcomes.items()))
        print(f"{kind:<10} {done - first:>6,} in {took:7.1f} s ({outcomes or 'none'})", flush=True)
    return findings


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trial", nargs="?", help="one trial, as KIND:NUMBER")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=60.0, help="of a short run")
    parser.add_argument("--long", action="store_true", help="all trials, however long they take")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=(), help="these kinds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of a trial")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    logging.getLogger("carsim").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    fuzzer = Fuzzer(folder)
    if given.trial:
        kind, _, number = given.trial.partition(":")
        finding = trial(fuzzer, kind, int(number), given.seed, folder / "trial")
        print(f"{finding or 'no finding'}; its files are in {folder / 'trial'}")
        return int(bool(finding))
    try:
        findings = fuzz(
            fuzzer, given.seed, None if given.long else given.seconds, given.only, given.first
        )
    finally:
        shutil.rmtree(folder)
    print(f"{findings} findings")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
