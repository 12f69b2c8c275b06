"""Find the site folder, which contains secrets, reports, logs and the lock file, on the provisioning host."""

from __future__ import annotations

from pathlib import Path

_NAME = "inventory"


def inventory_folder(source: str | Path) -> Path:
    """Return the folder of an inventory file, or the inventory folder itself, with links resolved."""
    path = Path(source)
    return path.resolve() if path.is_dir() else path.absolute().parent.resolve()


def site_folder(source: str | Path) -> Path:
    """Return the site folder, the default of the variable `cluster_dir`.

    It is the folder of the inventory; if that is named `inventory`, its parent.
    """
    folder = inventory_folder(source)
    return folder.parent if folder.name == _NAME else folder


def is_read_whole(source: str | Path) -> bool:
    """Return whether Ansible would read all files of the site folder as inventory."""
    return Path(source).is_dir() and site_folder(source) == inventory_folder(source)
