"""The program that slurmd calls as HealthCheckProgram: looks at the node and drains it when it is not sound.

It asks Slurm only when something is wrong, or when its own note says that it drained the node. It always ends with 0:
newer releases of slurmd do not register a node whose check fails, and an unhealthy node must stay reachable for its
running jobs. With `--look` it prints what is wrong, changes nothing, and ends with 1 when something is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import syslog
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.bounded import bounded
from ..hardware.dcgm_health import NOT_WATCHING, dcgm_incidents, dcgm_problems
from ..hardware.gpu_reading import PATHS, find_smi, pci_devices, read_gpus, run_limited
from .node_health import Disk, device_paths, drain_reason, node_record, problems_of, step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Scontrol = Callable[[Sequence[str]], str]

__all__ = ["look", "main", "settle"]

NOTE = Path("/var/lib/busbar/node_health/drained")
# Slurm ends the program after 60 s; what it does within must fit.
SCONTROL_TIMEOUT_S = 15
DISK_TIMEOUT_S = 5
DCGM_TIMEOUT_S = 5
# DCGM's group of all GPUs, and all that it can watch.
DCGM_GROUP = ("-g", "0")
DCGM_WATCHES = "a"


def disk_of(path: str) -> Disk:
    """Return how a file system is."""
    try:
        found = bounded(lambda: os.statvfs(path), DISK_TIMEOUT_S)
    except OSError as exc:
        return Disk(path, error=exc.strerror or str(exc))
    return Disk(
        path,
        read_only=bool(found.f_flag & os.ST_RDONLY),
        free_mb=found.f_bavail * found.f_frsize / (1 << 20),
        # File systems that make inodes as they need them count none at all.
        free_files=found.f_favail if found.f_files else None,
    )


def look(declared: Mapping[str, Any], root: Path = Path("/")) -> list[str]:
    """Return what is wrong with this node.

    Args:
        declared: as `problems_of` takes it, with `devices` (a folded list), `paths`, and `timeout_s` for nvidia-smi.
        root: where /proc, /sys and /dev are.
    """
    facts, missing = None, []
    if declared["gpus"]:
        facts = read_gpus(root, pci_devices(root)["gpu"], find_smi(), float(declared["timeout_s"]), links=False)
        missing = [path for path in device_paths(declared["devices"]) if not (root / path.lstrip("/")).exists()]
    return problems_of(declared, facts, missing, [disk_of(path) for path in declared["paths"]])


def ask_dcgm(declared: Mapping[str, Any], program: str | None = None) -> list[str]:
    """Return what DCGM found on GPUs since it watches; it is told to watch when it does not yet.

    Without DCGM, or with one that does not answer, nothing is known and nobody blamed: that the daemon runs is for
    systemd and the monitoring to see. A line says so.

    Args:
        declared: `dcgm`, with `level` as `dcgm_problems` takes it, and `host`, where the host engine listens.
        program: path of dcgmi; looked for when not given.
    """
    asked = declared.get("dcgm") or {}
    places = os.pathsep.join(filter(None, [os.environ.get("PATH"), *PATHS]))
    program = program or shutil.which("dcgmi", path=places)
    if not program or asked.get("level", "never") == "never":
        return []
    command = [program, "health", "--host", str(asked["host"]), *DCGM_GROUP]
    try:
        status, text = run_limited([*command, "-c", "-j"], DCGM_TIMEOUT_S)
        if NOT_WATCHING in text:
            status, text = run_limited([*command, "-s", DCGM_WATCHES], DCGM_TIMEOUT_S)
            if status == 0:
                return []
        if status != 0:
            said = " ".join(text.split())[:200]
            say(f"DCGM {'does not answer' if status is None else f'is not asked: {said}'}", aside=True)
            return []
        return dcgm_problems(dcgm_incidents(text), str(asked["level"]))
    except (OSError, ValueError) as exc:
        say(f"DCGM is not understood: {exc}", aside=True)
        return []


def scontrol(words: Sequence[str]) -> str:
    """Return what scontrol prints.

    Raises:
        OSError: it is not there, does not answer, or refuses.
    """
    os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH"), *PATHS]))
    status, text = run_limited(["scontrol", *words], SCONTROL_TIMEOUT_S)
    if status != 0:
        message = f"scontrol {' '.join(words)} {'does not answer' if status is None else 'fails'}: {text.strip()[:300]}"
        raise OSError(message)
    return text


def settle(problems: Sequence[str], declared: Mapping[str, Any], ask: Scontrol, note: Path = NOTE) -> str:
    """Drain or resume the node where that is due; return what was done, as `step` names it, or `nothing`.

    Raises:
        OSError: Slurm does not answer.
        ValueError: it does not know the node.
    """
    if not problems and not (declared["resume"] and note.exists()):
        return "nothing"
    node = declared["node"]
    done = step(problems, node_record(ask(["show", "node", node])), resume=declared["resume"])
    reason = drain_reason(problems)
    if done == "drain":
        ask(["update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"])
        keep_note(note, reason)
    elif done == "resume":
        ask(["update", f"NodeName={node}", "State=RESUME"])
    if done in {"resume", "leave"}:
        keep_note(note, None)
    return done


def say(text: object, *, aside: bool = False) -> None:
    """Print a line; slurmd keeps both streams in its log when the program fails."""
    (sys.stderr if aside else sys.stdout).write(f"{text}\n")


def keep_note(note: Path, text: str | None) -> None:
    """Write or remove the note that this program drained the node; a disk that takes no note is not in the way."""
    try:
        if text is None:
            note.unlink(missing_ok=True)
        else:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(f"{text}\n", encoding="utf-8")
    except OSError as exc:
        say(f"the note {note} cannot be kept: {exc.strerror}", aside=True)


def main(arguments: Sequence[str], settings: Path) -> int:
    """Return the exit status.

    Args:
        arguments: those of the program.
        settings: the file with what this node should have.
    """
    try:
        return run(arguments, json.loads(settings.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as exc:
        say(f"the health of this node is not known: {exc}", aside=True)
        return 1 if "--look" in arguments else 0


def run(arguments: Sequence[str], declared: Mapping[str, Any]) -> int:
    """Look at the node, print what is wrong, and see to it unless only a look is asked for; return the exit status."""
    problems = look(declared) + (ask_dcgm(declared) if declared["gpus"] else [])
    for problem in problems:
        say(problem)
    if "--look" in arguments:
        return 1 if problems else 0
    done = settle(problems, declared, scontrol)
    if done in {"drain", "resume"}:
        syslog.openlog("busbar-health")
        syslog.syslog(syslog.LOG_WARNING, drain_reason(problems) if problems else "resumed: the node is sound again")
    return 0
