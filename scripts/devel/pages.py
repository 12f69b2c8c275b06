"""Which file becomes which page of the documentation's site, and where its links lead there."""

from __future__ import annotations

import os.path
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import yaml

from devel.alert_page import alert_page
from devel.hardware_page import hardware_page
from devel.markdown import Link, anchors, relinked
from devel.plugin_pages import plugin_page

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Page", "link_problems", "site_pages"]

# The menu: each heading with its pages, by what their text is made from.
MENU = {
    "Start": ["docs/first-site.md", "docs/concepts.md", "docs/sandbox.md", "docs/commands.md"],
    "Set up": [
        "docs/inventory.md",
        "docs/gpus.md",
        "docs/storage.md",
        "docs/jobs.md",
        "docs/identity.md",
        "docs/portal.md",
        "docs/data-science.md",
        "docs/security.md",
    ],
    "Run": [
        "docs/validation.md",
        "docs/monitoring.md",
        "roles/prometheus/files/rules",
        "docs/health.md",
        "docs/backup.md",
        "docs/upgrade.md",
        "docs/failover.md",
        "docs/scale.md",
        "docs/images.md",
        "docs/large.md",
        "docs/troubleshooting.md",
    ],
    "What is proven": ["docs/support.md", "docs/faults.md", "tests/sandbox/clustermax.md", "CHANGELOG.md"],
    "Reference": [
        "roles",
        "plugins/module_utils/catalogue/hardware",
        "plugins/modules",
        "plugins/filter",
        "plugins/lookup",
        "plugins/action",
        "plugins/callback",
    ],
    "Develop": ["CONTRIBUTING.md", "docs/testing.md", "docs/decisions.md"],
}
NAMES = {
    "README.md": "index",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "tests/sandbox/clustermax.md": "clustermax",
    "roles/prometheus/files/rules": "alerts",
    "plugins/module_utils/catalogue/hardware": "hardware",
    "roles": "roles/index",
}


class Page(NamedTuple):
    """A page: its name on the site, the path in the checkout that links to it name, and its Markdown."""

    name: str
    origin: str
    text: str

    @property
    def folder(self) -> str:
        """The folder from which its links lead; those of a generated page, from docs/."""
        return str(PurePosixPath(self.origin).parent) if self.origin.endswith(".md") else "docs"


def page_name(origin: str) -> str:
    """The name of the page that a path in the checkout becomes."""
    if origin in NAMES:
        return NAMES[origin]
    if origin.startswith("roles/"):
        return origin.removesuffix("/README.md")
    return origin.removeprefix("docs/").removesuffix(".md")


def roles_page(top: Path) -> str:
    """The list of the roles, with what each is in one line."""
    lines = ["# Roles", "", "Every option of a role, with type, default and meaning, is on its page.", ""]
    lines += ["| role | does |", "| --- | --- |"]
    for path in sorted(top.glob("roles/*/meta/main.yml")):
        said = yaml.safe_load(path.read_text(encoding="utf-8"))["galaxy_info"]["description"]
        name = path.parents[1].name
        lines.append(f"| [{name}](../roles/{name}/README.md) | {' '.join(said.split()).replace('|', chr(92) + '|')} |")
    return "\n".join([*lines, ""])


def generated(origin: str, top: Path) -> str:
    """The text of a page that is generated from a folder."""
    if origin == "roles":
        return roles_page(top)
    if origin == "roles/prometheus/files/rules":
        return alert_page(top / origin)
    if origin == "plugins/module_utils/catalogue/hardware":
        return hardware_page(top / origin)
    return plugin_page(top / origin)


def site_pages(top: Path) -> dict[str, Page]:
    """All pages of the site, by the paths in the checkout that links to them name.

    Raises:
        ValueError: a file of docs/ is in no menu.
    """
    listed = [origin for origins in MENU.values() for origin in origins]
    unlisted = {f"docs/{path.name}" for path in top.glob("docs/*.md")} - {*listed}
    if unlisted:
        message = f"{', '.join(sorted(unlisted))}: not in MENU of scripts/devel/pages.py"
        raise ValueError(message)
    roles = [f"roles/{path.parent.name}/README.md" for path in sorted(top.glob("roles/*/README.md"))]
    pages = {}
    for origin in ["README.md", *listed, *roles]:
        text = (top / origin).read_text(encoding="utf-8") if origin.endswith(".md") else generated(origin, top)
        pages[origin] = Page(page_name(origin), origin, text)
    return pages


def destination(page: Page, link: Link) -> tuple[str, str]:
    """The path in the checkout and the anchor that a link leads to; its own page for an anchor alone."""
    path, _, anchor = link.target.partition("#")
    if not path:
        return page.origin, anchor
    return os.path.normpath(f"{page.folder}/{path}"), anchor


def link_problems(pages: dict[str, Page], top: Path) -> list[str]:
    """What is wrong with the links between pages and to files of the checkout, one sentence each."""
    known = {origin: anchors(page.text) for origin, page in pages.items()}
    problems = []
    for page in pages.values():

        def look(link: Link, page: Page = page) -> str:
            if "://" in link.target or link.target.startswith("mailto:"):
                return ""
            path, anchor = destination(page, link)
            if path not in pages and (path.startswith("..") or not (top / path).exists()):
                problems.append(f"{page.origin}: {link.target}: there is no {path}")
            elif anchor and anchor not in known.get(path, set()):
                problems.append(f"{page.origin}: {link.target}: {path} has no heading with the anchor {anchor}")
            return ""

        relinked(page.text, look)
    return problems


def on_site(page: Page, pages: dict[str, Page], images: set[str]) -> str:
    """The text of a page with its links as they are on the site.

    A link to a file that is no page becomes its text and path, since the site has no such file.

    Args:
        page: whose text it is.
        pages: all pages, by origin.
        images: gets the paths of the images that the page shows.
    """

    def change(link: Link) -> str:
        if "://" in link.target or link.target.startswith(("mailto:", "#")):
            return f"{'!' if link.image else ''}[{link.text}]({link.target})"
        path, anchor = destination(page, link)
        if link.image:
            images.add(path)
            return f"![{link.text}]({relative(page, path)})"
        if path in pages:
            return f"[{link.text}]({relative(page, pages[path].name + '.md')}{'#' + anchor if anchor else ''})"
        return link.text if path in link.text else f"{link.text} (`{path}`)"

    return relinked(page.text, change)


def relative(page: Page, path: str) -> str:
    """A path on the site as a link from a page."""
    return os.path.relpath(path, PurePosixPath(page.name).parent)
