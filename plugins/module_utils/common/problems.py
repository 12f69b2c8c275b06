"""The common form of problems in all checks, on the provisioning host and on nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Problem", "advice", "is_advice", "make_problem", "one_line", "problem_lines"]
REFUSED = "busbar_refused"


def is_refused(result: dict[str, Any]) -> bool:
    """Return whether a task failed because of invalid input; for a loop, whether this applies to all failed items."""
    failed = [item for item in result.get("results") or [] if isinstance(item, dict) and item.get("failed")]
    return result.get(REFUSED) is True or (bool(failed) and all(item.get(REFUSED) is True for item in failed))


def refusal(headline: str, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return a failed module result with problems that the user can fix.

    Args:
        headline: the action that was not taken.
        problems: all problems found for this host.
    """
    lines = [line for item in problems for line in problem_lines(item, ",".join(item["hosts"]))]
    return {"msg": "\n".join([headline, *lines]), "problems": list(problems), REFUSED: True}


class Problem(TypedDict):
    """A problem and its remedy."""

    hosts: list[str]
    key: str
    problem: str
    remedy: str


class Advice(Problem, total=False):
    """A problem that does not stop a run."""

    advice: bool


def make_problem(hosts: Iterable[str], key: str, problem: str, remedy: str) -> Problem:
    """Return a problem with `hosts` (empty: the whole site) with a variable, file or component `key`."""
    return {"hosts": list(hosts), "key": key, "problem": problem, "remedy": remedy}


def advice(problem: Problem) -> Problem:
    """Return a problem as advice, which does not stop the run."""
    marked: Advice = {**problem, "advice": True}
    return marked


def is_advice(problem: Mapping[str, object]) -> bool:
    """Return whether a problem is advice."""
    return bool(problem.get("advice"))


def one_line(problem: Problem) -> str:
    """Return key and description of a problem, for messages that add hosts and remedy separately."""
    return f"{problem['key']}: {problem['problem']}"


def problem_lines(problem: Problem, hosts: str) -> list[str]:
    """Return a problem as text: hosts, key and description on one line, the remedy on the next."""
    place = ": ".join(filter(None, (hosts, problem["key"])))
    return [f"{place}: {problem['problem']}", f"    remedy: {problem['remedy']}"]
