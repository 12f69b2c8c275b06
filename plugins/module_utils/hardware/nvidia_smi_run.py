"""Runs nvidia-smi for a module, and sees which jobs of Slurm run on the host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible.module_utils.basic import AnsibleModule

    # Runs nvidia-smi with some options and returns its exit status and what it printed.
    Smi = Callable[[list[str]], tuple[int, str]]

__all__ = ["jobs_here", "smi_runner", "told"]

PATHS = ["/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"]
TIMEOUT_S = 120
_STEP = re.compile(r"^slurmstepd: \[(\d+)")


def smi_runner(module: AnsibleModule) -> Smi | None:
    """Return the way to run nvidia-smi on this host; None where there is none.

    One that hangs in the driver is ended; a reset of a GPU may take a minute.
    """
    program = module.get_bin_path("nvidia-smi", opt_dirs=PATHS)
    if program is None:
        return None

    def run(words: list[str]) -> tuple[int, str]:
        limited = ["timeout", "-k", "5", str(TIMEOUT_S), program, *words]
        status, out, err = module.run_command(limited, data="", environ_update={"LC_ALL": "C"})
        return status, f"{out}\n{err}".strip()

    return run


def told(text: str) -> str:
    """Return what a program printed as one line, for a message."""
    return " ".join(text.split())[:500] or "it says nothing"


def jobs_here(proc: Path = Path("/proc")) -> list[str]:
    """Return the numbers of the jobs that have a step on this host, by the names of Slurm's step daemons.

    This needs no answer of the controller, and so also holds while that is down.
    """
    found = set()
    for folder in proc.glob("[0-9]*"):
        try:
            match = _STEP.match((folder / "cmdline").read_text(errors="replace").replace("\0", " "))
        except OSError:  # it has just ended
            continue
        if match:
            found.add(match.group(1))
    return sorted(found, key=int)
