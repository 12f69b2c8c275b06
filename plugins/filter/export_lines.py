"""Filter over the pure functions that write exports."""

from __future__ import annotations

DOCUMENTATION = r"""
name: export_lines
author: busbar contributors
short_description: Exports as the text of a file in /etc/exports.d
options:
  _input:
    description: Items of C(nfs_server_exports).
    type: list
    elements: dict
    required: true
  clients:
    description: Who may mount what an export without clients of its own offers.
    type: list
    elements: str
    required: true
  options:
    description: Options that the options of each export are merged over.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
text: "{{ [{'path': '/shared'}] | busbar.cluster.export_lines(['10.0.0.0/24'], ['rw', 'sync']) }}"
"""

RETURN = r"""
_value:
  description: The lines, one client each.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.storage.nfs_exports import exports_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lines(exports: Sequence[Mapping[str, Any]], clients: Sequence[str], options: Sequence[str]) -> str:
    """Return the text of the file.

    Raises:
        AnsibleFilterError: when an export has no path.
    """
    try:
        return exports_file(exports, clients, options)
    except (AttributeError, KeyError, TypeError) as exc:
        message = f"export_lines: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.export_lines`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"export_lines": lines}
