"""Module that makes a package repository of NVIDIA's known on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_repository
author: busbar contributors
short_description: Make a package repository of NVIDIA's known
description:
  - Knows where NVIDIA has the repository for the host's system, and with which key it signs; what the site declares
    goes before that. Then it does what M(busbar.cluster.package_repository) does, in the same way.
  - A repository whose address or key nobody knows is refused, before anything is changed.
notes:
  - Writes C(/etc/apt/keyrings/busbar-NAME.asc), C(/etc/apt/sources.list.d/busbar-NAME.sources),
    C(/etc/apt/preferences.d/busbar-repository-NAME.pref) and C(/etc/apt/preferences.d/busbar-OWNER.pref), or with dnf
    C(/etc/pki/rpm-gpg/RPM-GPG-KEY-busbar-NAME) and C(/etc/yum.repos.d/busbar-NAME.repo).
attributes:
  check_mode:
    description:
      - Can run in check mode and return changed status prediction without modifying target.
      - A key that is not there yet is fetched and checked then, too; the index is not.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  name:
    description: V(cuda), V(libnvidia-container), V(doca) or a name of the site's own.
    type: str
    required: true
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  state:
    description: Whether the repository should be known. V(absent) leaves the packages that came from it.
    type: str
    choices: [present, absent]
    default: present
  declared:
    description:
      - C(urls), C(key_urls) and C(fingerprints) of the site, by name of the repository.
      - C(url), C(suite), C(components), C(key_url), C(key_file), C(fingerprint) and C(priority) of the role that asks;
        an empty one is NVIDIA's.
    type: dict
    required: true
  system:
    description: The host's C(distribution), C(version), C(major), C(family) and C(architecture).
    type: dict
    required: true
  key:
    description: The key itself, armoured, where a file with it is declared.
    type: str
    default: ''
  pins:
    description: Versions at which packages are kept. Only for apt.
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Names or patterns, separated by spaces.
        type: str
        required: true
      version:
        description: Version or pattern.
        type: str
        required: true
      priority:
        description: Above 1000, what is installed is taken back to it, too.
        type: int
        default: 1001
  owner:
    description: Whose pins these are, for the name of their file. Without it there are none.
    type: str
    default: ''
  header:
    description: First lines of each file, as comments.
    type: str
    default: '# Written by busbar.'
"""

EXAMPLES = r"""
- name: Configure the CUDA repository from a mirror
  busbar.cluster.nvidia_repository:
    name: cuda
    host: "{{ inventory_hostname }}"
    declared: {urls: {cuda: "https://mirror.example.org/cuda/debian12/x86_64/"}}
    system: {distribution: Debian, version: "12.9", major: "12", family: Debian, architecture: x86_64}
"""

RETURN = r"""
changed_paths:
  description: The files that were (or in check mode would be) written or removed.
  returned: success
  type: list
  elements: str
problems:
  description: Why it cannot be known, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_repository import PINS, RefusedError, keep_repository
from ..module_utils.common.problems import make_problem, problem_lines
from ..module_utils.common.refusal import refusal
from ..module_utils.nvidia.repositories import nvidia_repository

OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "host": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "declared": {"type": "dict", "required": True},
    "system": {"type": "dict", "required": True},
    "key": {"type": "str", "default": "", "no_log": False},
    "pins": PINS,
    "owner": {"type": "str", "default": ""},
    "header": {"type": "str", "default": "# Written by busbar."},
}
# What a site declares for each repository by its name.
BY_NAME = ("url", "key_url", "fingerprint")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    given = module.params
    name, host = given["name"], given["host"]
    chosen = nvidia_repository(name, given["system"], given["declared"], host)
    if chosen["problems"] and given["state"] == "present":
        module.fail_json(**refusal("Nothing was changed:", chosen["problems"]))
    try:
        done = keep_repository(module, {**chosen, **given})
    except RefusedError as exc:
        option = f"{exc.option}s.{name}" if exc.option in BY_NAME else exc.option
        problem = make_problem([host], f"nvidia_repository_{option}", exc.problem, exc.remedy)
        module.fail_json(msg="\n".join(problem_lines(problem, host)), problems=[problem])
    module.exit_json(**done)


if __name__ == "__main__":
    main()
