"""What tests of pages share: a parser of pages, and a text that tries to break out of them."""

import json
from html.parser import HTMLParser
from pathlib import Path

EVIL = '</script><img src=x onerror="alert(1)">%{x}$\\frac{$<a href="http://a.example">&amp;\'"'


class Page(HTMLParser):
    """Tags with attributes, text, scripts and figures of a page."""

    inside = ""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.tags, self.texts, self.scripts, self.data = [], [], [], []
        self.feed(self.html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script" and "type" in self.tags[-1][1]:
            self.data.append(json.loads(data))
        elif self.inside == "script":
            self.scripts.append(data)
        elif self.inside != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All text; spaces that no line breaks at are spaces."""
        return "\n".join(self.texts).replace("\u00a0", " ")

    @property
    def links(self) -> list[str]:
        """Addresses, in their order."""
        return [str(attributes["href"]) for tag, attributes in self.tags if tag == "a"]

    @property
    def shape(self) -> list[tuple[str, ...]]:
        """Tags with the names of their attributes, sorted, without those of cells."""
        return sorted(
            (tag, *sorted(set(attributes) - {"data-value", "style"}))
            for tag, attributes in self.tags
            if tag != "wbr"
        )

    @property
    def policy(self) -> dict[str, str]:
        """Directives of the content security policy."""
        (policy,) = (a["content"] for t, a in self.tags if t == "meta" and "http-equiv" in a)
        return dict(part.strip().split(" ", 1) for part in str(policy).split(";"))
