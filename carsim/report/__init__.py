"""Outputs of a run: one JSON document, and a folder that appears whole or not at all."""

from carsim.report.files import save_report as save_report
from carsim.report.stored import summary as summary
