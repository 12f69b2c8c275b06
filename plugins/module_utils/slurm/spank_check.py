"""Check that slurmd has loaded its SPANK plugins and that a job step runs with them.

slurmd loads the plugins in plugstack.conf when it starts or is reconfigured (man 8 spank); srun also loads them, but
most plugins read their arguments only in slurmstepd. So neither `srun --help` nor a running slurmd proves that they
work.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .busbar_drain_reasons import UPGRADE_REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Run = Callable[[list[str]], tuple[int, str, str]]

__all__ = [
    "Proof",
    "job_step",
    "not_loaded",
    "reload_slurmd",
    "resume_after_failure",
    "slurmd_pid",
    "state_of",
]

PROC = Path("/proc")
JOB_NAME = "busbar-spank"
RELOAD_S = 60
STEP_S = 60
# srun's errors for a failed allocation, which is not a plugin's fault.
_NOT_GRANTED = ("Unable to allocate resources", "Unable to create step", "allocation has been revoked")
_LEFT_BY_FAILURE = ("Epilog error", "Prolog error")


class Proof(NamedTuple):
    """Result of a job step.

    Attributes:
        fault: why it failed; '' if it succeeded.
        unproven: why it could not run; '' if it ran.
    """

    fault: str = ""
    unproven: str = ""


def slurmd_pid(run: Run) -> int:
    """Return the PID of slurmd, or 0 if it does not run."""
    status, out, _ = run(["systemctl", "show", "--property=MainPID", "--value", "slurmd"])
    return int(out) if status == 0 and out.strip().isdigit() else 0


def not_loaded(pid: int, libraries: Sequence[str]) -> list[str]:
    """Return the libraries that a process has not loaded; all of them if the process has exited."""
    try:
        maps = (PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return list(libraries)
    loaded = {line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split(maxsplit=5)) == 6}  # noqa: PLR2004
    return [library for library in libraries if library not in loaded]


def reload_slurmd(run: Run, libraries: Sequence[str]) -> str:
    """Reload slurmd; return an error, or '' once it has loaded all libraries."""
    status, _, err = run(["systemctl", "reload", "slurmd"])
    if status:
        return f"slurmd could not be reloaded: {err.strip()[-300:]}"
    end = time.monotonic() + RELOAD_S
    while missing := not_loaded(slurmd_pid(run), libraries):
        if time.monotonic() > end:
            return f"slurmd did not load {', '.join(missing)} within {RELOAD_S} s; see journalctl -u slurmd"
        time.sleep(0.5)
    return ""


def job_step(run: Run, node: str, before: str) -> Proof:
    """Run a job step as root on a node with a free core, and check its cleanup.

    Slurm starts no step on a drained node. Therefore a node that an upgrade drained is resumed in a reservation for
    root and drained again after the step.

    Args:
        run: runs a command.
        node: name of the node in Slurm.
        before: earlier result of `state_of`.
    """
    if not re.search(rf"State=\S*DRAIN.*Reason={re.escape(UPGRADE_REASON)}", before):
        return _step(run, node, before)
    name = f"busbar-spank-{node}"
    delete = ["scontrol", "delete", f"ReservationName={name}"]
    run(delete)  # A killed run may have left the reservation.
    words = [f"ReservationName={name}", f"Nodes={node}", "StartTime=now", "Duration=5", "Users=root"]
    status, out, err = run(["scontrol", "create", "reservation", *words, "Flags=maint,ignore_jobs"])
    if status:
        return Proof(unproven=f"could not create the reservation {name}: {(err or out).strip()[-300:]}")
    try:
        run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])
        return _step(run, node, before, f"--reservation={name}")
    finally:
        run(["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={UPGRADE_REASON}"])
        run(delete)


def _step(run: Run, node: str, before: str, *arguments: str) -> Proof:
    _, partitions, _ = run(["sinfo", "--noheader", f"--nodes={node}", "--format=%R"])
    if not partitions.split():
        return Proof(unproven="is in no partition")
    words = ["srun", "--quiet", f"--job-name={JOB_NAME}", f"--partition={partitions.split()[0]}", f"--nodelist={node}"]
    words += [*arguments, "--nodes=1", "--ntasks=1", "--mem=16", "--time=1", "--immediate=20", "true"]
    status, _, err = run(["timeout", str(STEP_S), *words])
    if status == 0:
        left = _left_by_step(run, node, before)
        return Proof(
            fault=f"a job step on {node} ran, but left {left!r}: see journalctl -u slurmd there" if left else ""
        )
    output = " | ".join(line.strip() for line in err.splitlines() if line.strip())[-500:]
    if any(words in err for words in _NOT_GRANTED):
        return Proof(unproven=f"could not run a job step: {output}")
    run(["scancel", f"--name={JOB_NAME}", f"--nodelist={node}"])
    timed_out = status == 124  # noqa: PLR2004 - timeout(1)
    outcome = f"did not finish within {STEP_S} s" if timed_out else f"exited with status {status}"
    return Proof(fault=f"a job step on {node} {outcome}: {output}")


def state_of(run: Run, node: str) -> str:
    """Return scontrol's line about a node; '' if the controller does not answer."""
    status, out, _ = run(["scontrol", "--oneliner", "show", "node", node])
    return out if status == 0 else ""


def _left_by_step(run: Run, node: str, before: str) -> str:
    """Wait for the cleanup of a job, which calls plugins; return the reason if it drained the node, or ''."""
    end = time.monotonic() + STEP_S
    while "COMPLETING" in (now := state_of(run, node)) and time.monotonic() < end:
        time.sleep(0.5)
    return next((words for words in _LEFT_BY_FAILURE if f"Reason={words}" in now and words not in before), "")


def resume_after_failure(run: Run, node: str, before: str) -> bool:
    """Resume a node if the failed job step drained it; return whether it was resumed."""
    now = state_of(run, node)
    drained = any(f"Reason={words}" in now and f"Reason={words}" not in before for words in _LEFT_BY_FAILURE)
    if not drained or "DRAIN" in before:
        return False
    return run(["scontrol", "update", f"nodename={node}", "state=resume"])[0] == 0
