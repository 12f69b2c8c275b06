"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_certificate_end
author: busbar contributors
short_description: When a certificate of SSH ends
description: When a certificate of SSH ends.
options:
  _input:
    description: The certificate as one line.
    type: str
    required: true
"""

EXAMPLES = r"""
end: "{{ certificate | busbar.cluster.ssh_certificate_end }}"
"""

RETURN = r"""
_value:
  description: Seconds since 1970.
  type: int
"""

from ..plugin_utils.border import Filters, border


def end(certificate: str) -> int:
    """Return when a certificate ends."""
    # All filters are loaded for each run, and this takes a while.
    from ..module_utils.access.ssh_certificate import certificate_end  # noqa: PLC0415

    return certificate_end(certificate)


class FilterModule:
    """The filter `busbar.cluster.ssh_certificate_end`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"ssh_certificate_end": border(end)}
