"""Imports secrets of a running cluster into the folder of its site, if the admin asks for it."""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING

from busbar.errors import UsageError

from .cluster_source import run_as_root
from .draft import CARRIED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .draft import Draft

MUNGE_KEY, PASSWORD = "munge.key.adopted", "slurm_database.password.adopted"
# Prints a file in base64, so that a binary key survives.
_KEY = "base64 /etc/munge/munge.key"
_PASSWORD = "sed -nE 's/^[[:space:]]*StoragePass[[:space:]]*=[[:space:]]*//Ip' '{path}' | tail -n 1 | base64"  # noqa: S105


def read_secrets(
    draft: Draft, places: Mapping[str, str], slurmdbd_conf: str, ssh_arguments: str = ""
) -> dict[str, bytes]:
    """Return the secrets by the name of their file, and let the draft use them.

    Args:
        draft: the draft of the cluster.
        places: SSH address of each host by its name.
        slurmdbd_conf: path of slurmdbd.conf on the database host; empty if unknown.
        ssh_arguments: further arguments of ssh.

    Raises:
        UsageError: a secret cannot be read. The message has no part of a secret.
    """
    wanted = {MUNGE_KEY: (draft.groups["slurm_controller"][0], _KEY, "/etc/munge/munge.key")}
    if databases := draft.groups["slurm_database"]:
        wanted[PASSWORD] = (databases[0], _PASSWORD.format(path=slurmdbd_conf), slurmdbd_conf or "slurmdbd.conf")
    found, problems = {}, []
    for name, (host, command, path) in wanted.items():
        text, error = run_as_root(places.get(host, host), command, ssh_arguments)
        try:
            found[name] = base64.b64decode(text, validate=False)
        except binascii.Error:
            found[name] = b""
        if not found[name].strip():
            problems.append(f"{host}: {path}: {error or 'contains no secret'}")
    if problems:
        listed = "\n  ".join(problems)
        message = f"--secrets: cannot read these secrets; correct this, or leave --secrets out:\n  {listed}"
        raise UsageError(message)
    draft.note("secret munge key", CARRIED, f"secrets/{MUNGE_KEY}: new nodes get it; that of the hosts stays")
    if PASSWORD in found:
        found[PASSWORD] = found[PASSWORD].strip().strip(b'"')
        value = f"{{{{ lookup('ansible.builtin.file', cluster_secrets_dir ~ '/{PASSWORD}') }}}}"
        draft.carry("secret StoragePass", {"slurm_database_password": value})
        draft.notes = [note for note in draft.notes if note.name.lower() != "slurmdbd.conf storagepass"]
    return found


def write_secrets(out: Path, secrets: Mapping[str, bytes]) -> None:
    """Write secrets into the folder of a site, readable by their owner only."""
    folder = out / "secrets"
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in secrets.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
