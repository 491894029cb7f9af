"""Fixed looks of policies, the same in all figures: reports, studies, the studio and print.

A policy has one colour, hatch, marker and dash, which follow from its name alone. Policies that
a run compares without being asked have looks of a table. All others, such as those of a user's own
rule, draw theirs from a second palette by a hash of the name: stable from figure to figure and
from computer to computer. Two of them can share a colour; hatch and marker then tell them apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import cycle
from typing import NamedTuple

from carsim.report.figures import OWN_MARK, Shown, style
from carsim.report.figures.plot import DASHES, Dash


class PolicyLook(NamedTuple):
    """The look of a policy.

    Attributes:
        colour: Colour of its bars, points and lines.
        hatch: Hatch of its bars.
        marker: Marker of its points, a name of matplotlib.
        dash: Dash pattern of its lines.
    """

    colour: str
    hatch: str = ""
    marker: str = "o"
    dash: Dash = "solid"


POLICY_LOOKS: Mapping[str, PolicyLook] = {
    "dense, static": PolicyLook(style.GREY),
    "sparse attention, static": PolicyLook(style.ORANGE, "/", "s", "dash"),
    "FastCar, static": PolicyLook(style.SKY, "", "^", "dot"),
    "FastCar + DRS": PolicyLook(style.BLUE, "", "o", "solid"),
    "FastCar + DRS + sparse attention": PolicyLook(style.GREEN, "\\", "d", "dash"),
    "FastCar, pack": PolicyLook(style.PURPLE, "x", "s", "dot"),
}
"""Name of a policy -> its look."""

OUTSIDE_COLOURS = (
    style.VERMILION,
    style.YELLOW,
    style.VIOLET,
    style.OLIVE,
    style.BROWN,
    style.MINT,
)
"""Colours of all other policies; with one hatch, any colour vision tells two of them apart."""

OUTSIDE_HATCHES = ("-", "+", "|", "x", "/", "\\", "")
OUTSIDE_MARKERS = ("o", "s", "^", "d", "*")

REPEATED = (PolicyLook(style.BLACK, "", "x"), PolicyLook(style.VERMILION, "-", "s"))
"""Looks of further runs of a policy in one figure, such as that of a pinned design."""


def policy_look(name: str) -> PolicyLook:
    """The look of a policy, from its name alone; the mark of a run's own policy does not count.

    >>> policy_look("FastCar + DRS").colour
    '#0072B2'
    >>> policy_look("my rule + DRS") == policy_look("my rule + DRS")
    True
    """
    name = name.removesuffix(OWN_MARK)
    if name in POLICY_LOOKS:
        return POLICY_LOOKS[name]
    number = int.from_bytes(sha256(name.encode()).digest()[:8], "big")
    number, colour = divmod(number, len(OUTSIDE_COLOURS))
    number, hatch = divmod(number, len(OUTSIDE_HATCHES))
    number, marker = divmod(number, len(OUTSIDE_MARKERS))
    return PolicyLook(
        OUTSIDE_COLOURS[colour],
        OUTSIDE_HATCHES[hatch],
        marker=OUTSIDE_MARKERS[marker],
        dash=DASHES[number % len(DASHES)],
    )


def looks_by_policy(names: Iterable[str]) -> dict[str, PolicyLook]:
    """Looks of the policies of a figure.

    Colours follow from names alone. Of two policies that would look alike in everything, the
    second in order of the alphabet has another hatch and marker.
    """
    looks: dict[str, PolicyLook] = {}
    for name in sorted(set(names)):
        look = policy_look(name)
        for hatch, marker in zip(OUTSIDE_HATCHES, cycle(OUTSIDE_MARKERS), strict=False):
            if look not in looks.values():
                break
            look = look._replace(hatch=hatch, marker=marker)
        looks[name] = look
    return looks


def looks_of_shown(policies: Sequence[Shown]) -> list[PolicyLook]:
    """Looks of what a figure of runs shows, in its order.

    Runs that have one policy each are told apart by their labels, so that their colours are those
    of a palette in order, unless the policies all differ.
    """
    names = [shown.policy.policy for shown in policies]
    runs = {id(shown.run) for shown in policies}
    has_policy_per_run = 1 < len(runs) == len(policies)
    has_equal_policies = len(set(names)) < len(names)
    looks: list[PolicyLook] = []
    if has_policy_per_run and has_equal_policies:
        for index in range(len(names)):
            colour, hatch = style.PALETTE[index % len(style.PALETTE)]
            looks.append(PolicyLook(colour, hatch))
        return looks
    look_of_policy = looks_by_policy(names)
    for index, name in enumerate(names):
        earlier = names[:index].count(name)
        if earlier == 0:
            looks.append(look_of_policy[name])
        else:
            looks.append(REPEATED[(earlier - 1) % len(REPEATED)])
    return looks
