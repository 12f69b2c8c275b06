"""The health check of a node, run by slurmd as HealthCheckProgram, by a prolog, or by an admin.

It queries Slurm only if a finding drains the node, or if its state file says that it drained the node. As
HealthCheckProgram it always exits with 0: newer releases of slurmd do not register a node whose check fails, and an
unhealthy node must stay reachable for its running jobs. With `--look` it prints the findings, changes nothing, and
exits with 1 if a finding would drain the node; `--look --json` prints a list. With `--prolog` it runs only the quick
checks, does not query Slurm, and exits with 1 on a finding.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import syslog
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts import PATHS, read, run_limited
from ansible_collections.busbar.cluster.plugins.module_utils.health.check_history import NAME, append, entries, keys_of
from ansible_collections.busbar.cluster.plugins.module_utils.health.check_runner import answers
from ansible_collections.busbar.cluster.plugins.module_utils.health.check_state import (
    read_state,
    reset_by_admin,
    with_answers,
    write_state,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.drain_policy import drain_reason
from ansible_collections.busbar.cluster.plugins.module_utils.health.drain_resume import drain_or_resume
from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import (
    Answer,
    Finding,
    Node,
    with_severities,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.metrics import metrics
from ansible_collections.busbar.cluster.plugins.module_utils.health.network_check import HOUR_S
from ansible_collections.busbar.cluster.plugins.module_utils.health.node_checks import checks_of, timed_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path("/")
# Slurm kills the program after 60 s, which includes all its queries.
SCONTROL_TIMEOUT_S = 8
# A prolog has 5 s in total, including the start of the program.
PROLOG_S = 4.0
# Maximum time to wait for another run on this node; wait and checks together must take less than Slurm's 60 s.
LOCK_WAIT_S = 10.0


class Run:
    """One run of the checks on the node."""

    def __init__(self, declared: Mapping[str, Any], root: Path) -> None:
        """Read the state of earlier runs."""
        self.declared, self.folder, self.began = declared, Path(str(declared["folder"])), time.time()
        self.state = read_state(self.folder / "state.json", read(root / "proc/sys/kernel/random/boot_id"))
        self.node = Node(declared, root, self.began, self.state.samples, self.state.log_since)
        self.answers: dict[str, Answer] = {}

    def look(self, *, quick: bool = False) -> list[Finding]:
        """Return the findings, most severe first; `quick` runs only the checks of a prolog."""
        checks = {name: each for name, each in checks_of(self.node).items() if each.quick or not quick}
        limits = {name: min(each.limit_s, PROLOG_S) if quick else each.limit_s for name, each in checks.items()}
        results = answers({name: (each.ask, limits[name]) for name, each in checks.items()})
        self.answers = {name: answer or timed_out(name, limits[name]) for name, answer in results.items()}
        window_s = max(float(self.declared["limits"]["link_flaps_hours"]), 1.0) * HOUR_S
        self.state = with_answers(self.state, self.answers, self.began, window_s)
        found = [each for name in checks for each in self.answers[name].findings]
        events = () if quick else self.state.events
        return with_severities([*found, *events], self.declared.get("severities") or {})

    def draining(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings that drain the node."""
        return [each for each in findings if each.severity in self.declared["drain"]]

    def unknown(self) -> dict[str, str]:
        """Return the checks that gave no result, with the reason."""
        return {name: each.unknown for name, each in self.answers.items() if each.unknown}

    def finish(self, findings: Sequence[Finding], done: str, passes: int) -> None:
        """Write the state, the history and the metrics for the node exporter."""
        reason = drain_reason([each.problem for each in self.draining(findings)]) if findings else ""
        before, booted, whole = self.state.last_findings, self.state.rebooted, not self.unknown()
        new = entries(before, findings, done, reason=reason, booted=booted, whole=whole, now=self.began)
        ignore_write_errors(lambda: append(self.folder / NAME, new))
        last_findings = {} if whole else dict(before)
        last_findings |= {key: each.problem for key, each in keys_of(findings).items()}
        state = self.state._replace(passes=passes, last_findings=last_findings, rebooted=False)
        if done in {"given_back", "leave"}:
            state = reset_by_admin(state)
        ignore_write_errors(lambda: write_state(self.folder / "state.json", state))
        place = Path(str(self.declared.get("metrics") or ""))
        if place.is_dir() and place.name:
            ended = time.time()
            text = metrics(
                findings,
                self.unknown(),
                ended=ended,
                took_s=ended - self.began,
                interval_s=int(self.declared["interval_s"]),
                withheld=done == "withheld",
            )
            ignore_write_errors(lambda: _replace(place / "busbar_node_health.prom", text))


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o644)
    temporary.replace(path)


def ignore_write_errors(what: Any) -> None:  # noqa: ANN401 - a function
    """Call a function that writes a file, and only print an OSError, because a full disk must not prevent a drain."""
    try:
        what()
    except OSError as exc:
        say(f"the health check cannot write its files: {exc}", aside=True)


def scontrol(words: Sequence[str]) -> str:
    """Return the output of scontrol.

    Raises:
        OSError: scontrol is missing, timed out or failed.
    """
    os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH"), *PATHS]))
    status, text = run_limited(["scontrol", *words], SCONTROL_TIMEOUT_S)
    if status != 0:
        message = f"scontrol {' '.join(words)} {'does not answer' if status is None else 'fails'}: {text.strip()[:300]}"
        raise OSError(message)
    return text


def say(text: object, *, aside: bool = False) -> None:
    """Print a line; slurmd logs both streams if the program fails."""
    (sys.stderr if aside else sys.stdout).write(f"{text}\n")


@contextlib.contextmanager
def node_lock(folder: Path, patience_s: float = LOCK_WAIT_S) -> Iterator[bool]:
    """Take this node's lock and yield whether it was acquired: concurrent runs would overwrite each other's state.

    A full disk must not prevent a drain, so the run continues without a lock if the file cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("a", encoding="utf-8")
    except OSError:
        yield True
        return
    with file:
        end = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    yield False
                    return
                time.sleep(0.1)
            else:
                yield True
                return


def main(arguments: Sequence[str], settings: Path, root: Path = ROOT) -> int:
    """Run the program and return the exit status.

    Args:
        arguments: the command line.
        settings: the file with the expected state of this node.
        root: the folder that contains proc/, sys/ and dev/.
    """
    try:
        declared = json.loads(settings.read_text(encoding="utf-8"))
        if {"--look", "--prolog"} & set(arguments):
            return run(arguments, Run(declared, root))
        with node_lock(Path(str(declared["folder"]))) as first:
            if first:
                return run(arguments, Run(declared, root))
            say("another health check of this node is running", aside=True)
            return 0
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as exc:
        say(f"the health of this node is unknown: {exc}", aside=True)
        return 1 if "--look" in arguments else 0


def run(arguments: Sequence[str], here: Run) -> int:
    """Check the node and print the findings; without `--look` and `--prolog` drain or resume it; return the status."""
    findings = here.look(quick="--prolog" in arguments)
    draining = here.draining(findings)
    if "--json" in arguments:
        say(json.dumps({"findings": [each._asdict() for each in findings], "unknown": here.unknown()}))
    else:
        for each in findings:
            mark = "" if each in draining else f" ({each.severity})"
            say(f"{each.problem}{mark}")
        for name, why in here.unknown().items():
            say(f"{name}: {why}", aside=True)
    if "--look" in arguments or "--prolog" in arguments:
        return 1 if draining else 0
    passes = 0 if draining else here.state.passes + 1
    done = "failed"
    try:
        done = drain_or_resume(draining, here.declared, scontrol, here.folder / "drained", passes)
    finally:
        here.finish(findings, done, passes)
    journal(done, draining)
    return 0


def journal(done: str, draining: Sequence[Finding]) -> None:
    """Log the action on the node to the journal."""
    reason = drain_reason([each.problem for each in draining])
    words = {
        "drain": f"drained: {reason}",
        "resume": "resumed: all checks pass again",
        "withheld": f"not drained because too many nodes are drained already: {reason}",
        "given_back": f"an admin resumed the node, but the problem persists: {reason}",
    }
    if done in words:
        syslog.openlog("busbar-health")
        syslog.syslog(syslog.LOG_WARNING, words[done])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(sys.argv[0]).resolve().with_suffix(".json")))
