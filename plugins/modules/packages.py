"""Module that installs packages which are missing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
author: busbar contributors
short_description: Install packages that are missing
description:
  - Asks the package database what is missing. When nothing is, that was all, in a fraction of the time of
    M(ansible.builtin.apt).
  - On a fresh node that has no package lists yet, they are fetched first; M(ansible.builtin.apt) with
    C(cache_valid_time) takes the date of an empty directory for that of the lists, and fails.
  - In check mode it says what would be installed, without lists and without the network.
  - Works with apt and dnf. What is installed stays at its version.
  - While another package manager is at work it waits, says who that is, and gives up after five minutes.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  name:
    description: Names of the packages.
    type: list
    elements: str
    required: true
  recommends:
    description: Whether packages that are only recommended come too.
    type: bool
    default: false
  start_services:
    description:
      - Whether Debian's packages may start their services at once, before they are configured.
      - Other systems never do.
    type: bool
    default: true
  files:
    description:
      - Files of packages on the host itself, verified by whoever brought them; when a package is missing, these are
        installed, and repositories give only what they depend on.
    type: list
    elements: path
    default: []
"""

EXAMPLES = r"""
- name: Install chrony
  busbar.cluster.packages:
    name: [chrony, tzdata]
"""

RETURN = r"""
installed:
  description: The packages that were (or in check mode would be) installed.
  returned: always
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.package_commands import (
    APT,
    POLICY,
    clear_policy,
    error_text,
    lists_are_fresh,
    run_manager,
    services_held,
)


def missing_packages(module: AnsibleModule, names: list[str]) -> list[str]:
    """Return the names of the packages that are not installed, in the order given."""
    if module.get_bin_path("dpkg-query"):
        status, out, _ = module.run_command(["dpkg-query", "-W", "-f", "${Package} ${Status}\\n", *names])
        installed = {line.split()[0] for line in out.splitlines() if line.endswith(" ok installed")}
        return [name for name in names if name not in installed]
    status, out, _ = module.run_command(["rpm", "-q", "--whatprovides", "--qf", "", *names])
    if status == 0:
        return []
    return [name for name in names if module.run_command(["rpm", "-q", "--whatprovides", name])[0] != 0]


def install(module: AnsibleModule, names: list[str], params: dict[str, Any]) -> None:
    """Install the packages, or fail the module with what the package manager said."""
    wanted = params["files"] or names
    if not module.get_bin_path("apt-get"):
        weak = [] if params["recommends"] else ["--setopt=install_weak_deps=False"]
        status, said = run_manager(module, ["dnf", "-y", *weak, "install", *wanted])
    else:
        weak = [] if params["recommends"] else ["--no-install-recommends"]
        fresh = lists_are_fresh()
        if not fresh:
            run_manager(module, [*APT, "update"])
        with services_held(held=not params["start_services"]):
            status, said = run_manager(module, [*APT, *weak, "install", *wanted])
            if status != 0 and fresh:
                run_manager(module, [*APT, "update"])
                status, said = run_manager(module, [*APT, *weak, "install", *wanted])
    if status != 0:
        module.fail_json(msg=f"cannot install {', '.join(names)}: {error_text(said)}", output=said)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "recommends": {"type": "bool", "default": False},
            "start_services": {"type": "bool", "default": True},
            "files": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    missing = missing_packages(module, module.params["name"])
    left_over = not module.check_mode and clear_policy()
    if missing and not module.check_mode:
        install(module, missing, module.params)
    after = "".join(f"{name}\n" for name in missing)
    diff = [{"before": "", "after": after, "before_header": "packages", "after_header": "packages"}] if missing else []
    if left_over:
        diff.append({"before": "left by an install that was killed\n", "after": "", "before_header": str(POLICY)})
    module.exit_json(changed=bool(missing) or left_over, installed=missing, diff=diff)


if __name__ == "__main__":
    main()
