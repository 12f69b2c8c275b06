"""Users and groups as the preflight sees them: the sentences of `accounts`, made problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..access.accounts import account_conflicts, account_problems
from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["conflict_problems", "declaration_problems"]

_KEY = "users_accounts, users_groups"


def declaration_problems(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return what is wrong with the declaration itself."""
    try:
        return _problems([], account_problems(users, groups))
    except (AttributeError, KeyError, TypeError):
        return [make_problem([], _KEY, "has an entry without a name", "give each entry a name and a number")]


def conflict_problems(
    host: str, users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], node: Mapping[str, Any]
) -> list[Problem]:
    """Return why the declaration does not fit a host whose `users` and `groups` are name to number."""
    return _problems([host], account_conflicts(users, groups, node["users"], node["groups"]))


def _problems(hosts: list[str], sentences: Iterable[str]) -> list[Problem]:
    """Return sentences of the form 'problem: remedy' as problems."""
    parts = (sentence.rpartition(": ") for sentence in sentences)
    return [make_problem(hosts, _KEY, problem or remedy, remedy) for problem, _, remedy in parts]
