"""``carsim config metrics``: what every figure means, and how it is calculated."""

import json

import click

from carsim.cli.console import say
from carsim.cli.options import JSON


@click.command()
@JSON
def metrics(as_json: bool) -> None:
    """List every metric: name, unit, which way is better, meaning and formula.

    The names are those of JSON, CSV files, frames and studies.
    """
    from carsim.metrics import METRICS

    if as_json:
        fields = ("name", "unit", "title", "meaning", "formula", "better")
        rows = [{field: getattr(metric, field) for field in fields} for metric in METRICS.values()]
        click.echo(json.dumps(rows, indent=2))
        return

    for metric in METRICS.values():
        unit = f" [{metric.unit}]" if metric.unit else ""
        better = f", {metric.better} is better" if metric.better else ""
        formula = [f"    = {metric.formula}"] if metric.formula else []
        say(f"{metric.name}{unit}{better}", f"    {metric.meaning.rstrip('.')}.", *formula)
