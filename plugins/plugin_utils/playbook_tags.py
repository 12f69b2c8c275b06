"""Find unknown tags in --tags and --skip-tags, which Ansible silently ignores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_COLLECTION = Path(__file__).resolve().parents[2]
_PREFIX = "busbar.cluster."
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
    folder = _COLLECTION / "playbooks"
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
                is_own = imported.startswith(_PREFIX)
                name = f"{imported.removeprefix(_PREFIX)}.yml" if is_own else imported
                self.playbook((_COLLECTION / "playbooks" if is_own else path.parent) / name)
            for role in play.get("roles") or []:
                self._add(role.get("tags") if isinstance(role, dict) else None)
                self._role(str(role.get("role") or role.get("name")) if isinstance(role, dict) else str(role))
            for part in ("pre_tasks", "tasks", "post_tasks", "handlers"):
                self._tasks(play.get(part) or [], path.parent)

    def _role(self, name: str, tasks: str = "main") -> None:
        folder = _COLLECTION / "roles" / name.removeprefix(_PREFIX)
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
