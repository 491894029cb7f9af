"""What a run leaves behind: one JSON document, and a folder that appears whole or not at all."""

from carsim.output.files import save_report
from carsim.output.folder import check_folder
from carsim.output.summary import summary

__all__ = ["check_folder", "save_report", "summary"]
