"""Task files that other playbooks run with `tasks_from` register the results that they use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[3]
CALLERS = [*TOP.glob("playbooks/**/*.yml"), *TOP.glob("roles/*/tasks/**/*.yml")]
# Results that the caller sets, or that the tasks read only if defined.
GUARDED = re.compile(r"\b(__\w+)(?=[^,|)}]{0,40}(?:\| ?default\(| is (?:not )?(?:un)?defined))")


def tasks(value: object) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a file, including those in blocks and plays."""
    for item in value if isinstance(value, list) else []:
        if isinstance(item, dict):
            yield item
            for part in item.values():
                yield from tasks(part)


def entries() -> set[tuple[str, str]]:
    """Return role and file of each `tasks_from`."""
    found = set()
    for path in CALLERS:
        for task in tasks(yaml.safe_load(path.read_text())):
            for key in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
                called = task.get(key)
                if isinstance(called, dict) and "tasks_from" in called and "{" not in called["tasks_from"]:
                    found.add((called["name"].rsplit(".", 1)[-1], called["tasks_from"].removesuffix(".yml")))
    return found


def reached(role: Path, name: str, seen: set[str]) -> set[str]:
    """Return the task files that a file imports or includes, and the file itself."""
    path = role / "tasks" / f"{name}.yml"
    if name in seen or not path.is_file():
        return seen
    seen.add(name)
    for task in tasks(yaml.safe_load(path.read_text())):
        for key in ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks"):
            called = task.get(key)
            file = called.get("file") if isinstance(called, dict) else called
            if isinstance(file, str) and "{" not in file:
                reached(role, file.removesuffix(".yml"), seen)
    return seen


def results(path: Path) -> set[str]:
    """Return the variables that the tasks of a file register or set."""
    found = set()
    for task in tasks(yaml.safe_load(path.read_text())):
        found |= {task["register"]} if "register" in task else set()
        found |= set(task.get("ansible.builtin.set_fact") or {})
    return found


@pytest.mark.parametrize(("role", "name"), sorted(entries()))
def test_tasks_use_results_of_their_own_files_only(role: str, name: str) -> None:
    place = TOP / "roles" / role
    files = {path.stem: path for path in (place / "tasks").glob("*.yml")}
    mine = reached(place, name, set())
    own = set().union(*(results(files[file]) for file in mine))
    others = set().union(*(results(path) for file, path in files.items() if file not in mine)) - own
    text = "".join(files[file].read_text() for file in mine)
    used = set(re.findall(r"\b__\w+", re.sub(r"(?m)#.*$", "", text))) - set(GUARDED.findall(text))
    assert used & others == set()
