"""What the tasks of the roles list for the action `templates` is in the roles, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.action.templates import checked, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLES = Path(__file__).resolve().parents[3] / "roles"


def tasks(listed: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All tasks of a file, those in blocks too."""
    for task in listed:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part) or [])


def entries() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Role, name of the task and entry, for each file that is listed."""
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        listed = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        for task in tasks(listed or []):
            for entry in task.get("busbar.cluster.templates", {}).get("files", []):
                yield path.parts[-3], task["name"], entry


ENTRIES = list(entries())


@pytest.mark.parametrize(
    ("role", "task", "entry"), [pytest.param(*one, id=f"{one[0]}-{i}") for i, one in enumerate(ENTRIES)]
)
def test_each_file_has_its_text(role: str, task: str, entry: dict[str, Any]) -> None:
    plain = {key: value for key, value in entry.items() if key not in {"state", "when"}}
    if "{{" in entry["dest"]:
        assert {"src", "content", "program"} & set(entry) or entry.get("state") == "absent", (
            f"{role}: {task}: {entry['dest']}: set src, as the path is not known here"
        )
        plain["dest"] = "/elsewhere"
    checked([plain])
    if "program" in entry:
        assert all((ROLES / role / "files" / name).is_file() for name in entry["program"])
    elif "content" not in entry and entry.get("state") != "absent":
        places = [ROLES / role / folder / name for folder, name in sources(plain)]
        # A source that ends with a slash is a folder.
        there = Path.is_dir if entry.get("src", "").endswith("/") else Path.is_file
        assert any(there(place) for place in places), entry["dest"]


@pytest.mark.parametrize("role", sorted({path.name for path in ROLES.iterdir() if (path / "templates").is_dir()}))
def test_each_template_is_used(role: str) -> None:
    folder = ROLES / role
    listed = {name for own, _, entry in ENTRIES if own == role for _, name in sources(entry)}
    texts = [path for path in folder.rglob("*") if path.suffix in {".yml", ".j2"} and path.is_file()]
    named = "\n".join(path.read_text(encoding="utf-8") for path in texts)
    there = {str(path.relative_to(folder / "templates")) for path in (folder / "templates").rglob("*.j2")}
    # Jobs of the validation's stages and checks are named by what they are called after.
    spare = {name for name in there - listed if not re.search(rf"['\" ]{re.escape(name)}", named)}
    assert {name for name in spare if not name.startswith("job_")} == set()
