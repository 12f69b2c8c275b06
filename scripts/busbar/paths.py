"""Where the playbooks, roles and plugins are: in a checkout or in an installed collection."""

from __future__ import annotations

from pathlib import Path

__all__ = ["checkout", "collection", "default_inventory"]


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
