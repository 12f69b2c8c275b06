"""Runs the tests of a validation as job steps of one allocation, submitted by an unprivileged user."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.nodes_and_jobs import CUT, CUT_BY_LIMIT
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import bounded_lines, condensed
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.cluster_access import TOO_LONG

from busbar.prove.slurm import ask, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.cluster_access import Output
    from ansible_collections.busbar.cluster.plugins.plugin_utils.interruption import Interruption

    from busbar.prove.slurm import Allocation

_MAX_OUTPUT_BYTES = 1 << 30
_MAX_TEXT_BYTES = 1 << 26
_TEST_MARK = "# busbar test: "
_POLL_S = 0.2
_KILL_S = 15
_STATE_KEYS = ("state", "reason", "exit_code", "batch_host", "seconds", "problem", "over", "started_at")
# srun takes the nodes of a nested job step only from -w (job_step_create_allocation in srun_job.c), but the counts of
# the outer job step from the environment.
_PREAMBLE = """\
exec 2>&1 </dev/null
for name in "${{!SLURM_@}}" "${{!PMI_@}}" "${{!PMIX_@}}"; do
  case "$name" in SLURM_CONF | SLURM_CLUSTERS | SLURM_STEPMGR) ;; *) unset "$name" ;; esac
done
{exports}
{setup}
busbar_step=(srun --nodelist={nodes} --job-name={name})
srun() {{ command "${{busbar_step[@]}}" "$@"; }}
timeout() {{
  if [ "$2" = srun ]; then command timeout "$1" "${{busbar_step[@]}}" "${{@:3}}"; else command timeout "$@"; fi
}}
"""


def script_of(job: str, test: dict[str, Any], nodes: list[str], setup: str = "") -> str:
    """Return the batch script of a test, adapted to run in a job step on the first node of the test.

    Args:
        job: job ID of the allocation.
        test: with name, script and sbatch arguments.
        nodes: nodes of the test.
        setup: commands before the script, such as one that loads a module.
    """
    options = dict(word[2:].split("=", 1) for word in test["arguments"] if word.startswith("--") and "=" in word)
    ranks, folded, count = options.get("ntasks-per-node", "1"), fold_for_slurm(nodes), str(len(nodes))
    variables = {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), count),
        **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), folded),
        "SLURM_JOB_NAME": f"busbar-{test['name']}",
        "SLURM_NTASKS_PER_NODE": ranks,
        "SLURM_TASKS_PER_NODE": ranks if len(nodes) == 1 else f"{ranks}(x{count})",
        "SLURM_OVERLAP": "1",
        "SLURM_MEM_PER_NODE": "0",
        **({"SLURM_GPUS_PER_NODE": options["gpus-per-node"]} if "gpus-per-node" in options else {}),
    }
    exports = "\n".join(f"export {key}={shlex.quote(value)}" for key, value in variables.items())
    name = shlex.quote(f"busbar-{test['name']}")
    preamble = _PREAMBLE.format(exports=exports, setup=setup, nodes=shlex.quote(folded), name=name)
    return f"{preamble}{test['script']}"


class Step:
    """The job step of a test, which runs or waits until the nodes of the test are free."""

    def __init__(self, entry: dict[str, Any], command: list[str], output: Path) -> None:
        """Store the result entry of the test, the srun command and the output file."""
        self.entry, self.command, self.output = entry, command, output
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = output.with_suffix(".err")

    def start(self) -> None:
        """Start the step in a new session, so that Ctrl-C in this terminal does not reach it."""
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=clean_environment(),
                start_new_session=True,
            )
        self.entry.update(state="RUNNING", started_at=time.monotonic(), batch_host=self.entry["nodes"][0])

    def end(self) -> None:
        """Terminate srun, whose tasks have been cancelled."""
        if self.process is None or self.process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_KILL_S)
                return

    def take_errors(self) -> str:
        """Return the error messages of srun and delete their file."""
        with contextlib.suppress(OSError):
            words = " ".join(self.errors.read_text(encoding="utf-8", errors="replace").split())
            self.errors.unlink()
            return words
        return ""


class LocalTransport:
    """Runs tests as steps of one allocation."""

    def __init__(  # noqa: PLR0913 - callbacks and settings
        self,
        allocation: Allocation,
        folder: Path,
        say: Callable[[str], None],
        interruption: Interruption,
        *,
        lost: dict[str, str] | None = None,
        setup: str = "",
    ) -> None:
        """Store the allocation and the callbacks.

        Args:
            allocation: the running allocation.
            folder: folder of the report and the outputs.
            say: prints a line.
            interruption: handler of the signals that stop the validation.
            lost: requested nodes that are not in the allocation, each with the reason.
            setup: commands before each script.
        """
        self.allocation, self.lost = allocation, lost or {}
        self.controller, self.share, self.home = "Slurm", False, str(Path.home())
        self.interruption = interruption
        self._folder, self._say, self._setup = folder, say, setup
        self._steps: dict[str, Step] = {}

    def request(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Start, monitor or cancel steps, with the interface of the slurm_tests module."""
        ways = {"submitted": self._submit, "followed": self._follow, "cancelled": self._cancel}
        entries = ways[arguments.get("state", "submitted")](arguments)
        return {"tests": entries, "waits_for": {}, "answered": True, "node_reasons": []}

    def _submit(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        entries = [self._entry(test, arguments) for test in arguments["tests"]]
        self._start_waiting()
        return [dict(entry) for entry in entries]

    def _entry(self, test: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        job, here = self.allocation.job, set(self.allocation.nodes)
        nodes = [node for node in test["nodes"] if node in here]
        absent = f"not allocated to job {job}"
        left_out = {node: self.lost.get(node, absent) for node in test["nodes"] if node not in here}
        entry: dict[str, Any] = {
            "name": test["name"],
            "nodes": nodes,
            "partners": [],
            "left_out": left_out,
            **{key: {} for key in ("held", "held_by", "busy")},
            **dict.fromkeys(("job_id", "state", "reason", "exit_code", "batch_host", "problem"), ""),
            "seconds": 0.0,
            "submitted_at": time.monotonic(),
            "started_at": 0.0,
            "over": True,
        }
        if len(nodes) < max(1, test["minimum"]):
            why = "".join(f"; {node}: {reason}" for node, reason in sorted(left_out.items())[:8])
            entry["problem"] = f"{len(nodes)} usable node(s), {test['minimum']} needed{why}"
            return entry
        entry |= {"job_id": job, "state": "PENDING", "over": False}
        longest = arguments["time_limit"] + 59
        minutes = math.ceil(min(longest, longest if arguments["left"] is None else arguments["left"]) / 60)
        gpus = next((word for word in test["arguments"] if word.startswith("--gpus-per-node=")), None)
        command = [
            *("srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={nodes[0]}", "--mem=0"),
            *("--mpi=none", "--cpu-bind=none", "--input=none", "--chdir=/", f"--job-name=busbar-{test['name']}"),
            *(f"--time={minutes}", *([gpus] if gpus else [])),
            *("bash", *(["-l"] if self._setup else []), "-c", script_of(job, test, nodes, self._setup)),
        ]
        self._steps[test["name"]] = Step(entry, command, self._folder / f"{test['name']}.out")
        return entry

    def _start_waiting(self) -> None:
        """Start the steps whose nodes are free."""
        busy = {node for step in self._unfinished() if step.process is not None for node in step.entry["nodes"]}
        for step in self._unfinished():
            if step.process is None and busy.isdisjoint(step.entry["nodes"]):
                try:
                    with self.interruption.uninterrupted():
                        step.start()
                except OSError as exc:
                    step.entry.update(over=True, problem=f"{step.output}: {exc.strerror or exc}")
                busy.update(step.entry["nodes"])

    def _unfinished(self) -> list[Step]:
        return [step for step in self._steps.values() if not step.entry["over"]]

    def _follow(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        names = [job["name"] for job in arguments["jobs"]]
        begun = time.monotonic()
        while True:
            elapsed = time.monotonic() - begun
            for name in names:
                self._update(self._steps[name], arguments, elapsed)
            self._start_waiting()
            entries = [self._steps[name].entry for name in names]
            if elapsed >= arguments["patience"] or all(entry["over"] for entry in entries):
                return [{"name": entry["name"], **{key: entry[key] for key in _STATE_KEYS}} for entry in entries]
            time.sleep(_POLL_S)

    def _update(self, step: Step, arguments: dict[str, Any], elapsed: float) -> None:
        """Record the state of a job step, and cancel the job step if it exceeds a limit."""
        entry, process = step.entry, step.process
        if entry["over"]:
            return
        entry["seconds"] = round(time.monotonic() - entry["started_at"], 1) if process else 0.0
        code = None if process is None else process.poll()
        if code is not None:
            entry.update(
                over=True, state="FAILED" if code else "COMPLETED", exit_code=f"{max(code, 0)}:{max(-code, 0)}"
            )
            errors = step.take_errors()
            if code:
                entry["problem"] = self._problem(errors, empty=not step.output.stat().st_size)
        elif why := self._exceeded_limit(step, arguments, elapsed):
            self._end([step])
            entry.update(over=True, problem=why)

    def _problem(self, errors: str, *, empty: bool) -> str:
        """Return why a job step has no result, or an empty string if the test program failed."""
        if end := self.allocation.end():
            return f"{CUT}allocation {self.allocation.job} ended ({end})"
        if re.search(r"[Nn]ode failure|NODE FAIL", errors):
            return f"the step ended as NODE_FAIL: {errors[:300]}"
        # Without output, srun did not start the script.
        return f"srun could not start the job step: {errors[:300] or 'no error message'}" if empty else ""

    def _exceeded_limit(self, step: Step, arguments: dict[str, Any], elapsed: float) -> str:
        """Return the limit of time or output that a job step exceeds, or an empty string."""
        entry, limit, left = step.entry, arguments["time_limit"], arguments["left"]
        if left is not None and elapsed >= left:
            return CUT_BY_LIMIT if entry["started_at"] else f"{CUT_BY_LIMIT}, and the job had not begun"
        if step.process is None:
            return ""
        if entry["seconds"] > limit:
            return f"did not finish within {limit} s and was cancelled"
        return f"{TOO_LONG}1G" if step.output.stat().st_size > _MAX_OUTPUT_BYTES else ""

    def _cancel(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        steps = [self._steps[job["name"]] for job in arguments["jobs"] if job["name"] in self._steps]
        self._end(steps)
        for step in steps:
            step.entry["over"] = True
        return [{"name": step.entry["name"], "batch_host": step.entry["batch_host"]} for step in steps]

    def _end(self, steps: Iterable[Step]) -> None:
        """Cancel the steps of tests, including steps that their scripts started."""
        running = [step for step in steps if step.process is not None and step.process.poll() is None]
        numbers = self.allocation.steps(f"busbar-{step.entry['name']}" for step in running) if running else []
        if numbers:
            ask("scancel", "--signal=KILL", *numbers)
        for step in running:
            step.end()
            step.take_errors()

    def close(self) -> None:
        """Cancel all running steps."""
        self._end(self._steps.values())
        if numbers := self.allocation.steps():
            ask("scancel", "--signal=KILL", *numbers)

    def fetch(self, outputs: list[Output], seconds: float) -> dict[str, str]:
        """Return an empty string for each output that exists, and a reason for each missing output, by name."""
        del seconds
        return {output.name: "" if (self._folder / output.name).is_file() else "was not written" for output in outputs}

    def launch_error(self, host: str, job_id: str) -> str:
        """Return an empty string, because only root can read slurmd's log."""
        del host, job_id
        return ""

    def read(self, name: str) -> str:
        """Return the text of an output without redundant NCCL lines."""
        with (self._folder / name).open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return condensed(bounded_lines(file), lambda line: line.startswith(_TEST_MARK), _MAX_TEXT_BYTES).rstrip(
                "\r\n"
            )

    def update_node(self, node: str, *words: str) -> str:
        """Return a message with the command, because only an admin can change nodes."""
        return f"only an admin may run: scontrol update nodename={node} {' '.join(words)}"

    def report_progress(self, line: str) -> None:
        """Show a line immediately."""
        self._say(printable(" ".join(line.split())))

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Return a context manager that defers an interruption until it exits."""
        return self.interruption.uninterrupted()
