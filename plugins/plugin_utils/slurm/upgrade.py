"""Plan the hosts and order of a Slurm upgrade, and find the problems that prevent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.slurm.busbar_drain_reasons import UPGRADE_REASON
from ...module_utils.slurm.nodes_and_jobs import jobs_on, parse_nodes
from ...module_utils.slurm.releases import release, release_text, window_problem
from ..engine.common.hostlist import fold_hosts
from .rolling import cut, share_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Inventory groups in upgrade order, each with the package of its daemon and the daemon.
STAGES = {
    "slurm_database": ("slurmdbd", "slurmdbd"),
    "slurm_controller": ("slurmctld", "slurmctld"),
    "slurm_compute": ("slurmd", "slurmd"),
    "slurm_login": ("slurm-client", "sackd"),
}
KEY = "slurm_repository"
_SEVERAL = 5

Host = dict[str, Any]


class _Step(NamedTuple):
    """The upgrade of one daemon on one host."""

    host: str
    stage: str
    before: str
    after: str
    todo: bool


def upgrade_plan(
    hosts: Mapping[str, Host],
    cluster: Mapping[str, Sequence[str]],
    seen: Mapping[str, str],
    batch: object = "25%",
) -> dict[str, Any]:
    """Return the plan of an upgrade.

    Args:
        hosts: by host, the result of the `slurm_release` module: `installed` and `offered`, versions by package;
            `daemons`, by name ``current``, ``stale`` (the running program is older than the installed one) or
            ``stopped``; `removes`, packages that apt would remove; `error`, why apt would fail.
        cluster: the hosts of each group of STAGES.
        seen: `nodes`, the output of ``sinfo -h -N -a -o '%N|%T|%E'``, and `queue`, that of ``squeue -h -a -o
            '%i|%u|%N'``; empty if slurmctld does not answer.
        batch: compute nodes per batch, as a number or a percentage.

    Returns:
        Only `problems`, or `stages` (hosts to upgrade by stage), `serial` (compute nodes per batch), `packages`
        (versions to install by host), `versions` (by host, before and after), `stops` (by host, daemons to stop during
        the package upgrade), `left` (skipped hosts with the reason), `drained` (nodes that an interrupted upgrade left
        drained), and `lines`, the plan as text.
    """
    steps = [_step(name, stage, hosts[name]) for stage in STAGES for name in cluster.get(stage, ()) if name in hosts]
    absent = {name: "is unreachable" for stage in STAGES for name in cluster.get(stage, ()) if name not in hosts}
    problems = _problems(hosts, cluster, steps, absent)
    known = parse_nodes(seen.get("nodes") or "")
    drained = [name for name, (_state, reason) in known.items() if reason.startswith(UPGRADE_REASON)]
    stages = {
        stage: [step.host for step in steps if step.stage == stage and (step.todo or _is_ours(step, drained))]
        for stage in STAGES
    }
    try:
        size = share_of(batch, len(stages["slurm_compute"]) or 1, "upgrade_slurm_batch", 1)
    except ValueError as error:
        problems.append(make_problem([], "upgrade_slurm_batch", str(error).partition(": ")[2], "give 25%, or 10"))
        size = 1
    if problems:
        return {"problems": problems}
    queue = seen.get("queue") or ""
    return {
        "problems": [],
        "stages": stages,
        "serial": size,
        "packages": {name: _packages(host) for name, host in hosts.items()},
        "versions": {
            step.host: {"before": step.before, "after": step.after}
            for step in steps
            if step.host in hosts and step.todo
        },
        "stops": {name: _stops(name, cluster, hosts[name]) for name in hosts},
        "left": absent,
        "drained": drained,
        "lines": _lines(steps, stages, size)
        + _notes(jobs_on(queue, list(known)), absent, answers=bool(known), todo=any(stages.values())),
    }


def _step(name: str, stage: str, host: Host) -> _Step:
    package, daemon = STAGES[stage]
    before, after = (str(host[which].get(package) or "") for which in ("installed", "offered"))
    # All Slurm packages of a host must have one version, including those such as headers for plugins.
    todo = any(host["offered"].get(each, version) != version for each, version in host["installed"].items())
    running = host["daemons"].get(daemon, "current")
    return _Step(name, stage, before, after, todo or running != "current")


def _is_ours(step: _Step, drained: Sequence[str]) -> bool:
    return step.stage == "slurm_compute" and step.host in drained


def _packages(host: Host) -> list[dict[str, str]]:
    return [
        {"name": name, "version": host["offered"][name]}
        for name, version in host["installed"].items()
        if host["offered"].get(name, version) != version
    ]


def _stops(name: str, cluster: Mapping[str, Sequence[str]], host: Host) -> list[str]:
    """Return the daemons to stop during the package upgrade of a host, in order.

    The upgrade replaces the library and plugins of all daemons, which load some plugins on demand. On other hosts
    slurmd is only restarted, which does not affect its jobs.
    """
    if name not in {*cluster.get("slurm_database", ()), *cluster.get("slurm_controller", ())}:
        return []
    return [daemon for daemon in ("slurmctld", "slurmd", "slurmdbd") if daemon in host["daemons"]]


def _problems(
    hosts: Mapping[str, Host],
    cluster: Mapping[str, Sequence[str]],
    steps: Sequence[_Step],
    absent: Mapping[str, str],
) -> list[Problem]:
    found = _unready(cluster, steps, absent)
    if found:
        return found
    for (before, after), names in _grouped(steps):
        problem, remedy = window_problem(before, after)
        if problem:
            found.append(make_problem(names, KEY, problem, remedy))
    if found:
        return found
    found += _order(steps)
    for name, host in hosts.items():
        if host.get("error"):
            found.append(
                make_problem([name], KEY, str(host["error"]), "make these packages installable with apt there")
            )
        if host.get("removes"):
            gone = ", ".join(host["removes"])
            remedy = f"add the packages to upgrade with it to {KEY}.packages, or remove {gone} first"
            found.append(make_problem([name], KEY, f"apt would remove {gone}", remedy))
    return found + _plugin_problems(hosts)


def _plugin_problems(hosts: Mapping[str, Host]) -> list[Problem]:
    """Return a problem for each SPANK plugin that the new Slurm rejects, because jobs or slurmd would fail."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for name, host in hosts.items():
        for each in host.get("plugins") or ():
            after = {release_text(version) for version in host["offered"].values()} - {release_text(each["slurm"])}
            if after:
                found.setdefault((each["library"], each["slurm"], each["file"], max(after)), []).append(name)
    return [
        make_problem(
            names,
            "slurm_spank_plugins",
            f"{library} is built for Slurm {slurm}; Slurm {after} would reject it, and jobs would fail",
            f"add it to slurm_spank_plugins, which builds it for {after} during the upgrade, or remove its line from "
            f"{file} until you have built it for {after}",
        )
        for (library, slurm, file, after), names in found.items()
    ]


def _unready(
    cluster: Mapping[str, Sequence[str]],
    steps: Sequence[_Step],
    absent: Mapping[str, str],
) -> list[Problem]:
    """Return the problems that prevent planning: unreachable hosts, missing packages, wrong combinations of daemons."""
    found = []
    for stage in ("slurm_database", "slurm_controller"):
        lost = [name for name in cluster.get(stage, ()) if name in absent]
        if lost:
            remedy = "make it reachable, and remove --limit or include it there"
            found.append(
                make_problem(
                    lost, stage, "is unreachable or not part of this run, but must be part of an upgrade", remedy
                )
            )
    if not cluster.get("slurm_controller"):
        remedy = "add the host that runs slurmctld to it"
        found.append(make_problem([], "slurm_controller", "has no host, so there is nothing to upgrade", remedy))
    for step in steps:
        package = STAGES[step.stage][0]
        if not step.before:
            remedy = "install it: busbar provision slurm"
            found.append(make_problem([step.host], package, "is not installed", remedy))
        elif not step.after:
            remedy = f"check apt-cache policy {package} there, and correct {KEY}"
            found.append(make_problem([step.host], package, "is not available from any package source", remedy))
    both = [name for name in cluster.get("slurm_database", ()) if name in cluster.get("slurm_compute", ())]
    alone = [name for name in both if name not in cluster.get("slurm_controller", ())]
    if alone:
        problem = "runs slurmdbd and slurmd: slurmd would be stopped while the database is converted"
        found.append(make_problem(alone, "slurm_database", problem, "remove it from slurm_compute first"))
    return found


def _order(steps: Sequence[_Step]) -> list[Problem]:
    """Return a problem for each daemon that would be newer than the one that it connects to."""
    found = []
    for upper, lower in (("slurm_database", "slurm_controller"), ("slurm_controller", "slurm_compute")):
        above = [step for step in steps if step.stage == upper]
        if not above:
            continue
        least = min(above, key=lambda step: release(step.after))
        newer = (step for step in steps if step.stage == lower and release(step.after) > release(least.after))
        found += [
            make_problem(
                [step.host],
                STAGES[lower][0],
                f"{step.after} would be newer than {STAGES[upper][0]} {least.after} on {least.host}",
                f"make {release_text(step.after)} available to {least.host} as well: use the same {KEY} on all hosts",
            )
            for step in newer
        ]
    return found


def _grouped(steps: Iterable[_Step]) -> list[tuple[tuple[str, str], list[str]]]:
    """Return the hosts by installed and offered version."""
    found: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        names = found.setdefault((step.before, step.after), [])
        if step.host not in names:
            names.append(step.host)
    return list(found.items())


def _lines(steps: Sequence[_Step], stages: Mapping[str, Sequence[str]], size: int) -> list[str]:
    """Return the upgrade steps as text."""
    found = []
    for number, (stage, names) in enumerate(stages.items(), 1):
        daemon = STAGES[stage][0] if stage != "slurm_login" else "commands of Slurm"
        chosen = [step for step in steps if step.stage == stage and step.host in names]
        for (before, after), hosts in _grouped(chosen):
            change = f"{before} -> {after}" if before != after else f"{after} is installed, but not active yet"
            found.append(f"{number}. {daemon} of {fold_hosts(hosts)}: {change}")
        if stage == "slurm_compute" and names:
            batches = cut(names, size)
            shown = "; ".join(fold_hosts(batch) for batch in batches[:_SEVERAL])
            found.append(f"   in {len(batches)} batches: {shown}{' ...' if len(batches) > _SEVERAL else ''}")
    versions = ", ".join(sorted({step.after for step in steps}))
    return found or [f"nothing to do: all hosts have {versions}"]


def _notes(jobs: Mapping[str, Sequence[str]], absent: Mapping[str, str], *, answers: bool, todo: bool) -> list[str]:
    """Return notes on running jobs and skipped hosts."""
    found = []
    running = sorted({job for each in jobs.values() for job in each})
    if todo and not answers:
        found.append("slurmctld does not answer, so running jobs are unknown")
    elif todo:
        more = f" and {len(running) - _SEVERAL} more" if len(running) > _SEVERAL else ""
        found.append(f"running jobs that continue: {', '.join(running[:_SEVERAL]) or 'none'}{more}")
    return found + [f"{name} {why}, and is not upgraded" for name, why in absent.items()]
