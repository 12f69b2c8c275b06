"""Find secrets that hosts use but the provisioning host lacks, which a run would replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ...module_utils.common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OPTION = "preflight_rotate_secrets"


class Site(TypedDict):
    """State of the secrets on the provisioning host.

    Attributes:
        directory: the secrets directory.
        absent: names of the missing secrets.
        known: properties of each secret; `meaning` is its description.
        rotated: names of the secrets to replace.
        others: hosts that are not part of this run.
    """

    directory: str
    absent: list[str]
    known: Mapping[str, Mapping[str, Any]]
    rotated: list[str]
    others: list[str]


def held_problems(
    answers: Mapping[str, Mapping[str, Any]], controller: tuple[str, Mapping[str, Any]], site: Site
) -> list[Problem]:
    """Return problems for secrets that a run would replace, and for hosts that would keep an old secret.

    Args:
        answers: the `secret_info` result of each host in the run; a host that did not answer has no `held`.
        controller: name of a controller outside the run, and its `secret_info` result; empty if it was not queried.
        site: the secrets on the provisioning host.
    """
    name, answer = controller
    was_queried = bool(answer) and not answer.get("skipped")
    all_answers = {**answers, name: answer} if was_queried else answers
    directory, absent, rotated = site["directory"], site["absent"], set(site["rotated"])
    holders = {each: [host for host, found in all_answers.items() if each in found.get("held", [])] for each in absent}
    lost = [each for each in absent if holders[each] and each not in rotated]
    problems = [
        make_problem(
            holders[each],
            each,
            f"the hosts have {site['known'][each]['meaning']}, but it is missing in {directory}",
            f"restore {directory}/{each} from a backup or from the host that provisioned the cluster, "
            f"or replace it on all hosts: -e {_OPTION}={','.join(lost)}",
        )
        for each in lost
    ]
    renewed = [each for each in absent if holders[each] and each in rotated]
    if renewed and site["others"]:
        problem = f"would keep the old {', '.join(renewed)}, because they are not part of this run"
        problems.append(make_problem(site["others"], _OPTION, problem, "run on all hosts, without --limit"))
    if was_queried and "held" not in answer:
        reason = str(answer.get("msg") or "no answer")
        problem = f"cannot be checked for {', '.join(absent)}, which {directory} lacks: {reason}"
        remedy = f"restore the files into {directory}, or run again when {name} is reachable"
        problems.append(make_problem([name], "secrets", problem, remedy))
    return problems


def rotation_problems(
    rotated: Sequence[str], present: Sequence[str], known: Sequence[str], directory: str
) -> list[Problem]:
    """Return the problems with the preflight_rotate_secrets option.

    Args:
        rotated: names given by the user.
        present: names of the secrets on the provisioning host.
        known: names of all secrets.
        directory: the directory of the secrets.
    """
    problems = []
    for name in rotated:
        if name not in known:
            remedy = f"use one or more of: {', '.join(known)}"
            problems.append(make_problem([], _OPTION, f"{name!r} is not a secret of the cluster", remedy))
        elif name in present:
            remedy = f"move {directory}/{name} to another directory to generate a new one, or remove {_OPTION}"
            problems.append(
                make_problem([], _OPTION, f"{directory}/{name} exists, so it would not be replaced", remedy)
            )
    return problems
