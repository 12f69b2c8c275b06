"""Filter that says what Slurm calls for each job."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_job_scripts
author: busbar contributors
short_description: What Slurm calls for each job
description: What Slurm calls for each job.
positional: folder, header
options:
  _input:
    description: The keys C(Prolog), C(Epilog) and C(TaskProlog), each with one path or a list of paths.
    type: dict
    required: true
  folder:
    description: Where the scripts lie that call several.
    type: str
    required: true
  header:
    description: Their first lines.
    type: str
    required: true
"""

EXAMPLES = r"""
keys: "{{ slurm_job_scripts | busbar.cluster.slurm_job_scripts('/usr/local/lib/busbar', '# ours') }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) as the filter C(problem_report) takes them, and without any of them C(config), keys of slurm.conf, and
      C(files) as the module C(files) takes them.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.slurm.scripts import job_scripts, script_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def scripts_plan(scripts: Mapping[str, Any], folder: str, header: str) -> dict[str, Any]:
    """Return problems, or keys and files."""
    if problems := script_problems(scripts):
        return {"problems": problems, "config": {}, "files": []}
    return {"problems": [], **job_scripts(scripts, folder, header)}


class FilterModule:
    """The filter `busbar.cluster.slurm_job_scripts`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_job_scripts": border(scripts_plan)}
