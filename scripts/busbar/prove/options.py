"""The options and the batch script of a validation, as the role validation has them, without Ansible."""

from __future__ import annotations

import re
import shlex
import time
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

from busbar.paths import collection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["MEASURED", "collectives_program", "job_script", "validation_options"]

MEASURED = ("all_reduce", "alltoall")
"""What a job may be asked to measure: the culprit search takes alltoall to see every connection."""
_OUTPUT = "busbar-%j.out"
_TEST_S = 600
# The defaults of roles/validation that depend on the backend.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "mpi": {
        "min_bytes": "1M",
        "max_bytes": "16M",
        "step_factor": 4,
        "repeats": 1,
        "spread_limit": 100,
        "search_repeats": 3,
        "straggler_limit": 0,
        "drift": "ignore",
    },
    "nccl": {
        "min_bytes": "8M",
        "max_bytes": "16G",
        "step_factor": 2,
        "repeats": 3,
        "spread_limit": 10,
        "search_repeats": 16,
        "straggler_limit": 5,
        "drift": "finding",
    },
}
_ITERATIONS = 20


def _role() -> Path:
    return collection() / "roles" / "validation"


def collectives_program(python: str) -> list[str]:
    """Return the command that runs the collectives for CPUs: no file of it is needed on the nodes."""
    return [python, "-c", (_role() / "files" / "busbar_collectives.py").read_text(encoding="utf-8")]


def _quoted(value: object) -> str:
    return shlex.join(value) if isinstance(value, list) else shlex.quote(str(value))


def _replaced(value: str | list[str], pattern: str, new: str) -> str | list[str]:
    """Replace in a text, or in the last word of a command."""
    if isinstance(value, list):
        return [*value[:-1], re.sub(pattern, new, value[-1])]
    return re.sub(pattern, new, value)


def job_script(backend: str, program: Sequence[str], image: str) -> str:
    """Return the batch script of the tests.

    Args:
        backend: mpi or nccl.
        program: the command that runs the collectives; for nccl that of all_reduce, beside which those of others lie.
        image: in which Pyxis runs it; empty for none.
    """
    role = _role()
    loader = jinja2.FileSystemLoader(role / "templates")
    environment = jinja2.Environment(loader=loader, trim_blocks=True, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - it is a shell script
    environment.filters |= {
        "quote": _quoted,
        "comment": lambda text: f"# {text}",
        "regex_replace": _replaced,
        "combine": lambda first, second: {**first, **second},
        "union": lambda first, second: list(dict.fromkeys([*first, *second])),
        "ternary": lambda value, yes, no: yes if value else no,
    }
    known = yaml.safe_load((role / "vars" / "main.yml").read_text(encoding="utf-8"))
    options = _DEFAULTS[backend]
    return environment.get_template("job.sh.j2").render(
        ansible_managed="Written by busbar prove",
        validation_backend=backend,
        validation_environment={},
        validation_inspector="",
        validation_image=image,
        validation_repeats=options["repeats"],
        validation_test_time_limit=_TEST_S,
        validation_min_bytes=options["min_bytes"],
        validation_max_bytes=options["max_bytes"],
        validation_iterations=_ITERATIONS,
        validation_seconds_per_size=0.5,
        __validation_own_environment=known["__validation_own_environment"],
        __validation_collective_in_path=known["__validation_collective_in_path"],
        __validation_used_collectives=MEASURED,
        __validation_program=list(program),
        __validation_some_program=list(program),
        __validation_step_factor=options["step_factor"],
        __validation_mpi_wrong_rank=-1,
    )


def validation_options(backend: str, nodes: list[str], **own: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Return the options of a validation of some nodes.

    Args:
        backend: mpi or nccl.
        nodes: to be tested.
        own: what differs from the defaults; among them what has none, such as script and hardware.
    """
    now = time.time()
    return {
        "backend": backend,
        "nodes": nodes,
        "pool": nodes,
        "partners": 0,
        "stages": ["node", "cluster"],
        "image": "",
        "binary": "",
        "mpi_ranks_per_node": 1,
        "iterations": _ITERATIONS,
        "collectives": ["all_reduce"],
        "search_collective": "auto",
        "rails": [],
        "floor_gbs": 0,
        "allow_unchecked": False,
        "allow_known_causes": False,
        "sbatch_arguments": [],
        "output": _OUTPUT,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "began": now,
        "wait": 60,
        "test_time_limit": _TEST_S,
        "time_limit": 0,
        "locate_rounds": 30,
        "search_drop": 10,
        "topology": {},
        "drain_failed": False,
        "drain_limit": 0,
        **_DEFAULTS[backend],
        **own,
    }
