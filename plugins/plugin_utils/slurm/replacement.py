"""Which nodes get another machine, and what is wrong with the request. Pure, on the provisioning host."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from ...module_utils.common.problems import Problem, make_problem
from ..engine.common.hostlist import unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["PROTECTED", "replacement_problems"]

KEY, FINGERPRINT = "replace_node", "replace_node_fingerprint"
# What else a host does for the cluster would go with its machine.
PROTECTED = ("slurm_controller", "slurm_database", "slurm_login", "nfs_server", "ldap_server", "monitoring", "portal")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def replacement_problems(
    asked: str | Sequence[str], groups: Mapping[str, Sequence[str]], fingerprints: Sequence[str] = ()
) -> list[Problem]:
    """Return what is wrong with a request to replace nodes; no host is needed to tell.

    Args:
        asked: names, as a list or folded.
        groups: the inventory's.
        fingerprints: of host keys that the user vouches for.
    """
    try:
        names = unfold_hosts(asked) if asked else []
    except ValueError as exc:
        return [make_problem([], KEY, str(exc), "name compute nodes, such as -e 'replace_node=gpu[3-4]'")]
    if not names:
        return [make_problem([], KEY, "names no node", "name the compute node, such as -e replace_node=gpu3")]
    compute, problems = list(groups.get("slurm_compute") or []), []
    for name in names:
        held = [group for group in PROTECTED if name in (groups.get(group) or [])]
        if held:
            problem = f"{name} is in the group {held[0]}, and what it does there would go with its machine"
            remedy = "give that to another host first; a controller is restored as docs/backup.md says"
            problems.append(make_problem([name], KEY, problem, remedy))
        elif name not in compute:
            near = difflib.get_close_matches(name, compute, 1)
            problem = "no compute node of the inventory" + (f"; did you mean {near[0]}?" if near else "")
            problems.append(make_problem([name], KEY, problem, "name a host of the group slurm_compute"))
    problems += [
        make_problem([], FINGERPRINT, f"{text!r} is no fingerprint", "give SHA256:… as `ssh-keygen -lf` shows it")
        for text in fingerprints
        if not _FINGERPRINT.fullmatch(text)
    ]
    return problems
