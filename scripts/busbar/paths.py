"""Locations of the playbooks, roles and plugins, in a checkout or an installed collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SITE_FILES = Path(__file__).resolve().with_name("site_files")
"""Templates of the files that `busbar init` creates in the folder of a site."""
# Packaging would drop a file whose name begins with a dot.
_RENAMED = {"gitignore": ".gitignore"}
_NAME_PLACEHOLDER = "CLUSTER"


def checkout() -> Path | None:
    """Return the root of the checkout that this command runs from, or None if it is installed."""
    top = Path(__file__).resolve().parents[2]
    return top if (top / "pyproject.toml").is_file() and (top / "playbooks").is_dir() else None


def collection() -> Path:
    """Return the folder with playbooks/, roles/ and plugins/: the checkout, or the installed collection."""
    top = checkout()
    if top is not None:
        return top
    return Path(__file__).resolve().parents[1] / "ansible_collections" / "busbar" / "cluster"


def default_inventory() -> Path:
    """Return the default inventory: `inventory` in the current folder, otherwise in the checkout."""
    here, top = Path.cwd() / "inventory", checkout()
    return top / "inventory" if top is not None and not here.exists() else here


def collections_root() -> Path:
    """Return the folder whose ansible_collections/ contains this command's collection."""
    top = checkout()
    return top / ".collections" if top is not None else Path(__file__).resolve().parents[1]


def ansible_config(sites: Iterable[Path]) -> Path:
    """Return the ansible.cfg of a site, otherwise of the checkout, otherwise the template for new sites."""
    top = checkout()
    folders = [*sites, *([top] if top is not None else [])]
    return next((path for folder in folders if (path := folder / "ansible.cfg").is_file()), SITE_FILES / "ansible.cfg")


def site_files(name: str) -> dict[str, str]:
    """Return the files of a site by their paths in its folder.

    Args:
        name: name of the cluster.
    """
    paths = sorted(path for path in SITE_FILES.rglob("*") if path.is_file())
    relative = [str(path.relative_to(SITE_FILES)) for path in paths]
    texts = [path.read_text(encoding="utf-8").replace(_NAME_PLACEHOLDER, name) for path in paths]
    return {_RENAMED.get(place, place): text for place, text in zip(relative, texts)}
