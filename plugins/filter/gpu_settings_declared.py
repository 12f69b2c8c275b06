"""Filter that joins the settings of GPUs that hardware and host declare."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_settings_declared
author: busbar contributors
short_description: Settings of GPUs of a host
description: Settings of GPUs of a host.
options:
  _input:
    description: Settings of the hardware profile.
    type: dict
    required: true
  host:
    description: Settings of the host, which take their place key by key; null leaves a setting alone.
    type: dict
    default: {}
"""

EXAMPLES = r"""
settings: "{{ profile.gpu.settings | busbar.cluster.gpu_settings_declared({'power_limit_w': 400}) }}"
"""

RETURN = r"""
_value:
  description: C(settings), and C(boot_lines), the options of nvidia-smi that bring them back after a boot.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.gpu_settings import boot_lines, merge_settings, settings_form
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def declared(profile: Mapping[str, Any], host: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings of a host.

    Raises:
        ValueError: they have no valid form.
    """
    settings = merge_settings(profile, host)
    if wrong := settings_form(settings):
        raise ValueError("; ".join(wrong))
    return {"settings": settings, "boot_lines": boot_lines(settings)}


class FilterModule:
    """The filter `busbar.cluster.gpu_settings_declared`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"gpu_settings_declared": border(declared, hint="settings of GPUs")}
