"""The ledger of claims: what ten papers state, and what tests of it found.

``python -m studies.claims`` writes ``data/claims.csv``; nothing is computed here.
"""

from collections import Counter
from collections.abc import Sequence

from carsim.validate.peers import data_rows

COLUMNS = ("paper", "claim", "where", "command", "result", "verdict", "why")
VERDICTS = ("agrees", "contradicts", "undecided", "cannot be tested here")

OPENING = """# Claims of ten papers, tested

*`carsim validate claims` prints this page, and `python -m studies.claims` computes what
it says.*

{counts}

* **agrees**: the figures have the claimed sign or size.
* **contradicts**: on at least one of the machines in the row, the figures have not.
* **undecided**: it was tested, and the interval contains both answers. The *detectable* effect is
  the smallest one that such a test finds in four of five experiments.
* **cannot be tested here**: a test needs weights, data or hardware that are not at hand.

Losses are nats per token of the shipped [proxy model](../../studies/proxy/README.md), which hardly
needs its MLPs: they measure stale outputs, not the value of replay in VILA-U. Some rows name the
small model that needs its MLPs; their losses are of that model. Brackets are 95 % intervals over
held-out scenes. Verdicts hold for these machines and this model. The command of a row remakes the
tables that its test reads; `python -m studies.claims` repeats all tests in seconds.
"""


def claims() -> list[dict[str, str]]:
    """Rows of the ledger, each with all of :data:`COLUMNS`."""
    return data_rows("claims.csv")


def counted(rows: Sequence[dict[str, str]]) -> str:
    """Number of rows with each verdict.

    >>> counted([{"verdict": "agrees"}])
    'Of 1 claims: agrees 1, contradicts 0, undecided 0, cannot be tested here 0'
    """
    counts = Counter(row["verdict"] for row in rows)
    by_verdict = ", ".join(f"{verdict} {counts[verdict]}" for verdict in VERDICTS)
    return f"Of {len(rows)} claims: {by_verdict}"


def claims_page() -> str:
    """The ledger as a page of Markdown, a table for each paper."""
    rows = claims()
    text_columns = ("claim", "where", "verdict", "result", "why")
    head = [*text_columns, "command"]
    sections = []
    for paper in dict.fromkeys(row["paper"] for row in rows):
        of_paper = [row for row in rows if row["paper"] == paper]
        lines = [head, ["---"] * len(head)]
        for row in of_paper:
            cells = [row[column].replace("|", "\\|") for column in text_columns]
            command = row["command"] if row["command"] == "none" else f"`{row['command']}`"
            lines.append([*cells, command])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        sections.append(f"\n## {paper}\n\n{counted(of_paper)}.\n\n{table}\n")
    return OPENING.format(counts=f"{counted(rows)}.") + "".join(sections)
