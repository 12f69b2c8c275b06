"""Files in tasks with the action `templates` exist in their role, and each template is used."""

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
    """Yield all tasks of a file, also those in blocks."""
    for task in listed:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks(task.get(part) or [])


def entries() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield role, name of the task and entry of each listed file."""
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        listed = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        for task in tasks(listed or []):
            for entry in task.get("busbar.cluster.templates", {}).get("files", []):
                yield path.parts[-3], task["name"], entry


ENTRIES = list(entries())


@pytest.mark.parametrize(
    ("role", "task", "entry"), [pytest.param(*one, id=f"{one[0]}-{i}") for i, one in enumerate(ENTRIES)]
)
def test_each_listed_file_has_a_source(role: str, task: str, entry: dict[str, Any]) -> None:
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
        # A source with a trailing slash is a folder.
        there = Path.is_dir if entry.get("src", "").endswith("/") else Path.is_file
        assert any(there(place) for place in places), entry["dest"]


@pytest.mark.parametrize("role", sorted({path.name for path in ROLES.iterdir() if (path / "templates").is_dir()}))
def test_each_template_is_used(role: str) -> None:
    folder = ROLES / role
    listed = {name for own, _, entry in ENTRIES if own == role for _, name in sources(entry)}
    texts = [path for path in folder.rglob("*") if path.suffix in {".yml", ".j2"} and path.is_file()]
    named = "\n".join(path.read_text(encoding="utf-8") for path in texts)
    there = {str(path.relative_to(folder / "templates")) for path in (folder / "templates").rglob("*.j2")}
    # The code builds names of job templates from the name of their stage or check, so they do not occur literally.
    spare = {name for name in there - listed if not re.search(rf"['\" ]{re.escape(name)}", named)}
    assert {name for name in spare if not name.startswith("job_")} == set()
