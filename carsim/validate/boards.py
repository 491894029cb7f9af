"""Published decoding speeds of FPGA boards, predicted from the published configurations alone.

Each row of ``data/published_decode.csv`` names a design in ``configs/published/``, which holds what
was published of the system before it decoded anything: clock, ports, array, precisions. Stand-alone
tests of a memory count as such; a bandwidth utilisation or speed seen while decoding does not, and
no field is fitted to a row. Which rows have their bottleneck inside the model was written down
(``in_scope``, with the reason) before any of them was run.

The naive rival is 0.9 of the peak bandwidth over the bytes of a token. Peak and bytes are those
that the row states, so that it does not depend on carsim; where a system uses few of a board's
ports, the peak is that of these ports.
"""

import csv
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from carsim.design import Design, configs_folder, load_design
from carsim.machine.decode import Decode, decode
from carsim.technology.energy import Joules
from carsim.technology.fit import check_fit
from carsim.units import GB
from carsim.workload.geometry import Video

MEDIAN_BOUND = 0.10
"""Most that the median error of the rows in scope may be."""

NULL_EFFICIENCY = 0.9
"""Share of the peak bandwidth that the naive rival takes for granted."""


@dataclass(frozen=True, slots=True)
class Published:
    """One published system.

    Attributes:
        system: Who.
        board: On what.
        model: Decoding what.
        config: Name of its design in ``configs/published``.
        first_context: Tokens attended to at the first of the steps that were timed.
        last_context: The same at the last.
        tokens_per_s: Published speed.
        power_w: Published power; None if there is none.
        peak_gbps: Peak bandwidth, in 1e9 bytes per second.
        weight_bytes: Bytes of weights read per token, scales included.
        kv_bytes_per_token: Bytes of keys and values per token attended to.
        in_scope: Its bottleneck lies inside the model; decided before it was run.
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
    tokens_per_s: float
    power_w: float | None
    peak_gbps: float
    weight_bytes: float
    kv_bytes_per_token: float
    in_scope: bool
    scope_reason: str
    status: str
    source: str
    note: str

    @property
    def null_tokens_per_s(self) -> float:
        """What the naive rival predicts."""
        context = (self.first_context + self.last_context) / 2
        nbytes = self.weight_bytes + self.kv_bytes_per_token * context
        return NULL_EFFICIENCY * self.peak_gbps * GB / nbytes


@dataclass(frozen=True)
class BoardRow:
    """A published system beside its prediction. Errors are relative, positive if too fast.

    Attributes:
        published: What was published.
        decode: What was simulated.
        joules_per_token: Of the whole board, with the interval of the energy constants.
        misfits: What of the published design does not fit, as carsim estimates resources.
    """

    published: Published
    decode: Decode
    joules_per_token: Joules
    misfits: tuple[str, ...]

    @property
    def error(self) -> float:
        """Predicted over published speed, less 1."""
        return self.decode.tokens_per_s / self.published.tokens_per_s - 1

    @property
    def null_error(self) -> float:
        """The same of the naive rival."""
        return self.published.null_tokens_per_s / self.published.tokens_per_s - 1

    @property
    def beats_null(self) -> bool:
        """Nearer to the published speed than the naive rival."""
        return abs(self.error) < abs(self.null_error)

    @property
    def limit(self) -> tuple[str, float]:
        """What limits the phases in which most of the time is spent, and the share of that time."""
        return next(iter(self.decode.limit_shares.items()))

    @property
    def power_w(self) -> Joules:
        """Watts of the board while it decodes at the predicted speed, with their interval."""
        joules, rate = self.joules_per_token, self.decode.tokens_per_s
        return Joules(joules.value_j * rate, joules.low_j * rate, joules.high_j * rate)

    @property
    def power_error(self) -> float | None:
        """Predicted over published power, less 1; None if none was published."""
        watts = self.published.power_w
        return None if watts is None else self.power_w.value_j / watts - 1

    @property
    def power_inside(self) -> bool | None:
        """The published power lies in the interval; None if none was published."""
        watts = self.published.power_w
        return None if watts is None else self.power_w.low_j <= watts <= self.power_w.high_j


@dataclass(frozen=True)
class BoardsReport:
    """All rows, in the order of the file."""

    rows: tuple[BoardRow, ...]

    @cached_property
    def in_scope(self) -> tuple[BoardRow, ...]:
        """Rows whose bottleneck lies inside the model."""
        return tuple(row for row in self.rows if row.published.in_scope)

    @property
    def median_error(self) -> float:
        """Median absolute error of the rows in scope."""
        return statistics.median(abs(row.error) for row in self.in_scope)

    @property
    def null_median_error(self) -> float:
        """The same of the naive rival."""
        return statistics.median(abs(row.null_error) for row in self.in_scope)

    @property
    def passes(self) -> bool:
        """The median error is within its bound."""
        return self.median_error <= MEDIAN_BOUND


def published_rows() -> tuple[Published, ...]:
    """The published systems, in the order of the file."""
    text = (files("carsim.validate") / "data" / "published_decode.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def published_design(config: str) -> Design:
    """The design of a published system.

    Args:
        config: Its name in ``configs/published``.

    Raises:
        InputError: The design is not valid.
    """
    return load_design(str(configs_folder() / "published" / f"{config}.yaml"))


def predict(published: Published, design: Design | None = None) -> BoardRow:
    """Predict one system.

    Args:
        published: The system.
        design: Its design; by default the one that it names.
    """
    design = design or published_design(published.config)
    simulated = decode(design, published.first_context, published.last_context)
    longest = Video(n_frames=published.last_context, tokens_per_frame=1, prompt_tokens=0)
    fit = check_fit(design, longest)
    return BoardRow(published, simulated, simulated.joules_per_token(fit.resources), fit.misfits)


def validate_boards(
    rows: Iterable[Published] | None = None, progress: Callable[[str], None] | None = None
) -> BoardsReport:
    """Predict all systems.

    Args:
        rows: Systems to predict; by default all of the file.
        progress: Told which system is next.
    """
    tell = progress or (lambda _: None)
    predicted = []
    for published in published_rows() if rows is None else rows:
        tell(f"{published.system} on {published.board}")
        predicted.append(predict(published))
    return BoardsReport(tuple(predicted))


def _row(row: dict[str, str]) -> Published:
    return Published(
        system=row["system"],
        board=row["board"],
        model=row["model"],
        config=row["config"],
        first_context=int(row["first_context"]),
        last_context=int(row["last_context"]),
        tokens_per_s=float(row["tok_per_s"]),
        power_w=float(row["power_w"]) if row["power_w"] else None,
        peak_gbps=float(row["peak_gbps"]),
        weight_bytes=float(row["weight_bytes_per_token"]),
        kv_bytes_per_token=float(row["kv_bytes_per_context_token"]),
        in_scope={"yes": True, "no": False}[row["in_scope"]],
        scope_reason=row["scope_reason"],
        status=row["status"],
        source=row["source"],
        note=row["note"],
    )
