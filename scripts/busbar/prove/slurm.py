"""Runs Slurm commands on this host, and submits, monitors and cancels the allocation for a validation."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.hostlist import expand_hosts
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.local_node import gres_of
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.nodes_and_jobs import (
    is_over,
    parse_job,
    parse_nodes,
    unusable_reason,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm, unfold_hosts

from busbar.errors import UsageError
from busbar.prove.limits import exceeded_limits, never_starts, remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JOB_NAME = "busbar-prove"
_COMMAND_TIMEOUT_S = 30
_POLL_S = 2.0
_NOT_FOUND = 127
_UNKNOWN = "UNKNOWN"
_PROGRAMS = ("sbatch", "srun", "scancel", "squeue", "sinfo", "scontrol")


class NotStarted(Exception):  # noqa: N818 - an outcome, not an error
    """The job did not start; the message contains the reason."""


class Request(NamedTuple):
    """A resource request; empty values select Slurm's defaults."""

    partition: str = ""
    nodes: int = 0
    nodelist: tuple[str, ...] = ()
    exclude: str = ""
    account: str = ""
    qos: str = ""
    time: str = ""
    gpus: int = 0


def clean_environment() -> dict[str, str]:
    """Return the environment without srun options, such as those of an outer salloc."""
    kept = {"SLURM_CONF", "SLURM_CLUSTERS"}
    return {key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key in kept}


def ask(*command: str, data: str | None = None, limit: float = _COMMAND_TIMEOUT_S) -> tuple[int, str, str]:
    """Run a Slurm command and return its exit code, output and error; the error is one line."""
    code, out, err = ask_lines(*command, data=data, limit=limit)
    return code, out, " ".join(err.split())


def ask_lines(*command: str, data: str | None = None, limit: float = _COMMAND_TIMEOUT_S) -> tuple[int, str, str]:
    """Run a Slurm command and return its exit code, output and error."""
    try:
        done = subprocess.run(
            command,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
            env=clean_environment(),
            # Ctrl-C must reach only busbar, which may be waiting for a job ID.
            start_new_session=True,
        )
    except FileNotFoundError:
        return _NOT_FOUND, "", f"{command[0]}: command not found"
    except subprocess.TimeoutExpired:
        return 124, "", f"{command[0]} did not finish within {limit:g} s"
    return done.returncode, done.stdout, done.stderr


def usable_nodes(request: Request, backend: str) -> tuple[Request, dict[str, str]]:
    """Return the request completed with properties of its partition, and the unavailable nodes with the reason.

    Raises:
        UsageError: Slurm is not installed here, or the partition, node or GPU does not exist.
    """
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        message = f"{', '.join(missing)} not found in PATH: run busbar prove on a login node of Slurm"
        raise UsageError(message)
    code, out, err = ask("sinfo", "-h", "-o", "%P")
    if code:
        message = f"slurmctld does not answer: {err or code}; try again when `sinfo` works"
        raise UsageError(message)
    names = out.split()
    partition = request.partition or next((name[:-1] for name in names if name.endswith("*")), "")
    known = sorted({name.rstrip("*") for name in names})
    if partition not in known:
        problem = f"unknown partition {partition!r}" if partition else "Slurm has no default partition"
        # sinfo does not show partitions whose AllowGroups excludes the user.
        allow = "or ask the admin to add your group to AllowGroups of the partition"
        message = (
            f"--partition: {problem}; use one of {', '.join(known) or 'those of sinfo, which shows none'}, {allow}"
        )
        raise UsageError(message)
    _code, out, _err = ask("sinfo", "-h", "-N", "-p", partition, "-o", "%N|%T|%E")
    _code, gres, _err = ask("sinfo", "-h", "-N", "-p", partition, "-o", "%N|%G")
    states = parse_nodes(out)
    unknown = [node for node in request.nodelist if node not in states]
    if unknown:
        message = (
            f"--nodelist: {fold_for_slurm(unknown)} is not in partition {partition}: use nodes of "
            f"{fold_for_slurm(states)}"
        )
        raise UsageError(message)
    excluded = set(unfold_hosts(request.exclude))
    wanted = [node for node in (request.nodelist or states) if node not in excluded]
    lost = {node: why for node in request.nodelist if (why := unusable_reason(node, states, share=True))}
    lost |= dict.fromkeys(set(request.nodelist) & excluded, "not allocated: excluded by --exclude")
    counts = {node: sum(gres_of(text).values()) for node, _, text in (line.partition("|") for line in gres.split("\n"))}
    gpus = min((counts.get(node, 0) for node in wanted if counts.get(node)), default=0)
    if backend == "nccl" and not gpus:
        message = (
            f"partition {partition} has no GPUs in Slurm (GRES gpu): choose another with --partition, or test CPUs and "
            "network with --backend mpi"
        )
        raise UsageError(message)
    if not request.nodelist and request.nodes > len(wanted):
        left = " without those of --exclude" if excluded else ""
        message = (
            f"--nodes: {request.nodes} requested, but partition {partition} has {len(wanted)} node(s){left}: request "
            "fewer nodes, or use another --partition"
        )
        raise UsageError(message)
    usable = tuple(node for node in request.nodelist if node not in lost)
    if request.nodelist and not usable:
        message = (
            f"--nodelist: no node is available: {'; '.join(f'{node}: {why}' for node, why in sorted(lost.items()))}"
        )
        raise UsageError(message)
    return request._replace(partition=partition, nodelist=usable, gpus=gpus if backend == "nccl" else 0), lost


class Allocation:
    """The allocation for a validation.

    Attributes:
        job: its job ID.
        own: whether this program submitted it and therefore cancels it.
        nodes: its nodes, once it runs.
        gpus: number of GPUs on each node.
        ends: end time in seconds since 1970; None without a limit.
    """

    def __init__(self, job: str, *, own: bool) -> None:
        """Use an existing or a newly submitted job."""
        self.job, self.own = job, own
        self.nodes: list[str] = []
        self.gpus: dict[str, int] = {}
        self.ends: float | None = None

    @classmethod
    def submitted(cls, request: Request) -> Allocation:
        """Submit a job that allocates nodes and runs no program.

        Raises:
            UsageError: Slurm rejects the job.
        """
        count = len(request.nodelist) or request.nodes
        options = {
            "partition": request.partition,
            "nodes": str(count),
            "nodelist": ",".join(request.nodelist),
            "exclude": request.exclude,
            "account": request.account,
            "qos": request.qos,
            "time": request.time,
            "gpus-per-node": str(request.gpus or ""),
        }
        words = [f"--{key}={value}" for key, value in options.items() if value]
        fixed = ["--parsable", "--exclusive", "--mem=0", "--no-requeue", f"--job-name={JOB_NAME}", "--output=/dev/null"]
        script = "#!/bin/sh\n# The steps of busbar prove run in this allocation.\nexec sleep infinity\n"
        code, out, err = ask("sbatch", *fixed, "--chdir=/", *words, data=script)
        if code:
            advice = remedy(err)
            message = f"Slurm rejects the job ({' '.join(words)}): {err or code}{advice and '; '}{advice}"
            raise UsageError(message)
        return cls(out.strip().split(";")[0], own=True)

    def wait(self, seconds: float, say: Callable[[str], None]) -> None:
        """Wait until the job runs.

        Raises:
            NotStarted: the job did not start within that time, or ended before it started.
            UsageError: the job can never start.
        """
        until, shown = time.monotonic() + seconds, ""
        while True:
            state, reason, start = self._queue()
            if state == "RUNNING":
                self._read_resources()
                return
            if not state or is_over(state):
                message = f"job {self.job} ended before it ran: {state or 'the job is unknown to Slurm'}"
                raise NotStarted(message)
            if reason not in {shown, "None", ""}:
                shown = reason
                advice = remedy(reason)
                exceeded = self._exceeded(reason) if advice else []
                if never_starts(reason) or exceeded:
                    self.cancel()
                    message = f"Slurm does not start job {self.job}: {reason}; {remedy(reason, exceeded)}"
                    raise UsageError(message)
                expected = f", expected start {start}" if start not in {"", "N/A"} else ""
                say(f"job {self.job} is pending ({reason}{expected}){advice and ': '}{advice}")
            if time.monotonic() >= until:
                message = f"job {self.job} did not start within {seconds:.0f} s (--wait): {reason}"
                raise NotStarted(message)
            time.sleep(min(_POLL_S, max(0.1, until - time.monotonic())))

    def _queue(self) -> tuple[str, str, str]:
        code, out, err = ask("squeue", "-h", "-a", "-t", "all", "-j", self.job, "-o", "%T|%r|%S")
        if code and "nvalid job id" not in err:
            return _UNKNOWN, f"slurmctld does not answer: {err}", ""
        state, reason, start = [*out.strip().split("|", 2), "", "", ""][:3]
        return state, reason, start

    def _exceeded(self, reason: str) -> list[str]:
        """Return the limits that this job's request exceeds; limits that the user cannot read are omitted."""
        _code, out, _err = ask("scontrol", "-o", "show", "job", self.job)
        job = parse_job(out)
        _code, out, _err = ask("scontrol", "-o", "show", "partition", job.get("Partition", ""))
        qos = re.search(r"\bQoS=(\S+)", out)
        _code, out, _err = ask("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")
        return exceeded_limits(reason, job, qos[1] if qos else "", out)

    def _read_resources(self) -> None:
        """Read the nodes, GPUs and end time of the running job."""
        _code, out, _err = ask("scontrol", "-d", "-o", "show", "job", self.job)
        job = parse_job(out)
        self.nodes = expand_hosts(job.get("NodeList", ""))
        for names, gres in re.findall(r"\bNodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)", out):
            self.gpus |= dict.fromkeys(expand_hosts(names), sum(gres_of(gres).values()))
        with contextlib.suppress(ValueError, OverflowError):
            self.ends = time.mktime(time.strptime(job.get("EndTime", ""), "%Y-%m-%dT%H:%M:%S"))

    def end(self) -> str:
        """Return the final state of the job, or an empty string while it runs or if Slurm does not answer."""
        state = self._queue()[0]
        return "" if state in {"RUNNING", _UNKNOWN} else state or "unknown to Slurm"

    def cancel(self) -> bool:
        """Cancel the job if this program submitted it, and return whether that succeeded."""
        return not self.own or ask("scancel", self.job)[0] == 0

    def steps(self, names: Iterable[str] = ()) -> list[str]:
        """Return the IDs of the job steps with the given names, by default of all job steps of busbar."""
        wanted = set(names)
        _code, out, _err = ask("squeue", "-h", "-s", "-j", self.job, "-o", "%i|%j")
        found = [line.strip().split("|", 1) for line in out.splitlines() if "|" in line]
        return [step for step, name in found if (name in wanted if wanted else name.startswith("busbar-"))]
