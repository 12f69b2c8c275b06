"""What is wrong with a compute node, and what to tell Slurm about it. Pure; runs on a node's own python3."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.node_info import parse_cpu_list
from ..hardware.gpu_health import gpu_label, lasting_ailments
from ..hardware.gpu_presence import presence_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["PREFIX", "Disk", "Record", "device_paths", "drain_reason", "node_record", "problems_of", "step"]

# What a reason of the health check begins with; a drain with another reason is never touched.
PREFIX = "busbar health:"
_MOST_PROBLEMS = 3
# Slurm keeps any length, sinfo and squeue show one line.
_LONGEST_REASON = 400
_FOLDED = re.compile(r"^(.*)\[([0-9,-]+)\]$")
_STATE = re.compile(r"^\s*State=(\S+)", re.MULTILINE)
_REASON = re.compile(r"^\s*Reason=(.*?)(?: \[[^\[\]]*@[^\[\]]*\])?\s*$", re.MULTILINE)
_OUT_OF_SERVICE = {"DRAIN", "DOWN", "FAIL", "FAILING"}


class Disk(NamedTuple):
    """A file system as statvfs tells of it; `error` when it does not answer."""

    path: str
    read_only: bool = False
    free_mb: float = 0.0
    free_files: int | None = None
    error: str = ""


class Record(NamedTuple):
    """A node as Slurm knows it: the words of its state, and why it is out of service."""

    states: frozenset[str]
    reason: str

    @property
    def is_out(self) -> bool:
        """Whether it takes no jobs because somebody said so."""
        return bool(self.states & _OUT_OF_SERVICE)

    @property
    def is_ours(self) -> bool:
        """Whether the health check drained it."""
        return self.is_out and self.reason.startswith(PREFIX)


def device_paths(folded: str) -> list[str]:
    """Return the paths in a list as gres.conf takes it: '/dev/nvidia[0-1]' gives ['/dev/nvidia0', '/dev/nvidia1'].

    Raises:
        ValueError: the brackets hold no list of numbers.
    """
    match = _FOLDED.match(folded)
    if not match:
        return [part for part in folded.split(",") if part]
    return [f"{match.group(1)}{number}" for number in parse_cpu_list(match.group(2))]


def problems_of(
    declared: Mapping[str, Any],
    facts: Mapping[str, Any] | None,
    missing_devices: Sequence[str],
    disks: Sequence[Disk],
) -> list[str]:
    """Return what is wrong with a node, the worst first, one text per thing.

    Args:
        declared: `gpus`, how many there should be, and `free_mb`, how much of each file system must be free.
        facts: what `read_gpus` returned; None when the node has no GPUs to ask for.
        missing_devices: device files of GPUs that are not there.
        disks: the file systems to look at.
    """
    gpus = _gpu_problems(int(declared["gpus"]), facts) if facts is not None else ()
    missing = [f"missing: {', '.join(missing_devices)}"] if missing_devices else []
    return [*gpus, *missing, *_disk_problems(disks, float(declared["free_mb"]))]


def _gpu_problems(declared: int, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of GPUs; one that several of them have is told once."""
    # An nvidia-smi that only knows older options tells nothing to compare.
    if facts["smi_state"] == "unusable":
        return
    faults = [(gpu, ailment.problem) for gpu in facts["gpus"] for ailment in lasting_ailments(gpu)]
    struck = Counter(problem for _, problem in faults)
    for problem in struck:
        sick = [gpu for gpu, each in faults if each == problem]
        where = gpu_label(sick[0]) if len(sick) == 1 else "of " + str(len(facts["gpus"]))
        yield f"GPU {','.join(str(gpu['index']) for gpu in sick)} ({where}) {problem}"
    for fault in presence_faults(declared, facts):
        yield f"{fault.key}: {fault.problem}"
    if facts["smi_state"] == "absent":
        yield "nvidia-smi: is not there any more"


def _disk_problems(disks: Sequence[Disk], least_mb: float) -> Iterator[str]:
    for disk in disks:
        if disk.error:
            yield f"{disk.path} does not answer: {disk.error}"
        elif disk.read_only:
            yield f"{disk.path} is read-only"
        elif disk.free_mb < least_mb:
            yield f"{disk.path} is full: {disk.free_mb:.0f} MiB free, {least_mb:.0f} are needed"
        elif disk.free_files == 0:
            yield f"{disk.path} is full: no inode is free"


def drain_reason(problems: Sequence[str]) -> str:
    """Return the reason of a drain: one line that begins with PREFIX."""
    more = len(problems) - _MOST_PROBLEMS
    said = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    text = " ".join(f"{PREFIX} {'; '.join(said)}".split()).replace('"', "'")
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def node_record(text: str) -> Record:
    """Return state and reason from `scontrol show node NAME`.

    Raises:
        ValueError: the text tells of no node.
    """
    state, reason = _STATE.search(text), _REASON.search(text)
    if not state:
        message = f"scontrol tells no state of the node: {text.strip()[:200]}"
        raise ValueError(message)
    words = (word.rstrip("*~#!%$@^-") for word in state.group(1).split("+"))
    return Record(frozenset(words), reason.group(1).strip() if reason else "")


def step(problems: Sequence[str], record: Record, *, resume: bool) -> str:
    """Return what to do with a node: `drain`, `resume`, `keep` (it is out by our own reason) or `leave`.

    Args:
        problems: what is wrong with it.
        record: what Slurm says of it. Whatever is out of service for another reason is left to whoever gave that one.
        resume: whether a node that is sound again may come back by itself.
    """
    if problems:
        return "keep" if record.is_ours else "leave" if record.is_out else "drain"
    if not record.is_ours:
        return "leave"
    return "resume" if resume else "keep"
