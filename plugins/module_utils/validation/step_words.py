# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a job's output says of its steps besides what their programs print: of their containers and their variables."""

from __future__ import annotations

import re

__all__ = ["changed_variable", "container_fault", "step_fault"]

# As slurm_error prints it in slurmstepd (Slurm 24.11), behind srun's --label or not. Pyxis 0.24: common.c,
# memfd_print_log repeats what Enroot said, after a line that announces it; pyxis_slurmstepd.c has its own words.
_SAID = re.compile(r"^(?:\s*\d{1,6}: )?slurmstepd(?:-(?P<node>[\w.-]+))?: error: pyxis:\s*(?P<words>\S.*?)\s*$")
_ENROOT = re.compile(r"\[ERROR\]\s*(\S.*)")
_ANNOUNCES = re.compile(r"printing \w+ log file|child \d+ failed with error code")
_VARIABLE = re.compile(r"^(?:\s*\d{1,6}: )?# busbar variable: (?P<node>\S+) (?P<words>\w+ is .*, the job set .*)$")
_LONGEST = 300


def container_fault(text: str) -> str:
    """Return why a step had no container, with the node if it is told; empty where nothing of the kind is said.

    Enroot's reason says more than those of Pyxis, of which the first is nearest to it.
    """
    said = [match for line in text.splitlines() if "pyxis:" in line and (match := _SAID.match(line))]
    for match in said:
        if reason := _ENROOT.match(match["words"]):
            return _told(match["node"], f"container: {reason[1]}")
    own = [match for match in said if not _ANNOUNCES.match(match["words"])]
    return _told(own[0]["node"], f"container: {own[0]['words']}") if own else ""


def changed_variable(text: str) -> str:
    """Return which variable a program saw with another value than the job had set; empty where none is told."""
    for line in text.splitlines():
        if "# busbar variable: " in line and (match := _VARIABLE.match(line)):
            words = f"{match['words']}: the image, a hook or a prolog of tasks sets it, too"
            return _told(match["node"], f"the program did not run as asked, {words}")
    return ""


def step_fault(text: str | None, *, ran: bool) -> str:
    """Return why an output proves nothing, whatever its figures are; empty where no such thing is told.

    Args:
        text: of the job, or of a part of it; None where there is none.
        ran: whether the program came to an end that can be judged. Then a fault of a container was not its own.
    """
    return changed_variable(text or "") or ("" if ran else container_fault(text or ""))


def _told(node: str | None, words: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in words)[:_LONGEST]
    return f"{node}: {shown}" if node else shown
