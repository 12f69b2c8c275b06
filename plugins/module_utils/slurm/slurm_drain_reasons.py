# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Drain reasons that Slurm sets on a node, with cause and remedy, for doctor, the alert tests and the documentation.

The reasons are from Slurm's source, releases 22.05 to 26.05: in src/slurmctld node_mgr.c, agent.c, job_mgr.c,
proc_req.c, ping_nodes.c, power_save.c and read_config.c, src/interfaces/gres.c, src/slurmd. Slurm joins several reasons
with a comma or " : ".
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DRAIN_REASONS", "drain_remedy", "matching_reasons"]


class DrainReason(NamedTuple):
    """A drain reason, its cause and its remedy.

    Attributes:
        texts: fixed parts of the reason; one of them must occur in it.
        cause: explanation.
        steps: commands and actions in order; `{node}` is the name of the node.
        invalid: whether the node is in state INVALID_REG, in which slurmctld refuses State=RESUME until slurmd
            registers with all resources that slurm.conf declares.
        returns: whether the node returns automatically (ReturnToService=2); slurmctld then refuses State=RESUME.
    """

    texts: tuple[str, ...]
    cause: str
    steps: tuple[str, ...]
    invalid: bool = False
    returns: bool = False


_LOG = "on {node}: journalctl -u slurmd -n 50"
_PROFILE = "correct the hardware profile and run busbar provision slurm"

DRAIN_REASONS = (
    DrainReason(
        ("count reported lower than configured", "count too low"),
        "the node has fewer GPUs than slurm.conf declares",
        (
            "on {node}: nvidia-smi -L; ls /dev/nvidia*; journalctl -k -b | grep -E 'NVRM|Xid'",
            f"bring the GPUs back (reboot, power cycle, repair), or {_PROFILE}",
        ),
        invalid=True,
    ),
    DrainReason(
        ("reported but not configured", "Invalid GRES Links value"),
        "slurmd finds GPUs of another type or number than slurm.conf declares",
        ("on {node}: slurmd -G; on the controller: scontrol show node {node} | grep Gres", _PROFILE),
        invalid=True,
    ),
    DrainReason(
        ("count changed and jobs are using them", "type changed and jobs are using them"),
        "the GPUs of the node changed while jobs were using them",
        ("squeue -w {node}: wait until these jobs have finished, or cancel them",),
        invalid=True,
    ),
    DrainReason(
        ("match socket boundaries", "RestrictedCoresPerGPU"),
        "the cores next to a GPU do not fit the sockets that slurm.conf declares",
        (
            "on {node}: slurmd -G; lscpu -e; nvidia-smi topo -m",
            f"correct NUMA nodes per socket in the BIOS, or {_PROFILE}",
        ),
        invalid=True,
    ),
    DrainReason(
        ("Low socket*core*thread count", "Low CPUs"),
        "the node has fewer CPUs than slurm.conf declares",
        ("on {node}: slurmd -C; lscpu", f"turn on SMT or the missing cores in the BIOS, or {_PROFILE}"),
        invalid=True,
    ),
    DrainReason(
        ("Low RealMemory",),
        "the node has less memory than slurm.conf declares",
        (
            "on {node}: slurmd -C; free -m; dmidecode -t memory",
            f"replace the missing DIMM, or lower memory_mb: {_PROFILE}",
        ),
        invalid=True,
    ),
    DrainReason(
        ("Low TmpDisk",),
        "the file system of TmpFS is smaller than slurm.conf declares",
        (
            "on {node}: df -m /tmp",
            "mount the missing disk, or correct TmpDisk in slurm_config and run busbar provision slurm",
        ),
        invalid=True,
    ),
    DrainReason(
        ("CoreSpec differ",),
        "slurmd reserves other cores than slurm.conf declares",
        ("on {node}: slurmd -C; on the controller: scontrol show node {node} | grep -i spec", "busbar provision slurm"),
        invalid=True,
    ),
    DrainReason(
        ("Could not unpack gres data", "Failed to parse dynamic_conf nodeline", "Failed to set topology"),
        "slurmctld cannot parse the registration of slurmd: their releases or configurations differ",
        ("on {node}: slurmd -V; on the controller: slurmctld -V", "busbar provision slurm"),
        invalid=True,
    ),
    DrainReason(
        ("not a superset of currently active changeable features",),
        "the node came up without a feature that slurmctld expects",
        ("scontrol show node {node} | grep -i features", _LOG),
        invalid=True,
    ),
    DrainReason(
        ("Kill task failed", "Job step not running"),
        "a process of a job survived SIGKILL, or a job step did not start",
        (
            "on {node}: ps -eo pid,stat,wchan:30,user,cmd | grep ' D' lists processes blocked in the kernel (NFS, GPU)",
            "grep TERMINATED /var/log/slurm/slurmd.log shows the job; journalctl -u slurmd -n 50 shows a failed epilog",
            "a process that stays in state D needs a reboot",
        ),
    ),
    DrainReason(
        ("Prolog error", "Prolog/Epilog failure"),
        "the prolog failed, and the job was requeued",
        (
            f"{_LOG} shows its output; scontrol show config | grep -i prolog shows its path; fix the script",
            "squeue -t PD lists jobs with 'launch failed requeued held': scontrol release JOB",
        ),
    ),
    DrainReason(
        ("Epilog error",),
        "the epilog failed after the job had finished",
        (f"{_LOG} shows its output; scontrol show config | grep -i epilog shows its path; fix the script",),
    ),
    DrainReason(
        ("Job env setup error", "batch job complete failure"),
        "slurmd could not start a job: spool directory, user, home, memory or cgroup",
        (f"{_LOG} shows the error", "df -h; getent passwd USER; findmnt"),
    ),
    DrainReason(
        ("SlurmdSpoolDir is full",),
        "the file system of slurmd's spool directory is full",
        ("on {node}: df -h; df -i; du -x -d2 /var | sort -n | tail", "free space there"),
    ),
    DrainReason(
        ("Duplicate jobid",),
        "slurmctld started a job twice after a crash or failover; the node has no fault",
        ("squeue -w {node} must list nothing unexpected",),
    ),
    DrainReason(
        ("switch_g_job_postfini failed", "Bad core count"),
        "Slurm could not count or release the resources of a job",
        (_LOG, "on the controller: journalctl -u slurmctld -n 100"),
    ),
    DrainReason(
        ("Not responding",),
        "slurmd does not answer slurmctld",
        (
            "ping {node}; if it does not answer, check power and console through its BMC",
            "on {node}: systemctl status slurmd munge; chronyc tracking; journalctl -u slurmd -n 50",
            "on {node}: systemctl restart slurmd",
        ),
        returns=True,
    ),
    DrainReason(
        ("Node unexpectedly rebooted",),
        "the node rebooted without a request from Slurm; its jobs were lost or requeued",
        ("on {node}: last -x reboot shutdown | head; journalctl -b -1 -n 50; ipmitool sel list",),
    ),
    DrainReason(
        ("ResumeTimeout reached", "reboot timed out"),
        "the node did not boot in time",
        ("check power and console through the BMC", "on {node}, once it is up: systemctl restart slurmd"),
        returns=True,
    ),
    DrainReason(
        ("NO NETWORK ADDRESS FOUND",),
        "slurmctld found no address for the name of the node",
        ("on the controller: getent hosts {node}", "busbar provision base --tags hosts", "systemctl restart slurmctld"),
        returns=True,
    ),
    DrainReason(
        ("reboot requested", "reboot issued", "reboot complete", "POWER_DOWN_ASAP"),
        "an administrator requested a reboot or power-down with scontrol",
        ("wait until it is done (scontrol show node {node}), or cancel a reboot: scontrol cancel_reboot {node}",),
        returns=True,
    ),
)
_RESUME = "scontrol update NodeName={node} State=RESUME"
_INVALID = f"then on {{node}}: systemctl restart slurmd; once sinfo shows drained instead of inval: {_RESUME}"
_RETURNS = f"the node returns to service automatically; if sinfo still shows it as down: {_RESUME}"


def matching_reasons(reason: str) -> list[DrainReason]:
    """Return the entries that match part of a node's reason."""
    return [each for each in DRAIN_REASONS if any(text.lower() in reason.lower() for text in each.texts)]


def drain_remedy(node: str, reason: str) -> str:
    """Return cause and commands for a reason that Slurm set, or '' for any other reason."""
    found = matching_reasons(reason)
    steps = [f"{each.cause}: {'; '.join(each.steps)}" for each in found]
    end = f"then {_RESUME}"
    if any(each.invalid for each in found):
        end = _INVALID
    elif found and all(each.returns for each in found):
        end = _RETURNS
    return "; ".join([*steps, end]).replace("{node}", node) if found else ""
