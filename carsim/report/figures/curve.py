"""Speed-up of replay over its threshold, and what it costs in quality."""

from collections.abc import Sequence
from dataclasses import dataclass

from carsim.base.text import percent
from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series


@dataclass(frozen=True)
class CurvePoint:
    """A trace on a design.

    Attributes:
        name: The trace.
        tau: Threshold of the layers that may replay.
        replay: Share of eligible decisions that replay.
        speedup: Over dense decoding on the same design.
        loss: Mean, low and high of what is lost per token, nats; None if it was not measured.
    """

    name: str
    tau: float
    replay: float
    speedup: float
    loss: tuple[float, float, float] | None


def curve_plot(points: Sequence[CurvePoint], today: tuple[float, float] | None) -> Plot:
    """Two panels over the threshold.

    Args:
        points: Traces, each captured at its own threshold; in the order of their thresholds.
        today: Threshold and speed-up of the design as it is; None if it has no one threshold.
    """
    taus = [point.tau for point in points]
    told = [f"{p.name}: {percent(p.replay)} replayed, {p.speedup:.3f} x" for p in points]
    speed = [
        Series("", taus, [p.speedup for p in points], "line", style.BLUE),
        Series("traces", taus, [p.speedup for p in points], "points", style.BLUE, hover=told),
    ]
    if today is not None:
        hover = [f"today: tau {today[0]:g}, {today[1]:.3f} x"]
        look = {"marker": "d", "size": 10.0, "hollow": True}
        speed.append(
            Series("today", [today[0]], [today[1]], "points", style.VERMILION, hover=hover, **look)  # type: ignore[arg-type]
        )
    measured = [(p.tau, *p.loss, p.name) for p in points if p.loss is not None]
    panels = [Panel("", tuple(speed), "speed-up [x]", x_scale="log")]
    if measured:
        at, mean, low, high, names = zip(*measured, strict=True)
        panels.append(
            Panel(
                "threshold tau (larger: fewer replays)",
                (
                    Series("", at, mean, "line", style.ORANGE),
                    Series(
                        "loss",
                        at,
                        mean,
                        "points",
                        style.ORANGE,
                        low=low,
                        high=high,
                        interval_of="y",
                        hover=[
                            f"{name}: {value:.3f} nats lost per token [{a:.3f}, {b:.3f}]"
                            for name, value, a, b in zip(names, mean, low, high, strict=True)
                        ],
                    ),
                ),
                "loss [nats]",
                x_scale="log",
            )
        )
    return Plot(
        "speed-up of replay over tau, and what it costs",
        tuple(panels),
        alt="Speed-up and loss of quality over the threshold of replay",
        caption="Over dense decoding. Points: traces captured at that threshold; bars: 95 % "
        "intervals over clips. No replay is a speed-up of 1 and a loss of 0.",
        size_in=(6.5, 4.4),
        shares="x",
    )
