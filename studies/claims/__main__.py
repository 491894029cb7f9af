"""Test the claims of ten papers, and write the ledger that ``carsim validate claims`` prints.

    python -m studies.claims            # seconds: simulates, and reads tables of studies
    python -m studies.claims.decoded    # minutes: decodes what only this study needs

``claims.yaml`` has the claims in our own words, where each stands, its test (a function of
``tables.py``, ``machines.py``, ``decisions.py``, ``forwards.py``, ``caching.py`` or ``depth.py``,
with arguments), the command that remakes what the test reads, and why the verdict is no more than
it is. A claim without a test cannot be tested here, and one whose test finds no answer is
undecided. The ledger is ``carsim/validate/data/claims.csv``.
"""

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

import carsim
from carsim.validate.claims import COLUMNS, VERDICTS
from studies.claims import caching, decisions, depth, forwards, machines, tables

CLAIMS = Path(__file__).parent / "claims.yaml"
LEDGER = Path(carsim.__file__).parent / "validate/data/claims.csv"
TESTS = {
    **vars(tables),
    **vars(machines),
    **vars(decisions),
    **vars(forwards),
    **vars(caching),
    **vars(depth),
}
HERE = "python -m studies.claims"


def tested(claim: dict[str, Any]) -> dict[str, str]:
    """A row of the ledger."""
    agrees, contradicts, undecided, untested = VERDICTS
    row = {name: str(claim.get(name, "")) for name in COLUMNS}
    if "test" not in claim:
        return row | {"command": "none", "result": "not tested", "verdict": untested}
    found = TESTS[claim["test"]](**claim.get("with", {}))
    row["command"] = claim.get("command", HERE)
    row["result"] = found.result
    row["verdict"] = {True: agrees, False: contradicts, None: undecided}[found.agrees]
    return row


def ledger() -> str:
    """The ledger as CSV."""
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for paper, claims in yaml.safe_load(CLAIMS.read_text(encoding="utf-8")).items():
        writer.writerows(tested({"paper": paper, **claim}) for claim in claims)
    return text.getvalue()


if __name__ == "__main__":
    LEDGER.write_text(ledger(), encoding="utf-8")
