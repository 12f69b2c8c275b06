"""How a failed result tells that it is the input that was wrong: the inventory, its variables, or what a host is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .problems import problem_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .problems import Problem

__all__ = ["REFUSED", "refusal"]

REFUSED = "busbar_refused"


def refusal(headline: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return what a module on a node fails with, where it refuses what its user can put right.

    Args:
        headline: what was not done.
        problems: all that is wrong, each of this one host.
    """
    lines = [line for item in problems for line in problem_lines(item, ",".join(item["hosts"]))]
    return {"msg": "\n".join([headline, *lines]), "problems": list(problems), REFUSED: True}
