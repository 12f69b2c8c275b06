"""One node of Slurm seen from itself: its state, its jobs, taken out of service and given back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    # Runs a program and returns its exit status, what it said and its errors; the status is None when it is missing.
    Run = Callable[[list[str]], tuple[int | None, str, str]]

__all__ = ["HOLDING_STATES", "SlurmNode", "gres_of", "node_fields"]

# Jobs that hold the node, also while a prolog or epilog runs.
HOLDING_STATES = "RUNNING,COMPLETING,SUSPENDED,CONFIGURING,STAGE_OUT,SIGNALING,STOPPED"
_FIELD = re.compile(r"(?:^|\s)(State|Gres|Reason)=(.*?)(?=\s+\w+=|$)", re.MULTILINE)


def node_fields(text: str) -> dict[str, str]:
    """Return State, Gres and Reason of what `scontrol show node` printed; a reason without who gave it and when."""
    fields = {key: value.strip() for key, value in _FIELD.findall(text)}
    fields["Reason"] = re.sub(r"\s*\[[^\]]*\]$", "", fields.get("Reason", ""))
    return fields


def gres_of(text: str) -> dict[str, int]:
    """Return the GPUs of a Gres such as 'gpu:1g.5gb:7(S:0),gpu:a100:1' by type."""
    found: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, _, rest = item.partition(":")
        kind, _, count = rest.rpartition(":")
        if name == "gpu" and count.isdigit():
            found[kind] = found.get(kind, 0) + int(count)
    return found


class SlurmNode:
    """A node, asked and changed by scontrol and squeue from the node itself."""

    def __init__(self, name: str, reason: str, run: Run) -> None:
        """Keep the node's name and the reason by which a drain of ours is known."""
        self.name, self.reason, self._run = name, reason, run

    def fields(self) -> dict[str, str] | None:
        """Return State, Gres and Reason; None when Slurm is not here or does not know the node.

        Raises:
            RuntimeError: the controller does not answer, so that nobody knows of jobs.
        """
        status, out, err = self._run(["scontrol", "show", "node", self.name])
        if status == 0:
            return node_fields(out)
        said = f"{out} {err}".lower()
        if status is None or "not found" in said or "could not establish a configuration source" in said:
            return None
        message = f"Slurm does not answer, so nobody knows whether jobs run here: {' '.join(said.split())[:300]}"
        raise RuntimeError(message)

    def is_ours(self, fields: dict[str, str]) -> bool:
        """Return whether it was this role that took the node out of service."""
        return "DRAIN" in fields["State"] and fields["Reason"].startswith(self.reason)

    def jobs(self) -> list[str]:
        """Return the jobs that hold the node.

        Raises:
            RuntimeError: the controller does not answer.
        """
        return self._said(["squeue", "-h", "-w", self.name, "-t", HOLDING_STATES, "-o", "%A"]).split()

    def drain(self) -> None:
        """Let no further job start here."""
        self._said(["scontrol", "update", f"nodename={self.name}", "state=drain", f"reason={self.reason}"])

    def resume(self) -> None:
        """Give the node back."""
        self._said(["scontrol", "update", f"nodename={self.name}", "state=resume"])

    def _said(self, words: list[str]) -> str:
        status, out, err = self._run(words)
        if status != 0:
            message = f"`{' '.join(words)}` failed: {' '.join(f'{err} {out}'.split())[:300]}"
            raise RuntimeError(message)
        return out
