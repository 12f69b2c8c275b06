"""Maps files to pages of the documentation site and rewrites their links."""

from __future__ import annotations

import os.path
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import yaml

from devel.alert_page import alert_page
from devel.hardware_page import hardware_page
from devel.markdown import Link, relinked

if TYPE_CHECKING:
    from pathlib import Path

# The menu: the sources of the pages by heading.
MENU = {
    "Start": ["docs/first-site.md", "docs/adopt.md", "docs/commands.md"],
    "Set up": [
        "docs/inventory.md",
        "docs/gpus.md",
        "docs/storage.md",
        "docs/jobs.md",
        "docs/identity.md",
        "docs/security.md",
    ],
    "Run": [
        "docs/validation.md",
        "docs/monitoring.md",
        "roles/prometheus/files/rules",
        "docs/health.md",
        "docs/backup.md",
        "docs/upgrade.md",
        "docs/images.md",
        "docs/airgapped.md",
        "docs/scale.md",
        "docs/troubleshooting.md",
    ],
    "Tested configurations": ["docs/support.md", "tests/faults.md", "tests/sandbox/clustermax.md", "CHANGELOG.md"],
    "Reference": [
        "roles",
        "plugins/plugin_utils/engine/catalogue/hardware",
        "plugins",
    ],
    "Develop": ["CONTRIBUTING.md", "docs/decisions.md"],
}
NAMES = {
    "README.md": "index",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "tests/faults.md": "faults",
    "tests/sandbox/clustermax.md": "clustermax",
    "roles/prometheus/files/rules": "alerts",
    "plugins/plugin_utils/engine/catalogue/hardware": "hardware",
    "roles": "roles/index",
    "plugins": "plugins/index",
}
# The badges link to pages of the forge, which do not exist on the site.
BADGES = re.compile(r"^\[!\[[^]]*\]\(\.\./\.\./actions/.*\n+", re.MULTILINE)
# antsibull-docs writes a page for each plugin in the same folder.
PLUGINS = """\
# Plugins

Modules, filters, lookups and callbacks of the collection. The roles use them, and your playbooks can as well.

```{toctree}
:glob:

*_module
*_filter
*_lookup
*_callback
```
"""


class Page(NamedTuple):
    """A page: its name on the site, its path in the checkout as link target, and its Markdown."""

    name: str
    origin: str
    text: str

    @property
    def folder(self) -> str:
        """The base folder of its links; docs/ for a generated page."""
        return str(PurePosixPath(self.origin).parent) if self.origin.endswith(".md") else "docs"


def page_name(origin: str) -> str:
    """Return the page name of a path in the checkout."""
    if origin in NAMES:
        return NAMES[origin]
    if origin.startswith("roles/"):
        return origin.removesuffix("/README.md")
    return origin.removeprefix("docs/").removesuffix(".md")


def roles_page(top: Path) -> str:
    """Return the list of roles with a one-line description of each."""
    lines = ["# Roles", "", "Every option of a role, with type, default and meaning, is on its page.", ""]
    lines += ["| role | does |", "| --- | --- |"]
    for path in sorted(top.glob("roles/*/meta/main.yml")):
        description = yaml.safe_load(path.read_text(encoding="utf-8"))["galaxy_info"]["description"]
        name = path.parents[1].name
        lines.append(
            f"| [{name}](../roles/{name}/README.md) | {' '.join(description.split()).replace('|', chr(92) + '|')} |"
        )
    return "\n".join([*lines, ""])


def generated(origin: str, top: Path) -> str:
    """Return the text of a page that is generated from a folder."""
    if origin == "roles":
        return roles_page(top)
    if origin == "roles/prometheus/files/rules":
        return alert_page(top / origin)
    if origin == "plugins/plugin_utils/engine/catalogue/hardware":
        return hardware_page(top / origin)
    return PLUGINS


def site_pages(top: Path) -> dict[str, Page]:
    """Return all pages of the site by their path in the checkout.

    Raises:
        ValueError: a file in docs/ is not in the menu.
    """
    listed = [origin for origins in MENU.values() for origin in origins]
    unlisted = {f"docs/{path.name}" for path in top.glob("docs/*.md")} - {*listed}
    if unlisted:
        message = f"{', '.join(sorted(unlisted))}: not in MENU of scripts/devel/docs_pages.py"
        raise ValueError(message)
    roles = [f"roles/{path.parent.name}/README.md" for path in sorted(top.glob("roles/*/README.md"))]
    pages = {}
    for origin in ["README.md", *listed, *roles]:
        text = (top / origin).read_text(encoding="utf-8") if origin.endswith(".md") else generated(origin, top)
        pages[origin] = Page(page_name(origin), origin, BADGES.sub("", text))
    return pages


def destination(page: Page, link: Link) -> tuple[str, str]:
    """Return the path in the checkout and the anchor of a link; a bare anchor belongs to the same page."""
    path, _, anchor = link.target.partition("#")
    if not path:
        return page.origin, anchor
    return os.path.normpath(f"{page.folder}/{path}"), anchor


def on_site(page: Page, pages: dict[str, Page], top: Path, images: set[str]) -> str:
    """Return the text of a page with links of the site; Sphinx checks the anchors.

    A link to a file that is not a page becomes its text and path.

    Args:
        page: the page to rewrite.
        pages: all pages by origin.
        top: the checkout.
        images: receives the paths of the page's images.

    Raises:
        ValueError: names the links to missing files.
    """
    problems = []

    def change(link: Link) -> str:
        if "://" in link.target or link.target.startswith(("mailto:", "#")):
            return f"{'!' if link.image else ''}[{link.text}]({link.target})"
        path, anchor = destination(page, link)
        if path not in pages and (path.startswith("..") or not (top / path).exists()):
            problems.append(f"{page.origin}: {link.target}: {path} does not exist")
        elif link.image:
            images.add(path)
            return f"![{link.text}]({relative(page, path)})"
        if path in pages:
            return f"[{link.text}]({relative(page, pages[path].name + '.md')}{'#' + anchor if anchor else ''})"
        return link.text if path in link.text else f"{link.text} (`{path}`)"

    text = relinked(page.text, change)
    if problems:
        raise ValueError("\n".join(problems))
    return text


def relative(page: Page, path: str) -> str:
    """Return a path on the site as a link from a page."""
    return os.path.relpath(path, PurePosixPath(page.name).parent)
