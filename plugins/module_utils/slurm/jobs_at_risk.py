"""Report jobs that a change to Slurm's configuration or accounting would kill or leave pending forever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .job_resources import HeldJob
    from .slurm_conf import ClusterConf, NodeConf, PartitionConf

    Entries = Sequence[Mapping[str, Any]]

__all__ = ["Accounting", "Loss", "accounting_losses", "configuration_losses", "loss_report", "removed_names"]

_MOST_LINES = 20


class Loss(NamedTuple):
    """A job, the reason for its loss, and a command that prevents more jobs at risk (or '')."""

    job: HeldJob
    reason: str
    command: str


class Accounting(NamedTuple):
    """The declared accounts, users and QOS, as in the options of the role."""

    accounts: Entries
    users: Entries
    qos: Entries


def configuration_losses(
    jobs: Sequence[HeldJob], old: ClusterConf, new: ClusterConf, *, gres_in_use: bool = True
) -> list[Loss]:
    """Return the jobs that a new slurm.conf would kill or block, one entry per job.

    Without `gres_in_use`, ignore changed GPU counts under running jobs, because the caller drains the node first.
    """
    losses = []
    memory, cpus = _held(jobs, "mem"), _held(jobs, "cpu")
    for job in jobs:
        loss = _missing(job, new) or (
            _stranded(job, old, new)
            if job.waits
            else _broken(job, old, new, {"mem": memory, "cpu": cpus}, gres_in_use=gres_in_use)
        )
        if loss:
            losses.append(Loss(job, *loss))
    return losses


def accounting_losses(jobs: Iterable[HeldJob], declared: Accounting) -> list[Loss]:
    """Return the jobs that the declared accounting would affect, one entry per job."""
    accounts = {str(item["name"]): item for item in declared.accounts}
    users = {str(item["name"]): item for item in declared.users}
    gone = {str(item["name"]).lower() for item in declared.qos if _is_absent(item)}
    losses = []
    for job in jobs:
        reason = _accounting_reason(job, accounts, users, gone)
        if reason:
            command = f"sacctmgr modify user where name={job.user} account={job.account} set MaxSubmitJobs=0"
            losses.append(Loss(job, reason, command))
    return losses


def removed_names(old: ClusterConf, new: ClusterConf) -> list[str]:
    """Return nodes and partitions of the old configuration that are missing from the new one, with their kind."""
    nodes = [f"node {name}" for name in old.nodes if name not in new.nodes]
    return nodes + [f"partition {name}" for name in old.partitions if name not in new.partitions]


def loss_report(losses: Sequence[Loss]) -> str:
    """Return a report of the affected jobs and the remedy."""
    lines = [_line(loss) for loss in losses[:_MOST_LINES]]
    if len(losses) > _MOST_LINES:
        lines.append(f"  and {len(losses) - _MOST_LINES} more jobs")
    commands = list(dict.fromkeys(loss.command for loss in losses if loss.command))
    labels = " ".join(_plain(loss.job.label) for loss in losses[:_MOST_LINES])
    keep = [f"  1. prevent new jobs: {command}" for command in commands[:_MOST_LINES]]
    return "\n".join(
        [
            *lines,
            "What to do:",
            *keep,
            f"  2. wait until these jobs end (squeue --all), or cancel them: scancel {labels}",
            "  3. provision again",
            "To accept the loss of these jobs, run again with -e slurm_allow_job_loss=true",
        ]
    )


def _line(loss: Loss) -> str:
    job = loss.job
    place = f"runs on {','.join(job.nodes[:4])}{',...' if len(job.nodes) > 4 else ''}" if job.nodes else "waits"  # noqa: PLR2004 - names shown
    return _plain(f"  job {job.label} of {job.user} ({place}): {loss.reason}")


def _plain(text: str) -> str:
    """Replace non-printable characters, which could move the cursor of a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _drain(node: str) -> str:
    return f"scontrol update nodename={node} state=drain reason='removed from the cluster'"


def _missing(job: HeldJob, new: ClusterConf) -> tuple[str, str] | None:
    """Return the loss of a job that uses a removed node or partition; Slurm ends such running and pending jobs."""
    for node in dict.fromkeys((*job.nodes, *job.required)):
        if node not in new.nodes:
            return f"node {node} is missing from the new slurm.conf, so Slurm would kill the job", _drain(node)
    for name in job.partitions:
        # If any of several partitions is missing, Slurm kills the job.
        if name not in new.partitions:
            command = f"scontrol update partitionname={name} state=drain"
            return f"partition {name} is missing from the new slurm.conf, so Slurm would kill the job", command
    return None


def _held(jobs: Iterable[HeldJob], resource: str) -> dict[str, float]:
    """Return how much of a resource running jobs use on each node, divided evenly over the nodes of a job."""
    held: dict[str, float] = {}
    for job in jobs:
        for node in job.nodes:
            held[node] = held.get(node, 0) + job.per_job.get(resource, 0) / len(job.nodes)
    return held


def _broken(
    job: HeldJob, old: ClusterConf, new: ClusterConf, held: Mapping[str, Mapping[str, float]], *, gres_in_use: bool
) -> tuple[str, str] | None:
    """Return the loss of a running job whose nodes change."""
    for name in job.nodes:
        was, will = old.nodes.get(name), new.nodes[name]
        if was is None:
            continue
        if (was.sockets, was.cores) != (will.sockets, will.cores):
            return f"sockets or cores of {name} change, so Slurm would kill the job", _drain(name)
        if gres_in_use and was.gres != will.gres and _has_gres(job):
            # Slurm compares the counts, so additional GPUs also make it kill the job.
            return f"gres of {name} change from {_gres_text(was)} to {_gres_text(will)}", _drain(name)
        if will.memory < was.memory and held["mem"][name] > will.memory:
            return (
                f"memory of {name} is lowered to {will.memory} MiB, but its jobs use {held['mem'][name]:.0f} MiB",
                _drain(name),
            )
        if will.cpus < was.cpus and held["cpu"][name] > will.cpus:
            return f"CPUs of {name} are lowered to {will.cpus}, but its jobs use {held['cpu'][name]:.0f}", _drain(name)
    return None


def _has_gres(job: HeldJob) -> bool:
    return bool(job.per_node) or any(name not in {"cpu", "mem", "billing", "energy"} for name in job.per_job)


def _gres_text(node: NodeConf) -> str:
    return ",".join(f"{name}={count}" for name, count in sorted(node.gres.items())) or "none"


def _stranded(job: HeldJob, old: ClusterConf, new: ClusterConf) -> tuple[str, str] | None:
    """Return the loss of a pending job that can run in one of its partitions now, but in none after the change."""
    known = [name for name in job.partitions if name in old.partitions]
    if known and all(_obstacle(job, old, name) for name in known):
        return None
    obstacles = [_obstacle(job, new, name) for name in job.partitions]
    if not obstacles or not all(obstacles):
        return None
    return f"would never start: {obstacles[0]}", ""


def _obstacle(job: HeldJob, conf: ClusterConf, name: str) -> str:
    """Return why a pending job can never run in a partition, or ''."""
    partition = conf.partitions[name]
    limit = _limit(job, partition, name)
    if limit:
        return limit
    outside = [node for node in job.required if node not in partition.nodes]
    if outside:
        return f"it requests {outside[0]}, which is not in partition {name}"
    if len(partition.nodes) < job.node_count:
        return f"partition {name} has {len(partition.nodes)} usable nodes (requested: {job.node_count})"
    nodes = [conf.nodes[node] for node in partition.nodes]
    for resource, amount in job.per_job.items():
        if sum(sorted((_has(node, resource) for node in nodes), reverse=True)[: job.node_count]) < amount:
            return f"the nodes of partition {name} have too little {resource}"
    for resource, count in job.per_node.items():
        if sum(node.gres.get(resource, 0) >= count for node in nodes) < job.node_count:
            return f"too few nodes of partition {name} have {count} of {resource}"
    return ""


def _limit(job: HeldJob, partition: PartitionConf, name: str) -> str:
    """Return the limit of a partition that a job exceeds."""
    if partition.minutes is not None and job.minutes is not None and job.minutes > partition.minutes:
        return f"MaxTime of partition {name} is {partition.minutes} minutes"
    if partition.most_nodes is not None and job.node_count > partition.most_nodes:
        return f"MaxNodes of partition {name} is {partition.most_nodes}"
    if job.node_count < partition.least_nodes:
        return f"MinNodes of partition {name} is {partition.least_nodes}"
    for what, value in (("account", job.account), ("qos", job.qos)):
        allowed, denied = partition.allowed.get(what), partition.denied.get(what, frozenset())
        if value in denied or (allowed is not None and value not in allowed):
            return f"partition {name} does not allow the {what} {value}"
    return ""


def _has(node: NodeConf, resource: str) -> float:
    """Return how much of a resource a node has; resources that slurm.conf does not define are unlimited."""
    amounts = {"cpu": node.cpus, "mem": node.memory}
    if resource in amounts:
        return amounts[resource]
    is_gres = resource.split(":", 1)[0] in {"gpu", "shard", "mps"}
    return node.gres.get(resource, 0) if is_gres else float("inf")


def _is_absent(item: Mapping[str, Any]) -> bool:
    return bool(item.get("state", "present") == "absent")


def _accounting_reason(job: HeldJob, accounts: Mapping[str, Any], users: Mapping[str, Any], gone: set[str]) -> str:
    """Return why a job would lose its account, user association or QOS, or ''."""
    user = users.get(job.user)
    for name in _lineage(job.account, accounts):
        if _is_absent(accounts[name]):
            return f"account {name} is removed (slurm_accounts)"
    if user and _is_absent(user):
        return f"user {job.user} is removed from accounting (users_accounts)"
    if user and job.account not in {str(name) for name in user.get("accounts") or []}:
        return f"user {job.user} loses the account {job.account} (users_accounts)"
    if job.qos in gone:
        return f"QOS {job.qos} is removed (slurm_qos)"
    allowed = _allowed_qos(job, accounts, user)
    if job.waits and allowed and job.qos not in allowed:
        return f"QOS {job.qos} is no longer allowed for this job (users_accounts, slurm_accounts)"
    return ""


def _lineage(account: str, accounts: Mapping[str, Any]) -> list[str]:
    """Return an account and its declared ancestors."""
    found: list[str] = []
    while account in accounts and account not in found:
        found.append(account)
        account = str(accounts[account].get("parent") or "root")
    return found


def _allowed_qos(job: HeldJob, accounts: Mapping[str, Any], user: Mapping[str, Any] | None) -> set[str]:
    """Return the QOS that a declared user may request; empty if the user is not declared."""
    if user is None:
        return set()
    holders = [user, *(accounts[name] for name in _lineage(job.account, accounts))]
    return next(({str(name).lower() for name in holder["qos"]} for holder in holders if holder.get("qos")), set())
