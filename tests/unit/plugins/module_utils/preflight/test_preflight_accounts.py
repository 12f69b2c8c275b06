"""Users and groups as the preflight sees them."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.preflight.accounts import (
    conflict_problems,
    declaration_problems,
)

ALICE = {"name": "alice", "uid": 2001, "group": "research"}
RESEARCH = {"name": "research", "gid": 2000}


def test_a_sound_declaration() -> None:
    assert declaration_problems([ALICE], [RESEARCH]) == []


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ([ALICE, {**ALICE, "name": "bob"}], "2001"),
        ([ALICE, ALICE], "alice"),
        ([{"uid": 1}], "without a name"),
        (["alice"], "without a name"),
    ],
)
def test_what_is_wrong_with_a_declaration(users: list[dict[str, object]], words: str) -> None:
    (problem,) = declaration_problems(users, [RESEARCH])
    assert words in problem["problem"]
    assert problem["remedy"]
    assert problem["hosts"] == []


def test_a_number_that_another_name_has() -> None:
    (problem,) = conflict_problems("gpu1", [ALICE], [RESEARCH], {"users": {"mallory": 2001}, "groups": {}})
    assert problem["hosts"] == ["gpu1"]
    assert "mallory" in problem["problem"]
    assert "renumber mallory" in problem["remedy"]
