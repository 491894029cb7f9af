"""What a design takes of its board, by component, whatever it is built in."""

from typing import TYPE_CHECKING

from carsim.hardware.technology.base import Count, Resource, Resources

if TYPE_CHECKING:
    from carsim.design import Design

__all__ = ["Count", "Resource", "Resources", "resources"]


def resources(design: "Design") -> Resources:
    """Resources that a design takes, whether or not its board has them."""
    return design.board.technology.resources(design)
