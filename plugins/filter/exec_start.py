"""Filter that writes a command for a unit of systemd."""

from __future__ import annotations

DOCUMENTATION = r"""
name: exec_start
author: busbar contributors
short_description: A command for ExecStart= of a unit
options:
  _input:
    description: Program and arguments.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
line: "ExecStart={{ ['/usr/bin/prometheus', '--log.level=info'] | busbar.cluster.exec_start }}"
"""

RETURN = r"""
_value:
  description: The command, escaped, one word on each line.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.common.systemd import exec_start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def command(words: Sequence[str]) -> str:
    """Return the command.

    Raises:
        AnsibleFilterError: a word with a line break.
    """
    try:
        return exec_start(words)
    except (TypeError, ValueError) as exc:
        message = f"exec_start: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.exec_start`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"exec_start": command}
