"""One page and one PDF of an idea, with every label that its figures need."""

from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.base.files import write_whole
from carsim.idea.price import PERIODIC
from carsim.idea.subject import Subject
from carsim.report.figures import style as plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAYS = ("dense", "idea", "FastCar", PERIODIC, "random")
"""Ways of the speed-ups, in the order of the page's table."""
MODEL_LABEL = "a small model of four layers with one head of eight"


def labels(subject: Subject, scenes: int, results: dict[str, Any]) -> list[str]:
    """What a reader has to know beside the figures."""
    notes = [
        f"Losses are of {MODEL_LABEL}, which hardly speaks for large models.",
        f"Few scenes: {scenes} held-out synthetic scenes; intervals are 95 % over scenes, and too "
        "narrow where scenes are few.",
        "True tokens are fed (teacher forcing); replays are really applied (closed loop).",
        "Times are of VILA-U-7B: decisions of the small model's layers stand for those at the "
        "same depth (open loop for the large model).",
        "Random replays as often as the idea, periodic at the nearest share of whole frames; "
        "neither has a score. FastCar's threshold is for the idea's share on these scenes.",
    ]
    if subject.policy is not None:
        notes[-1] = "The baseline of the loss is a window of the newest tokens with equal reads."
        if subject.policy.shares_heads:
            notes.append("The small model has one key head: its loss says nothing of shared heads.")
    for name, decision in results.get("capture", {}).get("further", {}).items():
        notes.append(
            f"Attention follows a decision of its own, {name!r}: "
            f"{100 * decision['ratio']:.0f} % of eligible steps skip it, in all ways of replay. "
            "Replayed shares in the table are of the MLP."
        )
    if subject.decisions is not None:
        own = "Decisions are the user's own, and were not captured."
        notes = [notes[4], own, notes[3], *notes[5:]]
    return notes


def write_page(
    folder: Path, subject: Subject, scenes: int, results: dict[str, Any]
) -> tuple[Path, Path]:
    """Write ``idea.html`` and ``idea.pdf``.

    Args:
        folder: Where to write.
        subject: The idea.
        scenes: Number of scenes.
        results: Results by step; the loss may be missing.

    Returns:
        Both files.
    """
    notes = labels(subject, scenes, results)
    html = folder / "idea.html"
    pdf = folder / "idea.pdf"
    text = _html(subject, results, notes)
    write_whole(html, lambda unfinished: unfinished.write_text(text, encoding="utf-8"))
    _draw(pdf, subject, results, notes)
    return html, pdf


def _html(subject: Subject, results: dict[str, Any], notes: list[str]) -> str:
    title = escape(f"{subject.text} ({subject.file.name})")
    sections = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta http-equiv='Content-Security-Policy' "
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{title}</title>",
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;"
        "border-bottom:1px solid #ccc}td:first-child,th:first-child{text-align:left}</style>",
        f"<h1>{title}</h1>",
        f"<p>{escape(results['contract']['line'])}; {escape(results['cost']['line'])}.</p>",
        f"<h2>Time and energy of a video</h2>{_price_table(results['price'])}",
    ]
    if "loss" in results:
        sections.append(f"<h2>Loss over dense decoding</h2>{_loss_table(results['loss'])}")
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    sources = sorted({price["label"] for price in results["price"]})
    sources_list = "".join(f"<li>{escape(source)}</li>" for source in sources)
    sections.append(f"<h2>What these figures rest on</h2><ul>{items}</ul>")
    sections.append(f"<h2>Where decisions come from</h2><ul>{sources_list}</ul>")
    sections.append(
        f"<p>carsim {escape(version('carsim'))}, sha256 {subject.sha256[:16]}</p></html>"
    )
    return "\n".join(sections)


def _price_table(prices: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(price['machine'])}, {escape(price['way'])}</td>"
        f"<td>{price['seconds']:.2f}</td><td>{price['joules']:.0f}</td>"
        f"<td>{price['speedup']:.3f}</td><td>{100 * price['ratio']:.0f} %</td></tr>"
        for price in prices
    )
    return f"<table><tr><th>machine, way<th>s<th>J<th>speed-up<th>replayed</tr>{rows}</table>"


def _loss_table(loss: dict[str, Any]) -> str:
    rows = []
    for name, excess in loss["excess"].items():
        gain = loss["gains"].get(name)
        gain_text = "" if gain is None else _interval(gain)
        rows.append(
            f"<tr><td>{escape(name)}</td><td>{_interval(excess)}</td><td>{gain_text}</td></tr>"
        )
    head = "<tr><th>way<th>nats per token over dense<th>less the idea's</tr>"
    replayed = f"<p>{100 * loss['ratio']:.0f} % of eligible steps replay"
    by_layer = ", ".join(f"{100 * share:.0f}" for share in loss["by_layer"])
    return (
        f"<table>{head}{''.join(rows)}</table>{replayed} (by layer: {by_layer} %); "
        f"dense decoding has {loss['dense_nats']:.3f} nats.</p>"
    )


def _interval(interval: dict[str, float]) -> str:
    return f"{interval['mean']:+.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"


def _draw(path: Path, subject: Subject, results: dict[str, Any], notes: list[str]) -> None:
    """The PDF: speed-ups, losses, and all labels."""
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    with plots.style():
        figure = Figure(figsize=(8.3, 5.8), layout="constrained")
        FigureCanvasPdf(figure)
        figure.suptitle(f"{subject.text} ({subject.file.name})", wrap=True)
        speedups, losses = figure.subplots(1, 2)
        _draw_speedups(speedups, results["price"])
        if "loss" in results:
            _draw_losses(losses, results["loss"]["excess"])
        else:
            losses.set_axis_off()
        figure.text(0.01, -0.01, "\n".join(notes), fontsize=6, va="top")
        figure.savefig(path, format="pdf", bbox_inches="tight", metadata={"CreationDate": None})


def _draw_speedups(axes: "Axes", prices: list[dict[str, Any]]) -> None:
    """Bars of the ways, side by side for each machine."""
    machines = list(dict.fromkeys(price["machine"] for price in prices))
    ways = [way for way in WAYS if any(price["way"] == way for price in prices)]
    height = 0.9 / (len(ways) + 1)
    for number, way in enumerate(ways):
        speedup_of = {price["machine"]: price["speedup"] for price in prices if price["way"] == way}
        heights = [machine + number / (len(ways) + 1) for machine in range(len(machines))]
        axes.barh(heights, [speedup_of[name] for name in machines], height, label=way)
    middle = (len(ways) - 1) / 2 / (len(ways) + 1)
    axes.set_yticks([machine + middle for machine in range(len(machines))], machines)
    axes.invert_yaxis()  # the order of the page's table, from the top down
    axes.axvline(1, linewidth=0.8, color=plots.GREY)
    axes.set(xlabel="speed-up over dense decoding")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def _draw_losses(axes: "Axes", excess: dict[str, dict[str, float]]) -> None:
    """The loss of each way, and its interval."""
    for number, interval in enumerate(excess.values()):
        axes.plot([interval["low"], interval["high"]], [number, number], color=plots.GREY)
        axes.plot(interval["mean"], number, "o", color=plots.BLUE)
    axes.set_yticks(range(len(excess)), list(excess))
    axes.invert_yaxis()
    axes.set(xlabel="loss over dense, nats per token")
