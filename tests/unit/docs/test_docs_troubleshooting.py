"""Each message that the page of troubleshooting quotes is one that busbar has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PAGE = TOP / "docs" / "troubleshooting.md"
FOLDERS = ("plugins", "roles", "playbooks", "scripts")
LEAST = 6


def quoted() -> list[str]:
    """The messages that are headings."""
    return re.findall(r"^### `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def messages() -> str:
    """All texts of the code, in one line each."""
    texts = []
    for path in (path for folder in FOLDERS for path in (TOP / folder).rglob("*") if path.is_file()):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    texts.append("".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values))
        elif path.suffix in {".yml", ".j2", ".sh", ""} and "README" not in path.name:
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(" ".join(text.split()) for text in texts)


def test_headings_below_the_first_level_are_messages() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(quoted()) == len(re.findall(r"^### ", text, re.MULTILINE))
    assert len(quoted()) > 20


@pytest.mark.parametrize("message", quoted())
def test_a_message_is_one_of_the_code(message: str) -> None:
    parts = [part.strip() for part in message.split("…") if part.strip()]
    assert any(len(part) >= LEAST for part in parts), "too short to be found again"
    assert [part for part in parts if part not in messages()] == []
