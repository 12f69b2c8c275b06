"""Plan the rotation of a cluster's secrets: the affected hosts, and the problems that prevent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ..engine.common.hostlist import fold_hosts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

KEY = "rotate_secrets"
# Suffixes of a secret's file name during its rotation.
NEXT, PREVIOUS = "_next", "_previous"


def rotation_plan(
    chosen: object,
    known: Mapping[str, Mapping[str, Any]],
    reached: Collection[str],
    files: Collection[str],
    given: Collection[str] = (),
) -> dict[str, Any]:
    """Return the plan of a rotation.

    Args:
        chosen: names of `known`, as a list or separated by commas.
        known: the secrets by name, each with `secret` (file name), `option` (variable that overrides the file, if any),
            `used` (whether the site uses it), `unused` (message if not), `hosts` (hosts with the secret or a derived
            value), `pause` (interrupted services) and `rolling` (whether hosts may be prepared in several runs with
            --limit).
        reached: reachable hosts of this run.
        files: names of the existing secret files.
        given: options that the site sets to a different value than the secret's file.

    Returns:
        `problems`; `hosts`, by name of the secret, in the order of `known`; `lines`, the plan as text.
    """
    names = _names(chosen)
    problems = _choice_problems(names, known)
    for name in [name for name in known if name in names]:
        problems += _problems(name, known[name], reached, files, given)
    wanted = {} if problems else {name: list(each["hosts"]) for name, each in known.items() if name in names}
    lines = [_line(name, known[name], files) for name in wanted]
    lines += [
        f"the rotation of {name} is not finished: include {name} in this run"
        for name, each in known.items()
        if name not in names and _begun(str(each["secret"]), files)
    ]
    return {"problems": problems, "hosts": wanted, "lines": [] if problems else lines}


def _names(chosen: object) -> list[str]:
    """Return the chosen names without duplicates."""
    words = chosen.split(",") if isinstance(chosen, str) else chosen if isinstance(chosen, (list, tuple)) else [chosen]
    return list(dict.fromkeys(filter(None, (str(word).strip() for word in words))))


def _choice_problems(names: Sequence[str], known: Collection[str]) -> list[Problem]:
    listed = ", ".join(known)
    if not names:
        return [
            make_problem(
                [],
                KEY,
                "no secret is selected",
                f"select the secrets to replace: -e {KEY}=NAME,… (available: {listed})",
            )
        ]
    return [
        make_problem([], KEY, f"{name!r} is not a secret that can be rotated", f"use one or more of {listed}")
        for name in names
        if name not in known
    ]


def _problems(
    name: str, each: Mapping[str, Any], reached: Collection[str], files: Collection[str], given: Collection[str]
) -> list[Problem]:
    """Return the problems that prevent replacing one secret."""
    if not each["used"]:
        return [make_problem([], KEY, f"{name}: {each['unused']}", f"leave {name} out")]
    option, secret = each.get("option"), str(each["secret"])
    if option and option in given:
        remedy = "change the value in the inventory, then run busbar provision"
        return [make_problem([], str(option), f"the inventory sets it, so busbar cannot replace {name}", remedy)]
    if not _begun(secret, files) and secret not in files:
        remedy = "provision the cluster first: busbar provision"
        return [make_problem([], KEY, f"{name}: {secret} does not exist yet", remedy)]
    away = [host for host in each["hosts"] if host not in reached]
    if not away or each.get("rolling"):
        return []
    problem = f"{name}: not in this run (--limit) or unreachable, and would keep the old secret"
    remedy = "run for all hosts when they are reachable, or remove them from the inventory"
    return [make_problem(away, KEY, problem, remedy)]


def _begun(secret: str, files: Collection[str]) -> bool:
    return secret + NEXT in files or secret + PREVIOUS in files


def _line(name: str, each: Mapping[str, Any], files: Collection[str]) -> str:
    what = "resumes where it stopped" if _begun(str(each["secret"]), files) else f"a new {each['secret']}"
    return f"{name}: {what}, on {fold_hosts(each['hosts'])}; pause: {each['pause']}"
