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
options:
  written:
    description: Files that a builtin module has changed, recorded so that an uninstallation restores them.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: Save the state of the host
  busbar.cluster.host_baseline:
"""

RETURN = r""" # """

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_write


def main() -> None:
    """Run the module."""
    written = {"type": "list", "elements": "path", "default": []}
    module = AnsibleModule(argument_spec={"written": written}, supports_check_mode=True)
    before_write(module, {name: Path(name).read_bytes() for name in module.params["written"]})
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
