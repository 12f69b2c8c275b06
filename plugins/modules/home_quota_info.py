"""Module that says whether homes can have quotas."""

from __future__ import annotations

DOCUMENTATION = r"""
module: home_quota_info
author: busbar contributors
short_description: Whether homes can have quotas
description:
  - Says whether the file system of a directory, which may be yet to come, has quotas of users. Changes nothing.
extends_documentation_fragment: busbar.cluster.attributes
options:
  path:
    description: The directory of the homes.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Check that the homes can have quotas
  busbar.cluster.home_quota_info:
    path: /shared/home
  register: answer
"""

RETURN = r"""
problem:
  description: Why it has none; empty where it has.
  returned: always
  type: str
remedy:
  description: What to do about it.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage.home_quota_run import QuotaError, file_system


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True)
    problem = remedy = ""
    try:
        file_system(module.params["path"])
    except QuotaError as error:
        problem, _, remedy = str(error).partition("; ")
    module.exit_json(changed=False, problem=problem, remedy=remedy)


if __name__ == "__main__":
    main()
