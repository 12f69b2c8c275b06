"""Module that finds out whether a host waits for a reboot."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot_info
author: busbar contributors
short_description: Whether a host waits for a reboot
description:
  - Looks for a newer kernel than the running one, for C(/run/reboot-required) of Debian and Ubuntu, and asks
    C(needs-restarting -r) where there is one.
extends_documentation_fragment: busbar.cluster.attributes
"""

EXAMPLES = r"""
- name: Look whether the host waits for a reboot
  busbar.cluster.reboot_info:
  register: reboot
"""

RETURN = r"""
reasons:
  description: Why it does; empty when it does not.
  returned: always
  type: list
  elements: str
"""

import platform
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.kernels import installed_kernels, newer_kernel

REQUIRED = Path("/run/reboot-required")
# dnf-utils: "exit code 1 if reboot required".
RESTART = 1


def reasons(module: AnsibleModule, required: Path = REQUIRED) -> list[str]:
    """Return why the host waits for a reboot."""
    running = platform.release()
    newer = newer_kernel(running, installed_kernels())
    found = [f"the kernel {running} runs, {newer} is installed"] if newer else []
    if required.exists():
        packages = required.with_name(f"{required.name}.pkgs")
        names = sorted(set(packages.read_text(encoding="utf-8").split())) if packages.exists() else []
        found.append(f"{required} is there{' for ' + ', '.join(names) if names else ''}")
    program = module.get_bin_path("needs-restarting")
    if program and module.run_command([program, "-r"], environ_update={"LC_ALL": "C.UTF-8"})[0] == RESTART:
        found.append("needs-restarting -r says so")
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, reasons=reasons(module))


if __name__ == "__main__":
    main()
