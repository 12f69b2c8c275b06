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

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTS = Path("/var/lib/apt/lists")
POLICY = Path("/usr/sbin/policy-rc.d")
FRESH_S = 3600
APT = ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


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


def lists_are_fresh(lists: Path = LISTS) -> bool:
    """Return whether there are package lists of apt, fetched within the last hour."""
    found = [*lists.glob("*_Packages*"), *lists.glob("*_InRelease"), *lists.glob("*_Release")]
    return any(path.name.find("_Packages") > 0 for path in found) and (
        # The date of a list is the server's; the directory's is ours.
        time.time() - lists.stat().st_mtime < FRESH_S
    )


@contextlib.contextmanager
def services_held(*, held: bool, policy: Path = POLICY) -> Iterator[None]:
    """Keep Debian's packages from starting services, unless somebody else's policy is there already."""
    ours = held and not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def run(module: AnsibleModule, command: list[str]) -> tuple[int, str]:
    """Return the exit status and what the command said."""
    status, out, err = module.run_command(command, environ_update=ENVIRONMENT)
    return status, f"{out}\n{err}"


def install(module: AnsibleModule, names: list[str], params: dict[str, Any]) -> None:
    """Install the packages, or fail the module with what the package manager said."""
    if not module.get_bin_path("apt-get"):
        weak = [] if params["recommends"] else ["--setopt=install_weak_deps=False"]
        status, said = run(module, ["dnf", "-y", *weak, "install", *names])
    else:
        weak = [] if params["recommends"] else ["--no-install-recommends"]
        fresh = lists_are_fresh()
        if not fresh:
            run(module, [*APT, "update"])
        with services_held(held=not params["start_services"]):
            status, said = run(module, [*APT, *weak, "install", *names])
            if status != 0 and fresh:
                run(module, [*APT, "update"])
                status, said = run(module, [*APT, *weak, "install", *names])
    if status != 0:
        errors = [line for line in said.splitlines() if line.startswith(("E:", "Error"))] or said.splitlines()[-5:]
        module.fail_json(msg=f"cannot install {', '.join(names)}: {' '.join(errors)}", output=said)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "recommends": {"type": "bool", "default": False},
            "start_services": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    missing = missing_packages(module, module.params["name"])
    if missing and not module.check_mode:
        install(module, missing, module.params)
    after = "".join(f"{name}\n" for name in missing)
    diff = [{"before": "", "after": after, "before_header": "packages", "after_header": "packages"}] if missing else []
    module.exit_json(changed=bool(missing), installed=missing, diff=diff)


if __name__ == "__main__":
    main()
