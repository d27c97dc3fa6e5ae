"""Sphinx configuration. `make docs` builds the site; a broken link or a request to another host fails the build."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError

from fairway import __version__

project = "Fairway"
copyright = "the Fairway authors"  # noqa: A001 (Sphinx's name)
release = __version__
extensions = ["myst_parser"]
myst_heading_anchors = 4
smartquotes = False  # they turn `--wait` in tables and headings into a dash and a word
pygments_dark_style = "github-dark"  # the default underlines modules like links
highlight_language = "none"  # unlabelled blocks are output, not Python
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = "Fairway"
html_copy_source = False
html_show_sphinx = False
nitpicky = True

REMOTE = re.compile(
    r'<(?:script|img|iframe|link rel="(?:stylesheet|preload|icon)")[^>]*(?:src|href)="(?:https?:)?//[^"]*"'
)


def check_hosts(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            if found := REMOTE.search(page.read_text(encoding="utf-8")):
                raise SphinxError(f"{page.name} requests another host: {found.group()}")


WIDEST = 120
"""Columns that the text column has room for. Wider output wraps as in a terminal, so that no cause is out of sight."""

DENSE = 136
"""Columns that fit in a smaller font. A table hardly wider than the room would put a word below each row."""

LONGEST = 40
"""Characters of a name that stay in one line. Longer ones may break after one of ``BREAKS``."""

BREAKS = re.compile(r"(?<=[/_.:,=])(?=\w)")
ALIGNED = re.compile(r"\S {2,}\S")
"""The space between two columns of a table."""


def wrap_wide_text(_app: Sphinx, document: nodes.document) -> None:
    for block in document.findall(nodes.literal_block):
        lines = block.astext().splitlines()
        widest = max(map(len, lines), default=0)
        if any(ALIGNED.search(line) for line in lines):
            block["classes"].append("columns")
        if widest > WIDEST:
            block["classes"].append("dense" if widest <= DENSE else "wrapped")
    for literal in document.findall(nodes.literal):
        if any(len(word) > LONGEST for word in literal.astext().split()):
            literal["classes"].append("long")
            parts = BREAKS.split(literal.astext())
            literal.children = []
            for part in parts:
                literal += [nodes.Text(part), nodes.raw("", "<wbr>", format="html")]


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", wrap_wide_text)
    app.connect("build-finished", check_hosts)
