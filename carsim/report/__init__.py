"""Outputs of a run: one JSON document, and a folder that appears whole or not at all."""

from carsim.report.files import save_report
from carsim.report.folder import check_folder
from carsim.report.summary_file import summary

__all__ = ["check_folder", "save_report", "summary"]
