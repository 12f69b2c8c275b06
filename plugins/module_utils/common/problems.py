"""What a problem of a site is: one form for all checks, on the provisioning host and on the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Advice", "Problem", "advice", "is_advice", "make_problem", "one_line", "problem_lines"]


class Problem(TypedDict):
    """One thing that is wrong, with the way out."""

    hosts: list[str]
    key: str
    problem: str
    remedy: str


class Advice(Problem, total=False):
    """A problem that does not stop a run."""

    advice: bool


def make_problem(hosts: Iterable[str], key: str, problem: str, remedy: str) -> Problem:
    """Return a problem of `hosts` (none: of the whole site), found at the variable, file or thing `key`."""
    return {"hosts": list(hosts), "key": key, "problem": problem, "remedy": remedy}


def advice(problem: Problem) -> Problem:
    """Return a problem as one that is shown and does not stop the run."""
    marked: Advice = {**problem, "advice": True}
    return marked


def is_advice(problem: Mapping[str, object]) -> bool:
    """Whether a problem is shown without stopping the run."""
    return bool(problem.get("advice"))


def one_line(problem: Problem) -> str:
    """Return where a problem is and what it is, for a text that names hosts and remedy itself."""
    return f"{problem['key']}: {problem['problem']}"


def problem_lines(problem: Problem, hosts: str) -> list[str]:
    """Return a problem as text: its hosts, in the form given, its key and what it is on one line, the remedy below."""
    place = ": ".join(filter(None, (hosts, problem["key"])))
    return [f"{place}: {problem['problem']}", f"    remedy: {problem['remedy']}"]
