"""Published decoding speeds of boards and chips, predicted from published configurations alone.

Each row of ``data/published_decode.csv`` names a design in ``configs/published/``, which holds what
was published of the system before it decoded anything: clock, ports, array, precisions. Stand-alone
tests of a memory count as such, and what the same engine's counters said on another board; a
bandwidth utilisation or speed seen while decoding does not, and no field is fitted to a row. Two
columns say how much a row can prove:

* ``in_scope``: its bottleneck lies inside the model; written down, with the reason, before the row
  was first run, or the reason says that its speed was known by then.
* ``split``: ``fitted`` (a number of carsim was fitted to it), ``development`` (it was looked at
  while the model was developed) or ``unseen`` (the model was not touched since it was). Only
  ``unseen`` rows in scope test a prediction.

The rival is the null model: 0.9 of the peak bandwidth over the bytes of a token. Peak and bytes are
those that the row states, so that it does not depend on carsim; where a system uses few of a
board's ports, the peak is that of these ports.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter

from carsim.base.text import number, span, with_ends
from carsim.base.units import GB
from carsim.cost.energy import Joules
from carsim.cost.fit import check_fit
from carsim.design import Design, configs_folder, load_design
from carsim.metrics import Comparison
from carsim.runs.decode import Decode, decode
from carsim.validate.part import Group, Part
from carsim.validate.peers import data_rows
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

    ``system``, ``model`` and ``board`` say who decodes what on what, ``config`` names its design in
    ``configs/published``. The steps that were timed attend to ``first_context`` to ``last_context``
    tokens. ``tok_per_s`` and ``power_w`` (W; None if there is none) were published. ``peak_gbps``
    (1e9 bytes per second) and the bytes per token are what the null model knows. ``status`` says
    how the figure came about, ``source`` where it stands, ``note`` what one has to know of it.
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
    read = TypeAdapter(Published).validate_python
    return tuple(
        read({**row, "power_w": row["power_w"] or None})
        for row in data_rows("published_decode.csv")
    )


def published_design(config: str) -> Design:
    """The design of a published system.

    Args:
        config: Its name in ``configs/published``.

    Raises:
        InputError: The design is not valid.
    """
    return load_design(str(configs_folder() / "published" / f"{config}.yaml"))


@dataclass(frozen=True)
class Prediction:
    """What carsim says of a design that decodes.

    Attributes:
        decode: Speed, bytes and limits.
        joules_per_token: Of the whole board, with the interval of the energy constants.
        misfits: What of the design does not fit its board, as carsim estimates resources.
    """

    decode: Decode
    joules_per_token: Joules
    misfits: tuple[str, ...]

    @property
    def watts(self) -> Joules:
        """Power of the board at the predicted speed, in W, with its interval."""
        each, rate = self.joules_per_token, self.decode.tokens_per_s
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
    return Prediction(found, found.joules_per_token(fit.resources), fit.misfits)


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
    every = tuple(_speed(row, found) for row, found in predicted)
    inside = tuple(speed for speed, (row, _) in zip(every, predicted, strict=True) if row.in_scope)
    outside = tuple(speed for speed in every if speed not in inside)
    powers = tuple(each for row, found in predicted for each in _power(row, found))
    bounds = {"median": MEDIAN_BOUND, "mean": MEAN_BOUND}
    wanted = [
        Group("tokens/s, all rows", every, NULL, must_win=True, shown=False),
        *_splits(predicted),
        Group("tokens/s, in scope", inside, NULL, bounds, True, LEAST_WINS),
        Group("tokens/s, out of scope", outside, NULL),
        Group("power in W", powers),
    ]
    return Part(
        "boards",
        "Decoding speed and power of published systems, from their configurations alone",
        tuple(group for group in wanted if group.rows),
        tuple(_notes(predicted)),
    )


def _splits(predicted: list[tuple[Published, Prediction]]) -> Iterable[Group]:
    """A group per split; none where all rows are of one. Unseen rows in scope are the test."""
    for split in SPLITS:
        chosen = tuple(_speed(row, found) for row, found in predicted if row.split == split)
        if len(chosen) < len(predicted):
            yield Group(f"tokens/s, {split}", chosen, NULL, shown=False)
    tested = tuple(
        _speed(row, found) for row, found in predicted if row.split == "unseen" and row.in_scope
    )
    if tested:
        yield Group("tokens/s, unseen and in scope", tested, NULL, must_win=True, shown=False)


def _speed(row: Published, found: Prediction) -> Comparison:
    limit, share = next(iter(found.decode.limit_shares.items()))
    joules = found.joules_per_token
    value, low, high = (number(each, 3) for each in (joules.value_j, joules.low_j, joules.high_j))
    return Comparison(
        row.name,
        row.tok_per_s,
        found.decode.tokens_per_s,
        row.null_tokens_per_s,
        None,
        row.source,
        "tokens/s",
        f"{limit} {share:.0%}; {with_ends(f'{value} J', low, high, ' to ')}",
    )


def _power(row: Published, found: Prediction) -> list[Comparison]:
    if row.power_w is None:
        return []
    watts = found.watts
    note = f"{span(f'{watts.low_j:.1f}', f'{watts.high_j:.1f}', ' to ')} W"
    return [Comparison(row.name, row.power_w, watts.value_j, None, None, row.source, "W", note)]


def _notes(predicted: list[tuple[Published, Prediction]]) -> Iterable[str]:
    counts = ", ".join(
        f"{sum(row.split == split for row, _ in predicted)} {split}" for split in SPLITS
    )
    yield (
        f"Rows: {counts}. Unseen rows, of which nothing was known while the model was developed, "
        "test a prediction where they are in scope; errors of development rows say how well what "
        "is known is described."
    )
    yield (
        "Null model: 0.9 of the peak bandwidth (of the ports in use, where they are few) over the "
        "bytes of a token. Beside each system: what limits the phases in which most of the time "
        "is spent, the share of that time, and the board's joules per token with their interval."
    )
    yield (
        "What a dispatch, a host or a stage between products costs is chosen by the kind of "
        "control that a system publishes, mostly with these rows in view, and told with the cause "
        "of each row in configs/published/README.md."
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
