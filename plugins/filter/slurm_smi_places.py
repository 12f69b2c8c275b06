"""Filter that tells which GPU of nvidia-smi each number of Slurm is."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_smi_places
author: busbar contributors
short_description: Place in nvidia-smi of each GPU and MIG instance that Slurm numbers
description: Place in nvidia-smi of each GPU and MIG instance that Slurm numbers.
options:
  _input:
    description: The part C(gpu) of the host's hardware profile.
    type: dict
    required: true
  mig:
    description: MIG layout of the host.
    type: raw
    required: true
"""

EXAMPLES = r"""
places: "{{ profile.gpu | busbar.cluster.slurm_smi_places(mig_layout) }}"
"""

RETURN = r"""
_value:
  description: A place for each number, from 0; an empty list without MIG.
  type: list
  elements: int
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.engine.catalogue.gres import smi_places


class FilterModule:
    """The filter `busbar.cluster.slurm_smi_places`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_smi_places": border(smi_places)}
