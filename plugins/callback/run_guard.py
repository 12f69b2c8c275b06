# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Callback that checks and locks the inventory before a run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_guard
type: aggregate
short_description: Refuse an invalid inventory or one that another run uses
description:
  - When a playbook starts, checks the inventory for invalid YAML, duplicate keys and hosts, files that cannot be
    decrypted, and unknown tags. Prints each problem with file and line, and stops the run with exit code 2 before it
    contacts any host.
  - Then locks C(inventory.lock) in the site folder until the run ends. A second run on the same inventory is refused
    with exit code 2 and a message that names the process holding the lock.
  - C(--check), the playbooks C(preflight.yml) and C(describe.yml), C(user.yml --tags elevate) and
    C(backup.yml --tags backup_verify) need no lock.
  - The kernel releases the lock when the process ends, even if it is killed. If a run on another host did not release
    its lock, the message contains the command that removes it.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
requirements:
  - enable in configuration (C(callbacks_enabled = busbar.cluster.run_guard))
"""

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString
from ansible.plugins.callback import CallbackBase

from ..plugin_utils.inventory_yaml import variable_files, yaml_problems
from ..plugin_utils.playbook_tags import tag_problems
from ..plugin_utils.run_lock import OWN_PLAYBOOKS, LockedError, RunLock, lock_paths, needs_no_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible.parsing.dataloader import DataLoader

BAD_INPUT = 2
COLLECTION = "busbar.cluster."
_VAULT = "$ANSIBLE_VAULT"
_REMEDY = "use --ask-vault-pass (-J) or --vault-password-file FILE, or set vault_password_file in ansible.cfg"


def vault_problems(sources: Sequence[str], playbooks: Sequence[Path], loader: DataLoader) -> list[str]:
    """Return a message for each file with encrypted content that cannot be decrypted.

    Args:
        sources: the inventory, as given with `-i`.
        playbooks: playbooks, whose group_vars and host_vars are also checked.
        loader: Ansible's data loader, with the vault passwords of this run.
    """
    problems = []
    for path in dict.fromkeys(path for playbook in playbooks for path in variable_files(sources, playbook)):
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        if not ("!vault" in text or text.startswith(_VAULT)):
            continue
        try:
            found = next(_failures(loader.load_from_file(str(path), cache="none")), None)
        except AnsibleError as exc:
            found = "", exc
        if found:
            key, failure = found
            lines = (number for number, line in enumerate(text.splitlines(), 1) if "!vault" in line and key in line)
            where = f"{path}:{next(lines, 1)}: {key} is encrypted" if key else f"{path}: this file is encrypted"
            fault = (
                "and no vault password is set"
                if "no vault secrets found" in str(failure)
                else f"({_first_line(failure)})"
            )
            problems.append(f"{where} {fault}: {_REMEDY}")
    return problems


def _failures(data: object, key: str = "") -> Iterator[tuple[str, AnsibleError]]:
    """Yield the key and error of each value that cannot be decrypted; values may have different passwords."""
    if isinstance(data, EncryptedString):
        try:
            str(data)
        except AnsibleError as exc:
            yield key, exc
    for name, value in data.items() if isinstance(data, dict) else ():
        yield from _failures(value, str(name))
    for value in data if isinstance(data, list) else ():
        yield from _failures(value, key)


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n", 1)[0]


def _path(word: str) -> Path:
    """Return the path of a playbook from the command line, which may be a collection playbook's name."""
    return OWN_PLAYBOOKS / f"{word.removeprefix(COLLECTION)}.yml" if word.startswith(COLLECTION) else Path(word)


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible has no types
    """Checks the inventory and locks it when the first playbook of a run starts."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "busbar.cluster.run_guard"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Start without a lock."""
        super().__init__()
        self._locked = False

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ANN401 - Ansible has no types
        """Refuse invalid files and tags, then lock the inventory."""
        # Plays of ad-hoc commands have no file.
        if self._locked or not any(play.get_path() for play in playbook.get_plays()):
            return
        sources, paths = list(context.CLIARGS.get("inventory") or []), [*map(_path, context.CLIARGS["args"])]
        problems = [*dict.fromkeys(problem for path in paths for problem in yaml_problems(sources, path))]
        # Check the vault only if there are no other problems: it would report invalid YAML again.
        problems = problems or vault_problems(sources, paths, playbook.get_loader())
        tags, skipped = (context.CLIARGS.get(key) or [] for key in ("tags", "skip_tags"))
        self._refuse([*problems, *tag_problems(paths, tags, skipped)])
        if not (context.CLIARGS.get("check") or all(needs_no_lock(path, tags) for path in paths)):
            names = " ".join(path.name for path in paths)
            self._lock(sources, os.environ.get("BUSBAR_COMMAND") or f"ansible-playbook {names}")

    def _lock(self, sources: list[str], command: str) -> None:
        """Lock the inventory until this process ends."""
        self._locked = True
        for place in lock_paths(sources):
            lock = RunLock(place)
            try:
                left = lock.take(command)
            except LockedError as exc:
                self._refuse([str(exc)])
            except OSError as exc:
                self._display.warning(f"cannot lock this run against concurrent runs: {place}: {exc.strerror or exc}")
            else:
                atexit.register(lock.release)
                if left is not None:
                    self._display.warning(f"took over the stale lock of a killed run: {left}")

    def _refuse(self, problems: list[str]) -> None:
        """Exit if there are problems; exceptions do not stop a run, because Ansible turns them into warnings."""
        for problem in problems:
            self._display.error(problem, wrap_text=False)
        if problems:
            raise SystemExit(BAD_INPUT)
