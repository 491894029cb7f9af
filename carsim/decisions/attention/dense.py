"""Dense attention: every token reads all earlier ones and itself."""

from typing import ClassVar, Literal

from carsim.decisions.attention.base import AttentionPolicy


class Dense(AttentionPolicy):
    """Every token attends to all earlier ones."""

    label: ClassVar[str] = "dense attention"
    exact: ClassVar[bool] = True
    masks_forwards: ClassVar[bool] = True

    kind: Literal["dense"] = "dense"
