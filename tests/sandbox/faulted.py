"""Faults of a running cluster: injected, reported by one run and healed by the next, without loss of data or jobs."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
import time
from typing import TYPE_CHECKING

from conftest import recap
from fault_results import note
from test_slurm_jobs import submit, wait_for_state
from test_slurm_life import job_facts

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence

    from conftest import Cluster

__all__ = ["BEGUN", "HOLD", "REAL", "Fault", "Work", "are_said", "break_all", "instead", "is_said", "mend_all"]
__all__ += ["prove", "prove_rest", "prove_told", "provision", "see_sound", "words"]

# Precedes the system's programs in PATH, also for sudo.
FRONT, BEGUN = "/usr/local/sbin", "/run/fault.begun"
# In `instead`: wait there until the test ends; and run the real program.
HOLD = f"echo $$ >{BEGUN}; exec sleep 300"
REAL = '"$real" "$@"'
TICKS = "/shared/home/alice/faults.ticks"
TICK = f"while date +%s >> {TICKS}; do sleep 1; done"
# Much longer than a tick, since a shared machine may pause for a while.
LARGEST_GAP_S = 30


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault with its expected report and remedy.

    Attributes:
        name: name in the table.
        says: expected message, with `…` for variable parts; it names host and cause.
        heals: the admin's remedy before the next run, for the table.
        node: affected node.
        breaks: command that injects the fault, as root of the node.
        mends: command by which the admin repairs what no run can repair.
        run: the admin's run during the fault.
        sound: command that succeeds on the node once the fault is healed.
        again: run after the repair, to heal the consequences; empty if nothing was changed.
        limit_s: maximum time until the run reports the fault.
    """

    name: str
    says: str
    heals: str
    node: str
    breaks: str
    mends: str = ""
    run: tuple[str, ...] = ()
    sound: str = "true"
    again: tuple[str, ...] = ()
    limit_s: float = 300


class Work:
    """State of a cluster in use: running and waiting jobs, accounts, files, secrets."""

    def __init__(self, sandbox: Cluster) -> None:
        """Start a job on gpu1 that writes continuously, and a held job."""
        self.sandbox = sandbox
        sandbox.wait_idle()
        sandbox.exec("login", f"rm -f {TICKS}", user="alice")
        self.running = submit(sandbox, "-w gpu1 --mem=64 -c1 -o /dev/null", TICK)
        self.held = submit(sandbox, "--hold --mem=64 -o /dev/null", "true")
        wait_for_state(sandbox, self.running, "RUNNING")
        self.began = job_facts(sandbox, self.running)
        self.former = self.lasting()

    def lasting(self) -> tuple[str, str]:
        """Return what no fault may change: Slurm's accounts, and the secrets of the provisioning host."""
        accounts = self.sandbox.exec("ctl", "sacctmgr -nP show assoc format=cluster,account,user,qos").stdout
        digest = hashlib.sha256()
        for path in sorted((self.sandbox.state / "secrets").rglob("*")):
            # Excludes files in which renewed host certificates are recorded.
            if path.is_file() and path.suffix != ".json" and path.name != "known_hosts":
                digest.update(f"{path.name} ".encode() + path.read_bytes())
        return accounts, digest.hexdigest()

    def is_whole(self) -> None:
        """Check that nothing is lost and the job wrote without a gap."""
        answers = self.sandbox.exec("ctl", "scontrol ping", check=False).stdout
        assert "is UP" in answers, answers
        assert job_facts(self.sandbox, self.running) == self.began
        assert job_facts(self.sandbox, self.held)[0] == "PENDING"
        assert self.lasting() == self.former
        listed = self.sandbox.exec("ctl", f"sacct -nX -j {self.running},{self.held} -o jobid").stdout.split()
        assert sorted(listed) == sorted([self.running, self.held])
        ticks = [int(line) for line in self.sandbox.exec("gpu1", f"cat {TICKS}").stdout.split()]
        gaps = [after - before for before, after in zip(ticks, [*ticks[1:], int(time.time())], strict=True)]
        assert max(gaps) < LARGEST_GAP_S

    def end(self) -> None:
        """Cancel the jobs."""
        self.sandbox.exec("ctl", f"scancel {self.running} {self.held}", check=False)
        self.sandbox.exec("login", f"rm -f {TICKS}", user="alice", check=False)
        self.sandbox.wait_idle(120)


def words(text: str) -> str:
    """Return a text with whitespace collapsed."""
    return " ".join(text.split())


def is_said(says: str, output: str) -> bool:
    """Return whether an output contains the parts of a message in order."""
    return re.search(".*?".join(map(re.escape, words(says).split("…"))), words(output)) is not None


def provision(sandbox: Cluster, *run: str) -> subprocess.CompletedProcess[str]:
    """Provision the sandbox."""
    return sandbox.busbar("provision", "-i", str(sandbox.inventory), *run)


def prove(sandbox: Cluster, work: Work, fault: Fault) -> None:
    """Check that a run reports a fault, that nothing is lost, and that the next run heals the consequences."""
    try:
        sandbox.exec(fault.node, fault.breaks, timeout=300)
        began = time.monotonic()
        done = provision(sandbox, *fault.run)
        told_s = time.monotonic() - began
        output = done.stdout + done.stderr
        assert done.returncode != 0, output
        assert is_said(fault.says, output), output
        assert "Traceback" not in output, output
        assert told_s < fault.limit_s
    finally:
        sandbox.exec(fault.node, fault.mends, timeout=300)
    measured = {"told_s": round(told_s)}
    if fault.again:
        began = time.monotonic()
        healed = provision(sandbox, *fault.again)
        assert healed.returncode == 0, healed.stdout + healed.stderr
        measured["healed_s"] = round(time.monotonic() - began)
    work.is_whole()
    note("runs", fault.name, measured)


def break_all(sandbox: Cluster, faults: Sequence[Fault]) -> None:
    """Inject several independent faults."""
    for fault in faults:
        assert sandbox.exec(fault.node, fault.sound, check=False, timeout=300).returncode == 0, f"before {fault.name}"
        sandbox.exec(fault.node, fault.breaks, timeout=300)


def mend_all(sandbox: Cluster, faults: Sequence[Fault]) -> None:
    """Repair what no run can repair."""
    for fault in faults:
        if fault.mends:
            sandbox.exec(fault.node, fault.mends, timeout=300)


def are_said(faults: Sequence[Fault], output: str) -> None:
    """Check that an output reports each fault."""
    silent = [f"{fault.name}: {fault.says}" for fault in faults if not is_said(fault.says, output)]
    assert not silent, "\n".join([*silent, output])


def see_sound(sandbox: Cluster, faults: Sequence[Fault]) -> None:
    """Check that no fault is left."""
    left = [
        fault.name
        for fault in faults
        if sandbox.exec(fault.node, fault.sound, check=False, timeout=300).returncode != 0
    ]
    assert not left


def prove_told(sandbox: Cluster, work: Work, faults: Sequence[Fault], *run: str) -> dict[str, float]:
    """Check that one run reports several faults before it changes anything; return its duration by fault."""
    try:
        break_all(sandbox, faults)
        began = time.monotonic()
        done = provision(sandbox, *run)
        told_s = time.monotonic() - began
    finally:
        mend_all(sandbox, faults)
    output = done.stdout + done.stderr
    assert done.returncode == 2, output
    are_said(faults, output)
    assert "Traceback" not in output, output
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, output
    assert told_s < max(fault.limit_s for fault in faults)
    see_sound(sandbox, faults)
    work.is_whole()
    return {fault.name: told_s for fault in faults}


def prove_rest(sandbox: Cluster, *run: str) -> None:
    """Check that a run changes nothing once all faults are healed."""
    again = provision(sandbox, *run)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}, again.stdout


@contextlib.contextmanager
def instead(sandbox: Cluster, program: str, argument: str, does: str) -> Iterator[None]:
    """Replace a program on the controller for its first call with an argument."""
    script = (
        "#!/bin/sh\n"
        f"real=$(PATH=/usr/sbin:/usr/bin command -v {program})\n"
        f'case "$1" in {argument}) ;; *) exec "$real" "$@";; esac\n'
        f"rm -f {FRONT}/{program}\n{does}\n"
    )
    sandbox.exec("ctl", f"rm -f {BEGUN}; cat >{FRONT}/{program} <<'END'\n{script}END\nchmod +x {FRONT}/{program}")
    try:
        yield
    finally:
        ends = f"rm -f {FRONT}/{program}; [ ! -e {BEGUN} ] || kill $(cat {BEGUN}); rm -f {BEGUN}"
        sandbox.exec("ctl", ends, check=False)
