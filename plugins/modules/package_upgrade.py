"""Module that upgrades the packages of a host, all or those with security fixes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_upgrade
author: busbar contributors
short_description: Upgrade the packages of a host
description:
  - Upgrades what is installed, by C(apt-get) or C(dnf). Removes nothing; configuration files that were changed stay.
  - Packages of O(hold), and those that somebody holds (C(apt-mark), C(dnf versionlock)), stay as they are, and so does
    what could be upgraded only with them.
extends_documentation_fragment: busbar.cluster.attributes
options:
  scope:
    description:
      - V(security) upgrades what the distribution's security archive (Debian, Ubuntu), or an advisory of the
        repository (EL), has a fix for; V(all) everything.
    type: str
    choices: [security, all]
    default: security
  hold:
    description: Families of packages that stay as they are.
    type: list
    elements: str
    choices: [kernel, nvidia, slurm]
    default: [kernel, nvidia, slurm]
"""

EXAMPLES = r"""
- name: Upgrade everything but NVIDIA's driver and Slurm
  busbar.cluster.package_upgrade:
    scope: all
    hold: [nvidia, slurm]
"""

RETURN = r"""
upgraded:
  description: What was (or in check mode would be) upgraded.
  returned: always
  type: list
  elements: str
held:
  description: What was asked for, and stays as it is.
  returned: always
  type: list
  elements: str
"""

from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.package_commands import APT, error_text, lists_are_fresh, run_manager
from ..module_utils.common.package_upgrades import FAMILIES, Upgrade, chosen, held_patterns, parse_apt, parse_dnf

if TYPE_CHECKING:
    from collections.abc import Sequence

# dnf(8): "DNF exit code will be 100 when there are updates available".
OFFERS = 100


def managed(module: AnsibleModule, command: Sequence[str], *good: int) -> str:
    """Return what a package manager said; fail the module when it failed."""
    status, said = run_manager(module, command)
    if status not in {0, *good}:
        module.fail_json(msg=f"`{' '.join(command[:6])}`: {error_text(said)}")
    return said


def fits(module: AnsibleModule, upgrades: Sequence[Upgrade], patterns: Sequence[str]) -> bool:
    """Return whether apt makes these upgrades without a removal, and without touching what is held."""
    words = [f"{each.name}={each.version}" for each in upgrades]
    status, said = run_manager(module, [*APT, "--simulate", "install", *words])
    made, removed = parse_apt(said)
    return status == 0 and not removed and not chosen(made, patterns, security=False)[1]


def with_apt(module: AnsibleModule, patterns: Sequence[str]) -> tuple[list[Upgrade], list[Upgrade]]:
    """Return what was upgraded and what is held, by apt."""
    if not lists_are_fresh():
        managed(module, [*APT, "update"])
    offered, _ = parse_apt(managed(module, [*APT, "--simulate", "--with-new-pkgs", "upgrade"]))
    # One that is not installed yet comes with what needs it.
    security = module.params["scope"] == "security"
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
    """Return what was upgraded and what is held, by dnf."""
    # What obsoletes another package would remove it.
    words = ["--setopt=obsoletes=False", *["--security"] * (module.params["scope"] == "security")]
    look = ["dnf", "-q", *words, "check-update"]
    offered = parse_dnf(managed(module, [*look, "--refresh"], OFFERS))
    todo, held = chosen(offered, patterns, security=False)
    if todo and not module.check_mode:
        managed(module, ["dnf", "-y", "--nobest", *words, *(f"--exclude={each}" for each in patterns), "upgrade"])
        # With --nobest dnf skips what needs something that is held, and ends well.
        left = parse_dnf(managed(module, look, OFFERS))
        held += [each for each in todo if each in left]
        todo = [each for each in todo if each not in left]
    return todo, held


def main() -> None:
    """Run the module."""
    families = sorted(FAMILIES)
    module = AnsibleModule(
        argument_spec={
            "scope": {"type": "str", "choices": ["security", "all"], "default": "security"},
            "hold": {"type": "list", "elements": "str", "choices": families, "default": families},
        },
        supports_check_mode=True,
    )
    patterns = held_patterns(module.params["hold"])
    done, held = (with_apt if module.get_bin_path("apt-get") else with_dnf)(module, patterns)
    module.exit_json(changed=bool(done), upgraded=[*map(str, done)], held=[*map(str, held)])


if __name__ == "__main__":
    main()
