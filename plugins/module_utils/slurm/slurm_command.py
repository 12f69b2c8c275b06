"""Run a Slurm command for a module."""

from __future__ import annotations

from typing import Any

__all__ = ["ask_slurm"]


def ask_slurm(module: Any, words: list[str]) -> str:  # noqa: ANN401 - Ansible has no types
    """Return the output of a Slurm command; fail the module if it fails."""
    try:
        code, out, err = module.run_command(words, environ_update={"LC_ALL": "C.UTF-8"})
    except OSError as error:
        code, out, err = 127, "", str(error)
    if code != 0:
        output = " ".join(f"{err} {out}".split())[:300]
        module.fail_json(msg=f"`{' '.join(words[:2])}` failed, so the jobs are unknown: {output}")
    return str(out)
