"""Module that installs, removes, upgrades and holds packages as declared."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
author: busbar contributors (!UNKNOWN)
short_description: Install, pin, hold, remove and upgrade packages
description:
  - Queries the package database once for packages that are missing, or have a different version or hold. If nothing
    differs, it is much faster than M(ansible.builtin.apt).
  - Otherwise installs, upgrades, downgrades and removes in one transaction, so that packages that require each other in
    the same version stay consistent, and verifies the versions afterwards.
  - Fetches the package lists first if the host has none, as on a new node. M(ansible.builtin.apt) with
    C(cache_valid_time) fails there, because it uses the date of the empty directory as the date of the lists.
  - In check mode, returns the planned changes without using package lists or the network.
  - Works with apt and dnf. With dnf, holds use the plugin versionlock, and packages are removed in a second
    transaction. A package without a version keeps its installed version.
  - Skips names that the same run of Ansible has already found installed, if the callback C(busbar.cluster.preload) is
    enabled.
  - If another package manager is running, reports its process and waits up to five minutes.
  - With O(upgrade), upgrades installed packages and ignores the other options. Removes nothing and keeps changed
    configuration files. Held packages (C(apt-mark), C(dnf versionlock)), and packages that could be upgraded only with
    a held one, stay unchanged.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  name:
    description: Names of packages to install, in any version.
    type: list
    elements: str
    default: []
  packages:
    description: Packages to install in a specific version or to hold.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      version:
        description: Version or pattern. Without a hyphen it matches all releases of that version. Empty matches any
          version.
        type: str
        default: ''
      hold:
        description: Whether to hold the package. If unset, the hold stays unchanged.
        type: bool
  family:
    description:
      - Related packages, such as dependencies of O(packages). Their holds are released for the transaction. Afterwards
        those with this version are held.
    type: dict
    suboptions:
      names:
        description: Name patterns of the packages in the family.
        type: list
        elements: str
        required: true
      version:
        description: Version at which the packages are held. If empty, none is held.
        type: str
        default: ''
  absent:
    description: Names or patterns of packages to remove.
    type: list
    elements: str
    default: []
  protect:
    description:
      - Patterns of packages that must not change. A transaction that would install, change or remove one of them is
        refused. Only with apt.
    type: list
    elements: str
    default: []
  stream:
    description: Module stream to enable first, such as V(nvidia-driver:580-open). Only with dnf.
    type: str
    default: ''
  recommends:
    description: Whether to install recommended packages, too.
    type: bool
    default: false
  start_services:
    description:
      - Whether Debian packages may start their services on installation, before they are configured.
      - Other systems never start them.
    type: bool
    default: true
  files:
    description:
      - Package files on the host, already verified by the caller. If a package of O(name) is missing, these are
        installed, and repositories provide only their dependencies.
    type: list
    elements: path
    default: []
  upgrade:
    description:
      - V(security) upgrades packages with a fix in the distribution's security archive (Debian, Ubuntu) or an advisory
        of the repository (EL). V(all) upgrades everything.
    type: str
    choices: [security, all]
  hold:
    description: Families of packages that O(upgrade) does not change.
    type: list
    elements: str
    choices: [kernel, nvidia, slurm]
    default: [kernel, nvidia, slurm]
"""

EXAMPLES = r"""
- name: Install chrony
  busbar.cluster.packages:
    name: [chrony, tzdata]

- name: Install NCCL for CUDA 12.9
  busbar.cluster.packages:
    packages:
      - {name: libnccl2, version: 2.27.5-1+cuda12.9, hold: true}
      - {name: libnccl-dev, version: 2.27.5-1+cuda12.9, hold: true}
    protect: ["nvidia-driver*"]
"""

RETURN = r"""
installed:
  description: Packages that were (or in check mode would be) installed or changed, as C(name) or C(name=version).
  returned: always
  type: list
  elements: str
removed:
  description: Packages that were (or in check mode would be) removed.
  returned: always
  type: list
  elements: str
held:
  description: Packages that were (or in check mode would be) newly held; with O(upgrade), those that stay unchanged.
  returned: always
  type: list
  elements: str
upgraded:
  description: Packages that were (or in check mode would be) upgraded.
  returned: with O(upgrade)
  type: list
  elements: str
"""

from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import take_baseline
from ..module_utils.common.host_packages import host_packages
from ..module_utils.common.package_changes import Present, after_changes, difference
from ..module_utils.common.package_commands import (
    APT,
    POLICY,
    clear_policy,
    error_text,
    lists_are_fresh,
    run_manager,
)
from ..module_utils.common.package_upgrades import FAMILIES, Upgrade, chosen, held_patterns, parse_apt, parse_dnf

if TYPE_CHECKING:
    from collections.abc import Sequence

# dnf(8): "DNF exit code will be 100 when there are updates available".
OFFERS = 100

STRINGS: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
OPTIONS: dict[str, Any] = {
    "name": STRINGS,
    "packages": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "hold": {"type": "bool"},
        },
    },
    "family": {
        "type": "dict",
        "options": {
            "names": {"type": "list", "elements": "str", "required": True},
            "version": {"type": "str", "default": ""},
        },
    },
    "absent": STRINGS,
    "protect": STRINGS,
    "stream": {"type": "str", "default": ""},
    "recommends": {"type": "bool", "default": False},
    "start_services": {"type": "bool", "default": True},
    "files": {"type": "list", "elements": "path", "default": []},
    "upgrade": {"type": "str", "choices": ["security", "all"]},
    "hold": {"type": "list", "elements": "str", "choices": sorted(FAMILIES), "default": sorted(FAMILIES)},
}


def held_names(present: dict[str, Present]) -> set[str]:
    """Return the packages that are held."""
    return {name for name, item in present.items() if item["held"]}


def managed(module: AnsibleModule, command: Sequence[str], *good: int) -> str:
    """Return the output of a package manager; fail the module if it fails."""
    status, output = run_manager(module, command)
    if status not in {0, *good}:
        module.fail_json(msg=f"`{' '.join(command[:6])}`: {error_text(output)}")
    return output


def fits(module: AnsibleModule, upgrades: Sequence[Upgrade], patterns: Sequence[str]) -> bool:
    """Return whether apt can make these upgrades without removing packages or changing held ones."""
    words = [f"{each.name}={each.version}" for each in upgrades]
    status, output = run_manager(module, [*APT, "--simulate", "install", *words])
    made, removed = parse_apt(output)
    return status == 0 and not removed and not chosen(made, patterns, security=False)[1]


def with_apt(module: AnsibleModule, patterns: Sequence[str]) -> tuple[list[Upgrade], list[Upgrade]]:
    """Upgrade with apt; return the upgraded and the held packages."""
    if not lists_are_fresh():
        managed(module, [*APT, "update"])
    offered, _ = parse_apt(managed(module, [*APT, "--simulate", "--with-new-pkgs", "upgrade"]))
    # Skip packages that are not installed yet: apt installs them as dependencies of the others.
    security = module.params["upgrade"] == "security"
    todo, held = chosen([each for each in offered if each.before], patterns, security=security)
    if todo and not fits(module, todo, patterns):
        good = [each for each in todo if fits(module, [each], patterns)]
        held += [each for each in todo if each not in good]
        todo = good
        if todo and not fits(module, todo, patterns):
            module.fail_json(msg=f"apt cannot upgrade these together: {', '.join(map(str, todo))}")
    if todo and not module.check_mode:
        managed(module, [*APT, "install", *(f"{each.name}={each.version}" for each in todo)])
    return todo, held


def with_dnf(module: AnsibleModule, patterns: Sequence[str]) -> tuple[list[Upgrade], list[Upgrade]]:
    """Upgrade with dnf; return the upgraded and the held packages."""
    # A package that obsoletes an installed one would remove it.
    words = ["--setopt=obsoletes=False", *["--security"] * (module.params["upgrade"] == "security")]
    look = ["dnf", "-q", *words, "check-update"]
    offered = parse_dnf(managed(module, [*look, "--refresh"], OFFERS))
    todo, held = chosen(offered, patterns, security=False)
    if todo and not module.check_mode:
        managed(module, ["dnf", "-y", "--nobest", *words, *(f"--exclude={each}" for each in patterns), "upgrade"])
        # With --nobest dnf skips packages that need a held one, and still exits with 0.
        left = parse_dnf(managed(module, look, OFFERS))
        held += [each for each in todo if each in left]
        todo = [each for each in todo if each not in left]
    return todo, held


def upgrade(module: AnsibleModule) -> None:
    """Upgrade the installed packages and exit the module."""
    patterns = held_patterns(module.params["hold"])
    done, held = (with_apt if module.get_bin_path("apt-get") else with_dnf)(module, patterns)
    module.exit_json(changed=bool(done), upgraded=[*map(str, done)], held=[*map(str, held)])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    take_baseline(module)
    if module.params["upgrade"]:
        upgrade(module)
    left_over = not module.check_mode and clear_policy()
    packages = host_packages(module)
    before, changes = packages.present, packages.changes()
    changed = any(changes.values()) or not packages.stream_is_enabled()
    after = after_changes(before, changes)
    if changed and not module.check_mode:
        packages.change(changes)
        after, left = packages.present, packages.changes()
        # A name without a version may be provided by another package.
        wrong = [word for word in left["install"] if "=" in word] + left["remove"] + left["hold"] + left["unhold"]
        if wrong:
            module.fail_json(
                msg=f"after the transaction, these packages still differ from the declaration: {', '.join(wrong)}"
            )
    diff = [difference(before, after)] if changed else []
    if left_over:
        diff.append({"before": "left by a killed installation\n", "after": "", "before_header": str(POLICY)})
    module.exit_json(
        changed=changed or left_over,
        installed=changes["install"],
        removed=changes["remove"],
        held=sorted(held_names(after) - held_names(before)),
        diff=diff,
    )


if __name__ == "__main__":
    main()
