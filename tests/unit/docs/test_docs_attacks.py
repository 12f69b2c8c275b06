"""The page on security lists exactly the attacks that the tests try."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
# The tables of attempts and the first words of their rows on the page.
ROWS = {
    "FROM_A_JOB": "in a job of her own",
    "BY_SLURM": "with Slurm's commands",
    "WATCHED": "over the network",
    "STAYING": "to stay when her job is over",
}


@pytest.fixture(scope="module")
def attempts() -> dict[str, list[str]]:
    """Return the attempts by the tables of the test."""
    tree = ast.parse((TOP / "tests/sandbox/test_attacks.py").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for item in tree.body:
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name) and isinstance(item.value, ast.Dict):
            keys = [key.value for key in item.value.keys if isinstance(key, ast.Constant)]
            found[item.targets[0].id] = [str(key) for key in keys]
    return found


def test_every_table_of_attempts_has_a_row(attempts: dict[str, list[str]]) -> None:
    assert attempts.keys() == ROWS.keys()


@pytest.mark.parametrize("table", ROWS)
def test_page_lists_all_attempts(attempts: dict[str, list[str]], table: str) -> None:
    page = (TOP / "docs/security.md").read_text(encoding="utf-8")
    (listed,) = re.findall(rf"^\| {ROWS[table]}[^|]*\| (.+) \|$", page, re.MULTILINE)
    assert listed.split(", ") == attempts[table]
