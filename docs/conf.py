"""How `make docs` builds the site: Sphinx reads the Markdown of this folder; docs/dev/adr/0013 says why."""

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LISTED = re.compile(r"^- \[[^]]*\]\(([\w/-]+)\.md\)", re.MULTILINE)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)

project = "AdderClaw"
author = "the maintainers of AdderClaw"
project_copyright = "the maintainers of AdderClaw, Apache-2.0"
release = version = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
# Not smartquotes: `"` in a sentence is often one that somebody types.
smartquotes = False

html_theme = "furo"
html_title = "AdderClaw"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["reports"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"
highlight_language = "text"


def navigation(_app: object, page: str, content: list[str]) -> None:
    """What an index.md lists is the navigation: one group for each of its sections."""
    if page.rpartition("/")[2] != "index":
        return
    for part in re.split(r"^(?=## )", content[0], flags=re.MULTILINE):
        title = SECTION.search(part)
        if pages := LISTED.findall(part):
            caption = f":caption: {title[1]}\n" if title else ""
            content[0] += "\n```{toctree}\n:hidden:\n:titlesonly:\n" + caption + "\n" + "\n".join(pages) + "\n```\n"


def setup(app: Any) -> None:
    app.connect("source-read", navigation)
