# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: alert_rules
author: busbar contributors
short_description: Alert rules with a site's changes
options:
  _input:
    description: Content of Prometheus' rule files by name.
    type: dict
    required: true
  overrides:
    description: By the alert's name, any of C(enabled), C(for), C(severity), C(threshold).
    type: dict
    required: true
"""

EXAMPLES = r"""
rules: "{{ files | busbar.cluster.alert_rules(prometheus_alerts) }}"
"""

RETURN = r"""
_value:
  description: The content of the files with the changes.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.alert_rules import alert_rules  # noqa: TID252 - the collection's name stands in no import

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def changed(files: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed rules.

    Raises:
        AnsibleFilterError: when the input is no content of rule files.
    """
    try:
        return alert_rules(files, overrides)
    except (AttributeError, KeyError, TypeError) as exc:
        message = f"alert_rules: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.alert_rules`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"alert_rules": changed}
