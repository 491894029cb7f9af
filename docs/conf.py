"""How Sphinx makes a site of the documents: ``python docs``.

The pages are plain Markdown that a forge shows as well. Two things are added here: the
navigation, from the lists of ``docs/README.md``, and headings of the studies, whose files begin
with the answer.
"""

import re
import shutil
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import TYPE_CHECKING

from pygments.lexers import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "carsim"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENCES.md",
    "docs/*.md",
    "docs/*/*.md",
    "docs/notebooks/*.ipynb",
    "studies/README.md",
    "studies/*/README.md",
    "studies/*/details.md",
    "traces/README.md",
    "configs/published/*.md",
    "configs/boards/README.md",
    "configs/later/*.md",
    "configs/networks/*.md",
]
exclude_patterns = ["docs/changes/*"]  # parts of the changelog of the next release
nb_execution_mode = "off"
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes of a class are in its docstring, and need no entries
napoleon_custom_sections = [("Class attributes", "params_style")]
html_theme = "furo"
html_title = "carsim"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["carsim.css"]
html_js_files = ["tables.js"]
highlight_language = "text"

LISTS = ("docs/README", "docs/reference/README", "docs/notebooks/README", "studies/README")
"""Pages whose lists of links are the navigation; those of the first one are that of the site."""


BESIDE = ("docs/README",)
"""Pages that links lead to, and no list."""


API = "docs/reference/api"
"""The page of the Python API, to which the site adds docstrings."""


def linked(text: str, folder: PurePosixPath) -> list[str]:
    """Names of the documents that the items of lists and the rows of tables link to."""
    links = re.findall(r"^[-|].*?\]\(([^)#]+)\.(?:md|ipynb)\)", text, re.MULTILINE)
    return [normpath(folder / link) for link in links if not link.startswith("http")]


def toctrees(name: str) -> str:
    """The lists of a page as navigation, each under the heading that it has there."""
    text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    trees = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        documents = "\n".join(f"/{each}" for each in linked(part, PurePosixPath(name).parent))
        caption = f":caption: {part.splitlines()[0]}\n" if not part.startswith("# ") else ""
        if documents:
            trees.append(f"```{{toctree}}\n:hidden:\n{caption}\n{documents}\n```\n")
    return "\n".join(trees)


def questions() -> dict[str, str]:
    """Study -> the question that it asks."""
    text = (ROOT / "studies/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| \[\w+\]\((\w+)/README.md\) \|$", text, re.MULTILINE)
    return {f"studies/{name}/README": question for question, name in rows}


def docstrings() -> str:
    """What autodoc adds to the page of the Python API: the whole docstring of each name there."""
    text = (ROOT / f"{API}.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `(carsim[.\w]+)` \|", text, re.MULTILINE)
    lines = []
    for name in names:
        is_class = name.rpartition(".")[2][0].isupper()
        lines.append(f".. auto{'class' if is_class else 'function'}:: {name}")
        lines += ["   :members:", ""] if is_class else [""]
    body = "\n".join(lines)
    return f"\n## Docstrings\n\n```{{eval-rst}}\n{body}\n```\n"


def add_navigation(app: "Sphinx", name: str, source: list[str]) -> None:
    """Add what only the site has to the text of a page."""
    if name in BESIDE or name.endswith("/details"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
    elif name == root_doc:
        source[0] += f"\n{toctrees(LISTS[0])}"
    elif name == API:
        source[0] += docstrings()
    elif name in LISTS:
        source[0] += f"\n{toctrees(name)}"
    elif name in questions() and not source[0].startswith("# "):
        source[0] = f"# {questions()[name]}\n\n{source[0]}"


def add_index(app: "Sphinx", exception: Exception | None) -> None:
    """Let the site begin where a browser looks first."""
    if exception is None:
        shutil.copy(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app: "Sphinx") -> None:
    """Tell Sphinx of what is added. Outputs of commands are shown as they are."""
    app.add_lexer("console", TextLexer)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_index)
