"""`busbar init`: creates the folder of a site, outside of the checkout."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.paths import site_files

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Creates the folder of a site: inventory/hosts.yml and inventory/group_vars/all with examples to replace, ansible.cfg,
requirements.yml, .gitignore and README.md. Put it under version control; secrets, reports and logs stay out of it.
Existing files are not overwritten.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("init", help="create the folder of a site", description=DESCRIPTION)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder, created if missing")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    """Write the files and return 0.

    Raises:
        UsageError: a file already exists, or the folder cannot be written.
    """
    folder: Path = args.folder
    # Slurm accepts these characters in the name of a cluster.
    files = site_files(re.sub(r"[^a-z0-9-]+", "-", folder.resolve().name.lower()).strip("-") or "busbar")
    present = [place for place in files if (folder / place).exists() or (folder / place).is_symlink()]
    if present:
        message = f"{folder} already has {', '.join(present)}, so nothing was written: use another folder"
        raise UsageError(message)
    try:
        for place, text in files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            # Files created after the check are not overwritten either.
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as exc:
        message = f"{exc.filename or folder}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    print("\n".join(f"{folder / place}" for place in files))
    print(f"next: edit them, then: cd {shlex.quote(str(folder))} && busbar provision preflight")
    return 0
