"""Which folder of the provisioning host is a site's own: there are its secrets, reports, logs and lock."""

from __future__ import annotations

from pathlib import Path

__all__ = ["inventory_folder", "is_read_whole", "site_folder"]

_NAME = "inventory"


def inventory_folder(source: str | Path) -> Path:
    """Return the folder that holds an inventory: a folder itself, or that of a file, without links."""
    path = Path(source)
    return path.resolve() if path.is_dir() else path.absolute().parent.resolve()


def site_folder(source: str | Path) -> Path:
    """Return the site's own folder, which the variable `cluster_dir` names by default, too.

    It is the one that holds the inventory; of an inventory in a folder called `inventory` the folder that this is in.
    """
    folder = inventory_folder(source)
    return folder.parent if folder.name == _NAME else folder


def is_read_whole(source: str | Path) -> bool:
    """Whether Ansible would take what is kept in the site's folder for inventory: of a folder it reads all files."""
    return Path(source).is_dir() and site_folder(source) == inventory_folder(source)
