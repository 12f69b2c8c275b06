"""Module that brings packages to exact versions, in one transaction, and holds them there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: package_versions
author: busbar contributors
short_description: Bring packages to exact versions, and hold them there
description:
  - Asks the package database which packages have another version, or are not held as wished. When all is right, that
    was all.
  - Else installs, upgrades, downgrades and removes in one transaction, so that packages that need each other in one
    version never part, and sees afterwards that each has its version.
  - Works with apt, and with dnf, where holding is the work of its plugin versionlock.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  packages:
    description: The packages.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      version:
        description: Version or pattern. Without a hyphen it takes all releases of that version. Empty takes any.
        type: str
        default: ''
      hold:
        description: Whether upgrades leave it as it is. Without a value, it is left as it is.
        type: bool
  absent:
    description: Names or patterns of packages that are removed in the same transaction.
    type: list
    elements: str
    default: []
  untouched:
    description:
      - Patterns of packages that must stay as they are. A transaction that would install, change or remove one of them
        is refused before it begins. Only with apt.
    type: list
    elements: str
    default: []
  start_services:
    description: Whether Debian's packages may start their services at once, before they are configured.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Install NCCL for CUDA 12.9
  busbar.cluster.package_versions:
    packages:
      - {name: libnccl2, version: 2.27.5-1+cuda12.9, hold: true}
      - {name: libnccl-dev, version: 2.27.5-1+cuda12.9, hold: true}
"""

RETURN = r"""
installed:
  description: Packages that were (or in check mode would be) brought to a version, as C(name=version).
  returned: always
  type: list
  elements: str
removed:
  description: Packages that were (or in check mode would be) removed.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.package_changes import (
    DPKG_FORMAT,
    RPM_FORMAT,
    Changes,
    Present,
    as_lines,
    changes_for,
    parse_dpkg,
    parse_madison,
    parse_rpm,
    touched_packages,
    version_fits,
)
from ..module_utils.common.package_commands import APT, ENVIRONMENT, error_text, run_manager, services_held

OPTIONS: dict[str, Any] = {
    "packages": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "hold": {"type": "bool"},
        },
    },
    "absent": {"type": "list", "elements": "str", "default": []},
    "untouched": {"type": "list", "elements": "str", "default": []},
    "start_services": {"type": "bool", "default": True},
}
LOCKS = Path("/etc/dnf/plugins/versionlock.list")
LOCK_PLUGIN = "python3-dnf-plugin-versionlock"


def run(module: AnsibleModule, *command: str) -> tuple[int, str]:
    """Return the exit status of a package manager and what it said."""
    return run_manager(module, command)


def present_packages(module: AnsibleModule) -> dict[str, Present]:
    """Return the installed ones of the packages that are asked for."""
    names = [package["name"] for package in module.params["packages"]] + module.params["absent"]
    if module.get_bin_path("dpkg-query"):
        return parse_dpkg(module.run_command(["dpkg-query", "-W", "-f", DPKG_FORMAT, *names])[1])
    listed = module.run_command(["rpm", "-q", "--qf", RPM_FORMAT, *names])[1]
    listed += module.run_command(["rpm", "-qa", "--qf", RPM_FORMAT, *module.params["absent"]])[1]
    return parse_rpm(listed, LOCKS.read_text(encoding="utf-8").splitlines() if LOCKS.exists() else [])


def resolve(module: AnsibleModule, install: list[str]) -> tuple[list[str], list[str]]:
    """Return what to install with the newest version of apt's that fits, and a line for each that has none."""
    names = [word.partition("=")[0] for word in install]
    known = parse_madison(module.run_command(["apt-cache", "madison", *names], environ_update=ENVIRONMENT)[1])
    words, missing = [], []
    for word in install:
        name, _, wanted = word.partition("=")
        fitting = [version for version in known.get(name, []) if version_fits(version, wanted)]
        words.append(f"{name}={fitting[0]}" if wanted and fitting else name)
        if not fitting:
            missing.append(f"{word.replace('=', ' ')} (known: {', '.join(known.get(name, [])) or 'none'})")
    return words, missing


def refuse_touched(module: AnsibleModule, command: list[str]) -> None:
    """Fail the module when the transaction would touch what must stay."""
    if not module.params["untouched"]:
        return
    touched = touched_packages(run(module, *command, "--simulate")[1], module.params["untouched"])
    if touched:
        remedy = "choose versions that go with what is installed"
        module.fail_json(msg=f"this would change {', '.join(touched)}, too; nothing was changed\n    remedy: {remedy}")


def apt(module: AnsibleModule, changes: Changes) -> None:
    """Make the changes with apt."""
    words, missing = resolve(module, changes["install"]) if changes["install"] else ([], [])
    if missing:  # it may be newer than the lists
        run(module, *APT, "update")
        words, missing = resolve(module, changes["install"])
    if missing:
        remedy = "choose a version that is there, or see that the repository is known and complete"
        module.fail_json(msg=f"no such version: {'; '.join(missing)}\n    remedy: {remedy}")
    words += [f"{name}-" for name in changes["remove"]]
    if words:
        command = [*APT, "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages", "install"]
        refuse_touched(module, [*command, *words])
        with services_held(held=not module.params["start_services"]):
            status, said = run(module, *command, *words)
            if status != 0 and changes["install"]:
                run(module, *APT, "update")  # a file of the old lists may be gone
                status, said = run(module, *command, *words)
        finish(module, status, words, said)


def apt_mark(module: AnsibleModule, changes: Changes) -> None:
    """Hold and free with apt."""
    for action in ("unhold", "hold"):
        if changes[action]:
            status, said = run(module, "apt-mark", action, *changes[action])
            finish(module, status, [action, *changes[action]], said)


def dnf(module: AnsibleModule, changes: Changes) -> None:
    """Make the changes with dnf; what is locked is freed first, or dnf would not see other versions."""
    words = [word.replace("=", "-", 1) for word in changes["install"]]
    wanted = {package["name"] for package in module.params["packages"] if package["hold"]}
    moving = [word.partition("=")[0] for word in changes["install"]]
    freed = sorted({*changes["unhold"], *moving}) if LOCKS.exists() else []
    if freed:
        run(module, "dnf", "-q", "versionlock", "delete", *freed)
    if changes["remove"]:
        finish(module, *reordered(run(module, "dnf", "-y", "remove", *changes["remove"]), changes["remove"]))
    if changes["hold"]:
        words.append(LOCK_PLUGIN)
    if words:
        command = ["dnf", "-y", "--setopt=install_weak_deps=False", "--allowerasing", "install"]
        finish(module, *reordered(run(module, *command, *words), words))
    lock = sorted({*changes["hold"], *(wanted & set(moving))})
    if lock:
        finish(module, *reordered(run(module, "dnf", "-q", "versionlock", "add", *lock), lock))


def reordered(result: tuple[int, str], words: list[str]) -> tuple[int, list[str], str]:
    """Return the arguments of `finish` for the result of a command."""
    return result[0], words, result[1]


def finish(module: AnsibleModule, status: int, words: list[str], said: str) -> None:
    """Fail the module unless the status is 0."""
    if status != 0:
        remedy = "see that the repository has these versions (apt list -a, dnf list --showduplicates), or choose others"
        module.fail_json(msg=f"{' '.join(words)}: {error_text(said)}\n    remedy: {remedy}", output=said)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    params = module.params
    before = present_packages(module)
    changes = changes_for(params["packages"], params["absent"], before)
    changed = any(changes.values())
    if changed and not module.check_mode:
        if module.get_bin_path("apt-get"):
            apt(module, changes)
            # Whatever was held and moved is held no more.
            apt_mark(module, changes_for(params["packages"], params["absent"], present_packages(module)))
        else:
            dnf(module, changes)
        left = changes_for(params["packages"], params["absent"], present_packages(module))
        if any(left.values()):
            wrong = ", ".join(left["install"] + left["remove"] + left["hold"] + left["unhold"])
            module.fail_json(msg=f"after the transaction these are still not as declared: {wrong}")
    texts = {"before": as_lines(before), "after": as_lines(before, changes)}
    headers = {"before_header": "packages", "after_header": "packages"}
    module.exit_json(
        changed=changed,
        installed=changes["install"],
        removed=changes["remove"],
        diff=[{**texts, **headers}] if changed else [],
    )


if __name__ == "__main__":
    main()
