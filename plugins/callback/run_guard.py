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
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

from ..plugin_utils.inventory_yaml import yaml_problems
from ..plugin_utils.playbook_tags import tag_problems
from ..plugin_utils.run_lock import OWN_PLAYBOOKS, LockedError, RunLock, lock_paths, needs_no_lock
from ..plugin_utils.vaulted_files import vault_problems

BAD_INPUT = 2
COLLECTION = "busbar.cluster."


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
