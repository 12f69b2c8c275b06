"""Evaluates the options and the batch script of the validation role without Ansible."""

from __future__ import annotations

import re
import shlex
import time
from typing import TYPE_CHECKING, Any

import yaml
from jinja2 import FileSystemLoader
from jinja2.nativetypes import NativeEnvironment

from busbar.paths import collection

if TYPE_CHECKING:
    from pathlib import Path

# Options of the role whose defaults depend only on the backend. _SCRIPT_OPTIONS are used only in the job script.
_DEFAULTS = (
    *("iterations", "collectives", "search_collective", "search_drop", "rails", "allow_unchecked", "drain_failed"),
    *("allow_known_causes", "sbatch_arguments", "drain_limit", "test_time_limit", "locate_rounds", "inspector"),
    *("min_bytes", "max_bytes", "repeats", "spread_limit", "search_repeats", "straggler_limit", "drift"),
)
_SCRIPT_OPTIONS = ("validation_environment", "validation_seconds_per_size")
_CONSTANTS = ("__validation_step_factor", "__validation_collective_in_path", "__validation_own_environment")

_FLAGS = {
    **{key: f"--{key}" for key in ("account", "backend", "binary", "hardware", "image", "partition", "qos", "wait")},
    "floor_gbs": "--floor",
    "nodes": "--nodelist",
    "time_limit": "--time",
}


def option_name(key: str) -> str:
    """Return the name of an engine option in messages from busbar prove."""
    return _FLAGS.get(key, f"validation_{key} (only in the playbook validate.yml)")


def _role() -> Path:
    return collection() / "roles" / "validation"


def collectives_program(python: str) -> list[str]:
    """Return the command that runs the CPU collectives without files on the nodes."""
    return [python, "-c", (_role() / "files" / "busbar_collectives.py").read_text(encoding="utf-8")]


def _quoted(value: object) -> str:
    return shlex.join(value) if isinstance(value, list) else shlex.quote(str(value))


def _replaced(value: list[str], pattern: str, new: str) -> list[str]:
    """Return a command with a pattern replaced in its last word."""
    return [*value[:-1], re.sub(pattern, new, value[-1])]


def _environment() -> NativeEnvironment:
    """Return a Jinja2 environment with the Ansible filters that the role uses."""
    loader = FileSystemLoader(_role() / "templates")
    found = NativeEnvironment(loader=loader, trim_blocks=True, keep_trailing_newline=True)
    found.filters |= {
        "quote": _quoted,
        "comment": lambda text: f"# {text}",
        "regex_replace": _replaced,
        "combine": lambda first, second: {**first, **second},
        "union": lambda first, second: list(dict.fromkeys([*first, *second])),
        "ternary": lambda value, yes, no: yes if value else no,
    }
    return found


def _values(backend: str) -> dict[str, Any]:
    """Return variables of the role that depend only on the backend."""
    found: dict[str, Any] = {}
    options = (*(f"validation_{name}" for name in _DEFAULTS), *_SCRIPT_OPTIONS)
    for file, names in (("defaults", options), ("vars", _CONSTANTS)):
        known = yaml.safe_load((_role() / file / "main.yml").read_text(encoding="utf-8"))
        found |= {name: known[name] for name in names}
    environment = _environment()
    return {
        name: environment.from_string(value).render(validation_backend=backend) if "{{" in str(value) else value
        for name, value in found.items()
    }


def job_script(backend: str, program: list[str], image: str) -> str:
    """Return the batch script of the tests.

    Args:
        backend: mpi or nccl.
        program: the command that runs the collectives; for nccl that of all_reduce, whose folder must contain the other
            programs.
        image: Pyxis image; empty for none.
    """
    template = _environment().overlay().get_template("job.sh.j2")
    context = {
        "ansible_managed": "Written by busbar prove",
        "validation_backend": backend,
        "validation_image": image,
        # The culprit search uses alltoall, which covers every connection.
        "__validation_used_collectives": ("all_reduce", "alltoall"),
        "__validation_program": program,
        "__validation_some_program": program,
        "__validation_mpi_wrong_rank": -1,
    }
    # Rendering with the native environment would convert the script to a Python value.
    return "".join(map(str, template.root_render_func(template.new_context({**_values(backend), **context}))))


def validation_options(backend: str, nodes: list[str], **own: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Return the options for validating the given nodes.

    Args:
        backend: mpi or nccl.
        nodes: nodes to test.
        own: options that differ from the defaults, or have no default, such as script and hardware.
    """
    now = time.time()
    values = _values(backend)
    return {
        **{name: values[f"validation_{name}"] for name in _DEFAULTS},
        "step_factor": values["__validation_step_factor"],
        "backend": backend,
        "nodes": nodes,
        "pool": nodes,
        "partners": 0,
        "stages": ["node", "cluster"],
        "image": "",
        "binary": "",
        "mpi_ranks_per_node": 1,
        "floor_gbs": 0,
        "output": "busbar-%j.out",
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "began": now,
        "wait": 60,
        "time_limit": 0,
        "topology": {},
        **own,
    }
