"""Published decoding speeds: their table, their designs, and what carsim says of each.

Each row of ``data/published_decode.csv`` names a design in ``configs/published/`` and changes of
it (column ``changes``). The design holds what was published of the system before it decoded
anything: clock, ports, array, precisions. Two columns say how much a row can prove:

* ``in_scope``: its bottleneck lies inside the model; written down, with the reason, before the row
  was first run, or the reason says that its speed was known by then.
* ``split``: ``fitted`` (a number of carsim was fitted to it), ``development`` (it was looked at
  while the model was developed) or ``unseen`` (no number of carsim was chosen with it in view).
  Systems are drawn for ``unseen`` by a hash of their name before their speed is read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from carsim.base.units import GB
from carsim.cost.energy import EnergyReport, Joules
from carsim.cost.fit import FitReport, check_fit
from carsim.design import Design, configs_folder, load_design
from carsim.runs.calibrate import MeasuredSpeed, point_of
from carsim.runs.decode import Decode, decode
from carsim.validate.peers import data_rows
from carsim.workload.geometry import Video

SPLITS = ("fitted", "development", "unseen")

OFF_CHIP = ("memory ", "standby ")
"""Beginnings of components of energy that a report of a chip's power leaves out."""


@dataclass(frozen=True)
class Published:
    """One published system; fields are the columns of the file.

    ``system``, ``model`` and ``board`` say who decodes what on what, ``config`` names its design in
    ``configs/published`` and ``changes`` what differs in this row. The steps that were timed attend
    to ``first_context`` to ``last_context`` tokens. ``tok_per_s`` and ``power_w`` (W; None if there
    is none) were published. ``peak_gbps`` (1e9 bytes per second) and the bytes per token are what
    the baselines know. ``status`` says how the figure came about, ``source`` where it stands,
    ``note`` what one has to know of it.
    """

    system: str
    board: str
    model: str
    config: str
    changes: str
    first_context: int
    last_context: int
    tok_per_s: float
    power_w: float | None
    power_of: Literal["board", "chip", ""]
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
    def unit(self) -> str:
        """Runtime and chip; rows of one unit are of the same system.

        Additions after a comma, such as a precision or a number of cards, do not tell systems
        apart.
        """
        return f"{self.system.partition(',')[0]}, {self.board.partition(',')[0]}"

    @cached_property
    def design(self) -> Design:
        """The design of this row.

        Raises:
            InputError: It is not valid.
        """
        return published_design(self.config, self.changes.split())

    def at_peak(self, share: float) -> float:
        """Tokens per second where bytes come at this share of the peak bandwidth."""
        context = (self.first_context + self.last_context) / 2
        nbytes = self.weight_bytes_per_token + self.kv_bytes_per_context_token * context
        return share * self.peak_gbps * GB / nbytes


def published_rows() -> tuple[Published, ...]:
    """The published systems, in the order of the file."""
    return _rows_of("published_decode.csv")


def later_rows() -> tuple[Published, ...]:
    """FPGAs that were published later: no expected time, interval or choice rests on them."""
    return _rows_of("published_later.csv")


def _rows_of(file: str) -> tuple[Published, ...]:
    read = TypeAdapter(Published).validate_python
    return tuple(read({**row, "power_w": row["power_w"] or None}) for row in data_rows(file))


def published_design(config: str, changes: Iterable[str] = ()) -> Design:
    """The design of a published system.

    Args:
        config: Its name in ``configs/published`` or ``configs/later``.
        changes: What differs, such as ``model.weights.bits=4``.

    Raises:
        InputError: The design is not valid.
    """
    folders = (configs_folder() / name for name in ("published", "later"))
    paths = [folder / f"{config}.yaml" for folder in folders]
    return load_design(str(next((path for path in paths if path.is_file()), paths[0])), changes)


class Speed(NamedTuple):
    """Tokens per second on a real board: expected value, and ends of the 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Predicted:
    """A published row next to what carsim says of it: a decoding, and its fit to the board."""

    row: Published
    decode: Decode
    fit: FitReport

    @property
    def speed(self) -> float:
        """Tokens per second that carsim gives."""
        return self.decode.tokens_per_s

    @cached_property
    def energy(self) -> EnergyReport:
        """Joules of a token, by component."""
        return self.decode.energy_per_token(self.fit.resources)

    @property
    def watts(self) -> Joules:
        """Power at the predicted speed in W, of that which the published figure is of."""
        watts = self.energy.scaled(self.speed).components
        if self.row.power_of == "chip":
            watts = tuple(of_one for of_one in watts if not of_one.component.startswith(OFF_CHIP))
        return EnergyReport(watts).board

    @property
    def expected(self) -> Speed:
        """Speed expected on a real board."""
        share_at_peak = self.speed / self.row.at_peak(1.0)
        factors = self.decode.design.expected.not_below(share_at_peak)
        return Speed(
            value=self.speed / factors.factor,
            low=self.speed / factors.high,
            high=self.speed / factors.low,
        )

    @cached_property
    def point(self) -> MeasuredSpeed:
        """The row as a point to calibrate with."""
        row = self.row
        contexts = (row.first_context, row.last_context)
        return point_of(row.name, row.tok_per_s, decoded=self.decode, contexts=contexts)


def predict(row: Published) -> Predicted:
    """Predict one row."""
    decoded = decode(row.design, row.first_context, row.last_context)
    longest = Video(n_frames=max(decoded.contexts), tokens_per_frame=1, prompt_tokens=0)
    return Predicted(row, decode=decoded, fit=check_fit(row.design, longest))


def predict_rows(progress: Callable[[str], None] = lambda _: None) -> list[Predicted]:
    """Predict all published systems.

    Args:
        progress: Told which system is next.
    """
    predicted = []
    for row in published_rows():
        progress(row.name)
        predicted.append(predict(row))
    return predicted
