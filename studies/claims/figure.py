"""Draw the verdicts of the ledger, paper by paper.

python -m studies.claims.figure
"""

from collections import Counter
from pathlib import Path

from carsim.report.figures import style as plots
from carsim.validate.claims import VERDICTS, claims
from studies.drawing import drawing

LOOKS = (plots.GREEN, plots.ORANGE, plots.SKY, plots.LIGHT_GREY)
COLOURS = dict(zip(VERDICTS, LOOKS, strict=True))


def main() -> None:
    """Write ``claims.png``."""
    counts = Counter((row["paper"].partition(" (")[0], row["verdict"]) for row in claims())
    papers = sorted({paper for paper, _ in counts}, key=lambda each: counts[each, VERDICTS[0]])
    title = "Claims of ten papers by verdict"
    with drawing(Path(__file__).with_name("claims.png"), 6.4, 2.2, title) as figure:
        axes = figure.add_subplot()
        left = [0] * len(papers)
        for verdict, colour in COLOURS.items():
            widths = [counts[paper, verdict] for paper in papers]
            bars = axes.barh(papers, widths, left=left, color=colour, label=verdict)
            axes.bar_label(bars, [str(width or "") for width in widths], label_type="center")
            left = [before + width for before, width in zip(left, widths, strict=True)]
        axes.set_xlabel("claims")
        axes.legend(loc="lower right", fontsize=8)


if __name__ == "__main__":
    main()
