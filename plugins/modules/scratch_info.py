"""Module that reads what is on the disks that are to become scratch."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch_info
author: busbar contributors
short_description: What is on the disks that are to become scratch
description:
  - Reads every signature on the disks and their partitions, who uses them, and what is made of them.
  - Reads what is at the mount point.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  devices:
    description: Paths of the disks.
    type: list
    elements: str
    required: true
  path:
    description: Where the file system is, or is to be mounted.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Read what is on the disks
  busbar.cluster.scratch_info:
    devices: [/dev/disk/by-id/nvme-SAMSUNG_MZQL23T8_S64HNE0T500001]
    path: /scratch
  register: __example_disks
"""

RETURN = r"""
scratch:
  description:
    - C(devices) in their order, each with C(given), C(path) (empty when there is no such device), C(kind), C(size)
      (bytes), C(ids), C(busy), C(contents) (signatures with C(device), C(type), C(label), C(uuid)), C(group) (array or
      volume group) and C(above) (what is made of it, with mount points).
    - C(mount) is what is mounted at the path, C(place) what is there (absent, directory, other), and C(entries) are
      the first names in it.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage.scratch_host import module_run, read_scratch


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        found = read_scratch(module_run(module), module.params["devices"], module.params["path"])
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"scratch_devices: {exc}")
    module.exit_json(changed=False, scratch=found)


if __name__ == "__main__":
    main()
