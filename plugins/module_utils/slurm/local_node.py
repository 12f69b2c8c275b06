"""Run Slurm commands for a module; query, drain and resume the local node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    # Runs a program; returns exit status (None if the program is missing), output and errors.
    Run = Callable[[list[str]], tuple[int | None, str, str]]

__all__ = ["HOLDING_STATES", "SlurmNode", "ask_slurm", "gres_of", "node_fields"]

# States of jobs that use the node, including during prolog and epilog.
HOLDING_STATES = "RUNNING,COMPLETING,SUSPENDED,CONFIGURING,STAGE_OUT,SIGNALING,STOPPED"
_FIELD = re.compile(r"(?:^|\s)(State|Gres|Reason)=(.*?)(?=\s+\w+=|$)", re.MULTILINE)


def ask_slurm(module: Any, words: list[str]) -> str:  # noqa: ANN401 - Ansible has no types
    """Return the output of a Slurm command; fail the module if it fails."""
    code, out, err = module.run_command(words, environ_update={"LC_ALL": "C.UTF-8"})
    if code != 0:
        output = " ".join(f"{err} {out}".split())[:300]
        module.fail_json(msg=f"`{' '.join(words[:2])}` failed, so the jobs are unknown: {output}")
    return str(out)


def node_fields(text: str) -> dict[str, str]:
    """Return State, Gres and Reason (without user and time) from `scontrol show node`."""
    fields = {key: value.strip() for key, value in _FIELD.findall(text)}
    fields["Reason"] = re.sub(r"\s*\[[^\]]*\]$", "", fields.get("Reason", ""))
    return fields


def gres_of(text: str) -> dict[str, int]:
    """Return the number of GPUs by type from a Gres such as 'gpu:1g.5gb:7(S:0),gpu:a100:1'."""
    found: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, _, rest = item.partition(":")
        kind, _, count = rest.rpartition(":")
        if name == "gpu" and count.isdigit():
            found[kind] = found.get(kind, 0) + int(count)
    return found


class SlurmNode:
    """The local node, queried and changed with scontrol and squeue."""

    def __init__(self, name: str, reason: str, run: Run) -> None:
        """Store the node's name and the reason that identifies busbar's drains."""
        self.name, self.reason, self._run = name, reason, run

    def fields(self) -> dict[str, str] | None:
        """Return State, Gres and Reason; None if Slurm is not installed or has no such node.

        Raises:
            RuntimeError: the controller does not answer, so it is unknown whether the node has jobs.
        """
        status, out, err = self._run(["scontrol", "show", "node", self.name])
        if status == 0:
            return node_fields(out)
        output = f"{out} {err}".lower()
        if status is None or "not found" in output or "could not establish a configuration source" in output:
            return None
        message = f"Slurm does not answer, so the jobs of this node are unknown: {' '.join(output.split())[:300]}"
        raise RuntimeError(message)

    def is_ours(self, fields: dict[str, str]) -> bool:
        """Return whether busbar drained the node."""
        return "DRAIN" in fields["State"] and fields["Reason"].startswith(self.reason)

    def jobs(self) -> list[str]:
        """Return the ids of the jobs on the node.

        Raises:
            RuntimeError: the controller does not answer.
        """
        return self._output_of(["squeue", "-h", "-w", self.name, "-t", HOLDING_STATES, "-o", "%A"]).split()

    def drain(self) -> None:
        """Drain the node."""
        self._output_of(["scontrol", "update", f"nodename={self.name}", "state=drain", f"reason={self.reason}"])

    def resume(self) -> None:
        """Resume the node."""
        self._output_of(["scontrol", "update", f"nodename={self.name}", "state=resume"])

    def _output_of(self, words: list[str]) -> str:
        status, out, err = self._run(words)
        if status != 0:
            message = f"`{' '.join(words)}` failed: {' '.join(f'{err} {out}'.split())[:300]}"
            raise RuntimeError(message)
        return out
