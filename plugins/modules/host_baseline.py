"""Module that takes the baseline of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_baseline
author: busbar contributors
short_description: Save the state of a host before the first change
description:
  - Saves packages, accounts, units and C(/etc) in C(/var/lib/busbar/baseline), unless that was done before.
    C(busbar provision uninstall) restores this state.
  - Modules of busbar do this by themselves. Use this module before a builtin module makes the first change.
extends_documentation_fragment: busbar.cluster.attributes
"""

EXAMPLES = r"""
- name: Save the state of the host
  busbar.cluster.host_baseline:
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import take_baseline


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    take_baseline(module)
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
