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
  - C(--check), the playbooks C(preflight.yml), C(describe.yml) and C(health.yml), C(user.yml --tags elevate) and
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

import yaml
from ansible import context
from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString
from ansible.plugins.callback import CallbackBase

from ..plugin_utils.inventory_yaml import variable_files, yaml_problems
from ..plugin_utils.run_lock import OWN_PLAYBOOKS, LockedError, RunLock, lock_paths, needs_no_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ansible.parsing.dataloader import DataLoader

BAD_INPUT = 2
COLLECTION = "busbar.cluster."
_VAULT = "$ANSIBLE_VAULT"
_REMEDY = "use --ask-vault-pass (-J) or --vault-password-file FILE, or set vault_password_file in ansible.cfg"
_ROOT = Path(__file__).resolve().parents[2]
_SPECIAL = frozenset({"all", "always", "never", "tagged", "untagged"})
_ROLES = ("import_role", "include_role")
_TASKS = ("import_tasks", "include_tasks")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml if available
    """A YAML loader that reads values with Ansible's tags as None."""


_Loader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)


def tag_problems(playbooks: Sequence[Path], wanted: Iterable[str], skipped: Iterable[str]) -> list[str]:
    """Return a message for each tag that does not exist; playbooks of the site are not checked.

    Args:
        playbooks: the playbooks of a run.
        wanted: the values of `--tags`, tags of these playbooks.
        skipped: the values of `--skip-tags`, tags of any playbook of the collection.
    """
    wanted, skipped = _words(wanted), _words(skipped)
    folder = _ROOT / "playbooks"
    paths = [path.resolve() for path in playbooks]
    if not (wanted or skipped) or any(path.parent != folder for path in paths):
        return []
    here, anywhere = _tags(*paths), _tags(*folder.glob("*.yml")) if skipped else set()
    missing = [("--tags", tag) for tag in wanted if tag not in here]
    missing += [("--skip-tags", tag) for tag in skipped if tag not in anywhere]
    names, listed = ", ".join(path.name for path in paths), ", ".join(sorted(here)) or "none"
    return [f"{option} {tag}: {names} has no such tag; its tags are {listed}" for option, tag in missing]


def _words(options: Iterable[str]) -> list[str]:
    words = [tag.strip() for option in options for tag in option.split(",")]
    return [tag for tag in words if tag and tag not in _SPECIAL]


def _tags(*playbooks: Path) -> set[str]:
    tags = _Tags()
    for path in playbooks:
        tags.playbook(path)
    return tags.found


class _Tags:
    """The tags of playbooks, including those of all playbooks, roles and task files that they may include."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._seen: set[Path] = set()

    def playbook(self, path: Path) -> None:
        """Add the tags of a playbook."""
        for play in self._read(path):
            self._add(play.get("tags"))
            imported = _named(play, ("import_playbook",))
            if imported:
                is_own = imported.startswith(COLLECTION)
                name = f"{imported.removeprefix(COLLECTION)}.yml" if is_own else imported
                self.playbook((_ROOT / "playbooks" if is_own else path.parent) / name)
            for role in play.get("roles") or []:
                self._add(role.get("tags") if isinstance(role, dict) else None)
                self._role(str(role.get("role") or role.get("name")) if isinstance(role, dict) else str(role))
            for part in ("pre_tasks", "tasks", "post_tasks", "handlers"):
                self._tasks(play.get(part) or [], path.parent)

    def _role(self, name: str, tasks: str = "main") -> None:
        folder = _ROOT / "roles" / name.removeprefix(COLLECTION)
        path = folder / f"tasks/{tasks.removesuffix('.yml')}.yml"
        self._tasks(self._read(path), path.parent)
        # Dependencies of the role.
        for meta in self._read(folder / "meta/main.yml"):
            for each in meta.get("dependencies") or []:
                self._role(str(each.get("role")) if isinstance(each, dict) else str(each))

    def _tasks(self, tasks: Iterable[dict[str, Any]], folder: Path) -> None:
        for task in tasks:
            self._add(task.get("tags"))
            for value in task.values():
                if isinstance(value, dict) and isinstance(value.get("apply"), dict):
                    self._add(value["apply"].get("tags"))
            role, included = _named(task, _ROLES), _named(task, _TASKS)
            if role:
                self._role(role, _named(task, _ROLES, "tasks_from") or "main")
            if included:
                # If the file name is a template, use all files in the folder.
                for path in sorted(folder.glob("*.yml")) if "{{" in included else [folder / included]:
                    self._tasks(self._read(path), folder)
            for part in ("block", "rescue", "always"):
                self._tasks(task.get(part) or [], folder)

    def _add(self, tags: object) -> None:
        words = tags if isinstance(tags, list) else str(tags or "").split(",")
        self.found.update(word for each in words if (word := str(each).strip()) and "{{" not in word)

    def _read(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the entries of a file when it is first read; a role may include itself."""
        if path in self._seen or not path.is_file():
            return
        self._seen.add(path)
        found = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
        yield from (each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict))


def _named(task: dict[str, Any], actions: tuple[str, ...], key: str = "") -> str:
    """Return the file or role name (or the argument `key`) of a task with one of the given actions, or ''."""
    for action in actions:
        value = task.get(f"ansible.builtin.{action}") or task.get(action)
        if value:
            given = value if isinstance(value, dict) else {"name": value}
            return str(given.get(key or "name") or (not key and given.get("file")) or "")
    return ""


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
