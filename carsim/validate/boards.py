"""Published decoding speeds of FPGA boards, predicted from the published configurations alone.

Each row of ``data/published_decode.csv`` names a design in ``configs/published/``, which holds what
was published of the system before it decoded anything: clock, ports, array, precisions. Stand-alone
tests of a memory count as such; a bandwidth utilisation or speed seen while decoding does not, and
no field is fitted to a row. Two columns say how much a row can prove:

* ``in_scope``: its bottleneck lies inside the model; written down, with the reason, before the row
  was first run.
* ``split``: ``fitted`` (a number of carsim was fitted to it), ``development`` (it was looked at
  while the model was developed) or ``unseen`` (never looked at). Only ``unseen`` rows test a
  prediction.

The rival is the null model: 0.9 of the peak bandwidth over the bytes of a token. Peak and bytes are
those that the row states, so that it does not depend on carsim; where a system uses few of a
board's ports, the peak is that of these ports.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import get_type_hints

from carsim.design import Design, configs_folder, load_design
from carsim.machine.decode import decode
from carsim.metrics import Comparison
from carsim.technology.energy import Joules
from carsim.technology.fit import check_fit
from carsim.text import number
from carsim.units import GB
from carsim.validate.part import Group, Part
from carsim.workload.geometry import Video

MEDIAN_BOUND, MEAN_BOUND, LEAST_WINS = 0.05, 0.08, 2 / 3
"""Aims over the rows in scope: median and mean error at most, share of rows nearer than the null
model at least."""

NULL_EFFICIENCY = 0.9
"""Share of the peak bandwidth that the null model takes for granted."""

NULL = "the null model"
SPLITS = ("fitted", "development", "unseen")


@dataclass(frozen=True, slots=True)
class Published:
    """One published system; fields are the columns of the file.

    Attributes:
        system: Who.
        board: On what.
        model: Decoding what.
        config: Name of its design in ``configs/published``.
        first_context: Tokens attended to at the first of the steps that were timed.
        last_context: The same at the last.
        tok_per_s: Published speed, tokens per second.
        power_w: Published power in W; None if there is none.
        peak_gbps: Peak bandwidth, in 1e9 bytes per second.
        weight_bytes_per_token: Bytes of weights read per token, scales included.
        kv_bytes_per_context_token: Bytes of keys and values per token attended to.
        split: One of :data:`SPLITS`.
        in_scope: Its bottleneck lies inside the model.
        scope_reason: Why, or why not.
        status: How the figure came about.
        source: Where it stands.
        note: What one has to know of it.
    """

    system: str
    board: str
    model: str
    config: str
    first_context: int
    last_context: int
    tok_per_s: float
    power_w: float | None
    peak_gbps: float
    weight_bytes_per_token: float
    kv_bytes_per_context_token: float
    split: str
    in_scope: bool
    scope_reason: str
    status: str
    source: str
    note: str

    @property
    def name(self) -> str:
        """System, model and board."""
        return f"{self.system}: {self.model}, {self.board}"

    @property
    def null_tokens_per_s(self) -> float:
        """What the null model predicts."""
        context = (self.first_context + self.last_context) / 2
        nbytes = self.weight_bytes_per_token + self.kv_bytes_per_context_token * context
        return NULL_EFFICIENCY * self.peak_gbps * GB / nbytes


def published_rows() -> tuple[Published, ...]:
    """The published systems, in the order of the file."""
    text = (files("carsim.validate") / "data" / "published_decode.csv").read_text(encoding="utf-8")
    read: dict[object, Callable[[str], object]] = {
        str: str,
        int: int,
        float: float,
        float | None: lambda cell: float(cell) if cell else None,
        bool: {"yes": True, "no": False}.__getitem__,
    }
    types = get_type_hints(Published)
    return tuple(
        Published(**{name: read[types[name]](cell) for name, cell in row.items()})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    )


def published_design(config: str) -> Design:
    """The design of a published system.

    Args:
        config: Its name in ``configs/published``.

    Raises:
        InputError: The design is not valid.
    """
    return load_design(str(configs_folder() / "published" / f"{config}.yaml"))


@dataclass(frozen=True, slots=True)
class Prediction:
    """What carsim says of a design that decodes.

    Attributes:
        tokens_per_s: Speed.
        joules_per_token: Of the whole board, with the interval of the energy constants.
        limits: What bounds the phases -> share of the time spent in such phases, most first.
        bytes_per_step: Bytes moved per step of the batch.
        bandwidth_gbps: The same over time.
        misfits: What of the design does not fit its board, as carsim estimates resources.
    """

    tokens_per_s: float
    joules_per_token: Joules
    limits: dict[str, float]
    bytes_per_step: float
    bandwidth_gbps: float
    misfits: tuple[str, ...]

    @property
    def watts(self) -> Joules:
        """Power of the board at the predicted speed, in W, with its interval."""
        each, rate = self.joules_per_token, self.tokens_per_s
        return Joules(each.value_j * rate, each.low_j * rate, each.high_j * rate)


def predict(design: Design, first_context: int, last_context: int | None = None) -> Prediction:
    """Predict one design. The only place of this part that calls the machine.

    Args:
        design: The design.
        first_context: Tokens attended to at the first step.
        last_context: The same at the last step; equal to the first if left out.

    Raises:
        InputError: No such contexts.
    """
    found = decode(design, first_context, last_context)
    longest = Video(n_frames=max(found.contexts), tokens_per_frame=1, prompt_tokens=0)
    fit = check_fit(design, longest)
    return Prediction(
        tokens_per_s=found.tokens_per_s,
        joules_per_token=found.joules_per_token(fit.resources),
        limits=found.limit_shares,
        bytes_per_step=found.bytes_per_step,
        bandwidth_gbps=found.bandwidth_gbps,
        misfits=fit.misfits,
    )


def validate_boards(
    progress: Callable[[str], None] = lambda _: None, rows: Iterable[Published] | None = None
) -> Part:
    """Predict all systems.

    Args:
        progress: Told which system is next.
        rows: Systems to predict; by default all of the file.
    """
    predicted = []
    for row in published_rows() if rows is None else rows:
        progress(row.name)
        found = predict(published_design(row.config), row.first_context, row.last_context)
        predicted.append((row, found))
    speeds = [(row, _speed(row, found)) for row, found in predicted]
    powers = [each for row, found in predicted for each in _power(row, found)]
    groups = [
        Group("tokens/s, all rows", tuple(each for _, each in speeds), NULL, must_win=True,
              shown=False),
        *_scopes(speeds),
        *_splits(speeds),
    ]  # fmt: skip
    if powers:
        groups.append(Group("power in W", tuple(powers)))
    return Part(
        "boards",
        "Decoding speed and power of published systems, from their configurations alone",
        tuple(groups),
        tuple(_notes(predicted)),
    )


Speeds = list[tuple[Published, Comparison]]


def _scopes(speeds: Speeds) -> list[Group]:
    inside, outside = (
        tuple(each for row, each in speeds if row.in_scope == scope) for scope in (True, False)
    )
    bounds = {"median": MEDIAN_BOUND, "mean": MEAN_BOUND}
    found = []
    if inside:
        found.append(Group("tokens/s, in scope", inside, NULL, bounds, True, LEAST_WINS))
    if outside:
        found.append(Group("tokens/s, out of scope", outside, NULL))
    return found


def _splits(speeds: Speeds) -> list[Group]:
    """A group per split, in scope or not; none where all rows are of one split."""
    by_split = {
        split: tuple(each for row, each in speeds if row.split == split) for split in SPLITS
    }
    present = {split: rows for split, rows in by_split.items() if rows}
    return [
        Group(f"tokens/s, {split}", rows, NULL, must_win=split == "unseen", shown=False)
        for split, rows in present.items()
        if len(present) > 1
    ]


def _speed(row: Published, found: Prediction) -> Comparison:
    limit, share = next(iter(found.limits.items()))
    joules = [
        number(value, 3)
        for value in (
            found.joules_per_token.value_j,
            found.joules_per_token.low_j,
            found.joules_per_token.high_j,
        )
    ]
    return Comparison(
        what=row.name,
        reference=row.tok_per_s,
        ours=found.tokens_per_s,
        rival=row.null_tokens_per_s,
        bound=None,
        source=row.source,
        unit="tokens/s",
        note=f"{limit} {share:.0%}; {joules[0]} J ({joules[1]} to {joules[2]})",
    )


def _power(row: Published, found: Prediction) -> list[Comparison]:
    if row.power_w is None:
        return []
    watts = found.watts
    note = f"{watts.low_j:.1f} to {watts.high_j:.1f} W"
    return [Comparison(row.name, row.power_w, watts.value_j, None, None, row.source, "W", note)]


def _notes(predicted: list[tuple[Published, Prediction]]) -> Iterable[str]:
    counts = ", ".join(
        f"{sum(row.split == split for row, _ in predicted)} {split}" for split in SPLITS
    )
    yield (
        f"Rows: {counts}. Only unseen rows, never looked at while the model was developed, test a "
        "prediction; errors of development rows say how well what is known is described."
    )
    yield (
        "Null model: 0.9 of the peak bandwidth (of the ports in use, where they are few) over the "
        "bytes of a token. Beside each system: what limits the phases in which most of the time "
        "is spent, the share of that time, and the board's joules per token with their interval."
    )
    known = [
        found.watts.low_j <= row.power_w <= found.watts.high_j
        for row, found in predicted
        if row.power_w is not None
    ]
    yield f"Published power lies within carsim's interval for {sum(known)} of {len(known)} rows."
    for row, found in predicted:
        if not row.in_scope:
            yield f"Out of scope: {row.name}: {row.scope_reason}."
        for misfit in found.misfits:
            yield f"Fit: {row.name}: {misfit}"
