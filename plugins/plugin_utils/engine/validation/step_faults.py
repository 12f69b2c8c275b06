# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Find out from a job's output why a step had no container, and which variables had another value in a program."""

from __future__ import annotations

import re

__all__ = ["changed_variable", "container_fault", "step_fault", "unconnected"]

# The format of slurm_error in slurmstepd (Slurm 24.11), with or without the prefix of srun --label. Pyxis 0.24 repeats
# the log of Enroot indented by four more spaces, after "printing enroot log file:" (common.c, memfd_print_log); the
# other messages are those of pyxis_slurmstepd.c.
_SAID = re.compile(
    r"^(?:\s*\d{1,6}: )?slurmstepd(?:-(?P<node>[\w.-]+))?: error: pyxis:(?P<log> {5})?\s*(?P<words>\S.*?)\s*$"
)
_ENROOT = re.compile(r"\[ERROR\]\s*(\S.*)")
_NO_REASON = re.compile(
    r"\[(INFO|WARN)\]|printing \w+ log file|(child \d+|container start) failed with error code"
    r"|container was not started successfully by another task"
)
_VARIABLE = re.compile(r"^(?:\s*\d{1,6}: )?# busbar variable: (?P<node>\S+) (?P<words>\w+ is .*, the job set .*)$")
# The first rank in the table of nccl-tests and of busbar_collectives.
_FIRST_RANK = re.compile(r"^#\s+Rank\s+0\s", re.MULTILINE)
_LONGEST = 300


def container_fault(text: str) -> str:
    """Return why a step had no container, with the node if known; empty if the output has no such message.

    Enroot's log is more precise than Pyxis: its first error is used, or else its first line. Of Pyxis, the first
    message counts; a message without a reason counts only if there is no other.
    """
    said = [match for line in text.splitlines() if "pyxis:" in line and (match := _SAID.match(line))]
    for match in said:
        if reason := _ENROOT.match(match["words"]):
            return _of_node(match["node"], f"container: {reason[1]}")
    reasons = [match for match in said if not _NO_REASON.match(match["words"])]
    # "printing … log file" alone does not report a fault.
    others = [match for match in said if not match["log"] and not match["words"].startswith("printing ")]
    best = [*(match for match in reasons if match["log"]), *reasons, *others]
    return _of_node(best[0]["node"], f"container: {best[0]['words']}") if best else ""


def changed_variable(text: str) -> str:
    """Return which variable had another value in a program than in the job; empty if none is reported."""
    for line in text.splitlines():
        if "# busbar variable: " in line and (match := _VARIABLE.match(line)):
            words = f"{match['words']}: the image, a hook or a prolog of tasks sets it, too"
            return _of_node(match["node"], f"the program did not run as asked, {words}")
    return ""


def unconnected(step: str, ranks: int) -> str:
    """Return a message that a step's processes did not connect; empty unless several report rank 0.

    This happens with Open MPI 5 under srun without PMIx (open-mpi/ompi#13523), and with a program built without MPI.

    Args:
        step: the output of the step.
        ranks: number of requested ranks.
    """
    programs = len(_FIRST_RANK.findall(step))
    if programs <= 1:
        return ""
    return (
        f"{programs} programs of one rank ran instead of one of {ranks} ranks, so nothing was measured between them: "
        "the program is built without MPI, or its MPI does not know the launcher (PMIx, PMI-2)"
    )


def step_fault(text: str | None, *, ran: bool) -> str:
    """Return why an output is no valid result regardless of its values; empty if it is valid.

    Args:
        text: output of the job, or of a part of it; None if missing.
        ran: whether the program finished with a judgeable result. A container fault then belongs to another step.
    """
    return changed_variable(text or "") or ("" if ran else container_fault(text or ""))


def _of_node(node: str | None, words: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in words)[:_LONGEST]
    return f"{node}: {shown}" if node else shown
