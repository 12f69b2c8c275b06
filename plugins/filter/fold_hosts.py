"""Filter that folds host names into a host list such as gpu[01-04]."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fold_hosts
author: busbar contributors (!UNKNOWN)
short_description: Fold host names into a host list
description: Folds host names into a host list such as C(gpu[01-04]), for messages.
options:
  _input:
    description: Host names.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
text: "{{ ['gpu1', 'gpu2', 'ctl'] | busbar.cluster.fold_hosts }}"
"""

RETURN = r"""
_value:
  description: The host list, such as C(ctl,gpu[1-2]).
  type: str
"""

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.engine.common.hostlist import fold_hosts

FilterModule = filter_module("fold_hosts", fold_hosts)
