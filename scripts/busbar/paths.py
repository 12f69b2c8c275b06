"""Where the playbooks, roles and plugins are: in a checkout or in an installed collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SITE_FILES", "ansible_config", "checkout", "collection", "collections_root", "default_inventory"]

SITE_FILES = Path(__file__).resolve().with_name("site_files")
"""What `busbar init` writes into the folder of a site."""


def checkout() -> Path | None:
    """The top of the checkout that this command runs from, or None when it is installed."""
    top = Path(__file__).resolve().parents[2]
    return top if (top / "pyproject.toml").is_file() and (top / "playbooks").is_dir() else None


def collection() -> Path:
    """The folder with playbooks/, roles/ and plugins/: the checkout, or the installed collection."""
    top = checkout()
    if top is not None:
        return top
    return Path(__file__).resolve().parents[1] / "ansible_collections" / "busbar" / "cluster"


def default_inventory() -> Path:
    """The inventory where none is named: `inventory` in the present folder, else that of the checkout."""
    here, top = Path.cwd() / "inventory", checkout()
    return top / "inventory" if top is not None and not here.exists() else here


def collections_root() -> Path:
    """The folder whose ansible_collections/ has the collection that this command belongs to."""
    top = checkout()
    return top / ".collections" if top is not None else Path(__file__).resolve().parents[1]


def ansible_config(sites: Iterable[Path]) -> Path:
    """The ansible.cfg of a site's folder, else of the checkout, else the one that every new site gets."""
    top = checkout()
    folders = [*sites, *([top] if top is not None else [])]
    return next((path for folder in folders if (path := folder / "ansible.cfg").is_file()), SITE_FILES / "ansible.cfg")
