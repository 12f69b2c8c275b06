"""Filter that works out the MIG layout of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mig_declared
author: busbar contributors
short_description: MIG layout of a host
description: MIG layout of a host.
options:
  _input:
    description: The part C(gpu) of the host's hardware profile.
    type: dict
    required: true
  layout:
    description: Layout of the host in place of that of its hardware.
    type: raw
"""

EXAMPLES = r"""
layout: "{{ profile.gpu | busbar.cluster.mig_declared(mig_layout) }}"
"""

RETURN = r"""
_value:
  description:
    - C(layout) (null where none is declared), C(gres), the GPUs of each Slurm type, C(boot_lines), what is created at a
      boot, and C(problems), a list of sentences.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.mig_change import boot_layout
from ..module_utils.nvidia.mig_layouts import layout_problems
from ..module_utils.slurm.gres import gres_counts
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def mig_declared(gpu: Mapping[str, Any], layout: object = None) -> dict[str, Any]:
    """Return the layout of a host and what follows from it."""
    layout = gpu.get("mig") if layout is None else layout
    problems = [] if layout is None else layout_problems(gpu, layout)
    if layout is None or problems:
        return {"layout": layout, "gres": {}, "boot_lines": [], "problems": problems}
    lines = boot_layout(gpu, layout)
    return {"layout": layout, "gres": dict(gres_counts(gpu, layout)), "boot_lines": lines, "problems": []}


class FilterModule:
    """The filter `busbar.cluster.mig_declared`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"mig_declared": border(mig_declared)}
