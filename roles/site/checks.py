"""Checks the options of the site role."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.engine.common.hostlist import unfold_hosts
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem
from ...plugins.plugin_utils.slurm.cluster_roles import cluster_name_problems
from ...plugins.plugin_utils.uninstall.choice import uninstall_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY, FINGERPRINT = "replace_node", "replace_node_fingerprint"
# Groups whose hosts run services that would be lost with the machine.
PROTECTED = ("slurm_controller", "slurm_database", "slurm_login", "nfs_server", "ldap_server", "monitoring", "portal")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


def check(options: Known, _: Known) -> list[Problem]:
    """Return a problem if the cluster name is invalid."""
    return cluster_name_problems("cluster_name", options["cluster_name"])


def check_replacement(requested: str | Sequence[str], cluster: Known) -> list[Problem]:
    """Return the problems with a request to replace nodes, without contacting hosts.

    Args:
        requested: node names, as a list or as a Slurm host list.
        cluster: `groups` of the inventory, and `fingerprints` of the host keys that the user confirms.
    """
    groups = cluster["groups"]
    try:
        names = unfold_hosts(requested) if requested else []
    except ValueError as exc:
        return [make_problem([], KEY, str(exc), "list compute nodes, such as -e 'replace_node=gpu[3-4]'")]
    if not names:
        return [make_problem([], KEY, "names no node", "set the compute node, such as -e replace_node=gpu3")]
    compute, problems = list(groups.get("slurm_compute") or []), []
    for name in names:
        held = [group for group in PROTECTED if name in (groups.get(group) or [])]
        if held:
            problem = f"{name} is in the group {held[0]}, whose services run on this machine"
            remedy = "move these services to another host first; for a controller see docs/backup.md"
            problems.append(make_problem([name], KEY, problem, remedy))
        elif name not in compute:
            near = difflib.get_close_matches(name, compute, 1)
            problem = "is not a compute node of the inventory" + (f"; did you mean {near[0]}?" if near else "")
            problems.append(make_problem([name], KEY, problem, "use a host of the group slurm_compute"))
    problems += [
        make_problem([], FINGERPRINT, f"{text!r} is not a fingerprint", "use the SHA256:… that `ssh-keygen -lf` prints")
        for text in cluster["fingerprints"]
        if not _FINGERPRINT.fullmatch(text)
    ]
    return problems


def check_uninstall(requested: str | Sequence[str], cluster: Known) -> list[Problem]:
    """Return the problems with a request to uninstall hosts; `cluster` has the arguments of `uninstall_problems`."""
    return uninstall_problems(requested, **cluster)
