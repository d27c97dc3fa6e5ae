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

LONGEST = 40
"""Characters of a name in a table that stay in one line."""


def wrap_wide_text(_app: Sphinx, document: nodes.document) -> None:
    for block in document.findall(nodes.literal_block):
        if any(len(line) > WIDEST for line in block.astext().splitlines()):
            block["classes"].append("wrapped")
    for literal in document.findall(nodes.literal):
        if len(literal.astext()) > LONGEST:
            literal["classes"].append("long")


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", wrap_wide_text)
    app.connect("build-finished", check_hosts)
