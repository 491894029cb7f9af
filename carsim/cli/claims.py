"""``carsim validate claims``: what four papers state, and what tests of it found."""


def show_claims(as_json: bool, markdown: bool) -> None:
    """Print the ledger as tables, as JSON with all columns, or as a page of Markdown."""
    import click

    from carsim.base.text import Table
    from carsim.cli.console import in_order, output_console, show, show_json
    from carsim.validate.claims import claims, claims_page, counted

    rows = claims()
    if as_json:
        show_json({"claims": rows})
        return
    if markdown:
        click.echo(claims_page(), nl=False)
        return
    sections: list[tuple[str, list[str | Table]]] = []
    for paper in dict.fromkeys(row["paper"] for row in rows):
        own = [row for row in rows if row["paper"] == paper]
        lines = tuple((row["claim"], row["verdict"], row["result"]) for row in own)
        marked = frozenset(n for n, row in enumerate(own) if row["verdict"] == "contradicts")
        table = Table(("claim", "verdict", "result"), lines, text_columns=3, marked=marked)
        sections.append((paper, [table, counted(own)]))
    note = "Places, commands and reasons: --markdown or --json."
    show(output_console(), in_order([*sections, ("", [counted(rows), note])]))
