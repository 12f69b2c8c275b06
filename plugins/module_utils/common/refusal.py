"""Mark a failed result as caused by wrong input: inventory, variables or the state of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .problems import problem_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .problems import Problem

__all__ = ["REFUSED", "refusal"]

REFUSED = "busbar_refused"


def refusal(headline: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return a failed module result with problems that the user can fix.

    Args:
        headline: the action that was not taken.
        problems: all problems found for this host.
    """
    lines = [line for item in problems for line in problem_lines(item, ",".join(item["hosts"]))]
    return {"msg": "\n".join([headline, *lines]), "problems": list(problems), REFUSED: True}
