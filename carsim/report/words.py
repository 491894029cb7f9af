"""Words of the field that a page spells out once, where it uses them."""

import re

WORDS = {
    "DRS": (
        "DRS is the Dynamic Resource Scheduler: it distributes over the cores the sequences that "
        "still compute."
    ),
    "tau": "tau is a threshold: a layer replays where its score is above tau.",
    "replay": (
        "Replay takes an earlier output, such as that of the same place one frame before, instead "
        "of computing it."
    ),
}
"""Word -> what it means, in a sentence."""

_NOT_READ = re.compile(r"<script.*?</script>|<style.*?</style>|<[^>]*>", re.DOTALL)
"""Parts of a page that nobody reads."""


def spelled_out(page: str) -> list[str]:
    """Sentences on those words of :data:`WORDS` that a page uses.

    Args:
        page: The page as HTML, or a text.

    >>> spelled_out("<p>all of tau</p><script>DRS</script>")
    ['tau is a threshold: a layer replays where its score is above tau.']
    """
    text = _NOT_READ.sub(" ", page)
    return [
        meaning
        for word, meaning in WORDS.items()
        if re.search(rf"\b{word}\b", text, re.IGNORECASE if word == "replay" else 0)
    ]
