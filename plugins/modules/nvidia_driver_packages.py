"""Module that brings the packages of the NVIDIA driver to one version and keeps them there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_packages
author: busbar contributors
short_description: Bring the packages of the NVIDIA driver to one version and hold them
description:
  - Installs, upgrades or downgrades all of them in one transaction, which also takes away what they replace. When it
    fails, the host has what it had.
  - Then every installed package of that version is held (apt) or locked (dnf).
  - In check mode it says what would be done, without the network.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  packages:
    description: Package to version; an empty version takes what is installed, or the newest.
    type: dict
    required: true
  remove:
    description: Installed packages that make way.
    type: list
    elements: str
    default: []
  family:
    description: Patterns of the packages that are held when they have the version.
    type: list
    elements: str
    required: true
  version:
    description: Version of the driver, without a package's revision. Empty when only the run will tell.
    type: str
    default: ""
  stream:
    description: Module stream to enable, as V(nvidia-driver:580-open). Only for dnf.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Bring the driver to its version
  busbar.cluster.nvidia_driver_packages:
    packages: {nvidia-driver-cuda: 580.95.05-1, nvidia-kernel-open-dkms: 580.95.05-1}
    family: ["nvidia-*", "libnvidia-*"]
    version: 580.95.05
"""

RETURN = r"""
installed:
  description: Packages with their versions that were (or in check mode would be) installed.
  returned: always
  type: dict
removed:
  description: Packages that were (or in check mode would be) taken away.
  returned: always
  type: list
  elements: str
held:
  description: Packages that were (or in check mode would be) held anew.
  returned: always
  type: list
  elements: str
"""

from fnmatch import fnmatchcase
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.package_commands import APT, error_text, run_manager

APT_INSTALL = [*APT, "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages", "install"]
DNF = ["dnf", "-y", "--setopt=install_weak_deps=False", "--allowerasing"]
WORDS = 3


def driver_version(package: str) -> str:
    """Return the driver's version in that of a package: '3:570.133.20-1ubuntu1' gives '570.133.20'."""
    return package.rpartition(":")[2].partition("-")[0]


def is_right(installed: str | None, wanted: str) -> bool:
    """Return whether a package is there in the version asked for, which may end in '*'."""
    return installed is not None and (not wanted or installed == wanted or fnmatchcase(installed, wanted))


class Manager:
    """The package manager of a host."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the module."""
        self.module = module
        self.apt = bool(module.get_bin_path("dpkg-query"))

    def run(self, command: list[str]) -> None:
        """Run a command that changes packages; fail the module when it fails."""
        status, said = run_manager(self.module, command)
        if status != 0:
            self.module.fail_json(
                msg=f"the driver's packages stay as they were: {' '.join(command[:1])}: {error_text(said)}", output=said
            )

    def installed(self) -> dict[str, str]:
        """Return the installed packages of the family and those that are asked for, with versions."""
        params = self.module.params
        names = [*params["family"], *params["packages"], *params["remove"]]
        if self.apt:
            command = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n", *names]
        else:
            command = ["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE} ii\n", *names]
        lines = (line.split() for line in self.module.run_command(command)[1].splitlines())
        return {words[0]: words[1] for words in lines if len(words) == WORDS and words[2][1] == "i"}

    def held(self) -> set[str]:
        """Return the packages that are held."""
        if self.apt:
            return set(self.module.run_command(["apt-mark", "showhold"], check_rc=True)[1].split())
        out = self.module.run_command(["dnf", "-q", "versionlock", "list"])[1]
        return {line.rpartition("-")[0].rpartition("-")[0].rpartition(":")[0] or line for line in out.split()}

    def stream_is_enabled(self) -> bool:
        """Return whether the module stream is the one asked for."""
        stream = self.module.params["stream"]
        if self.apt or not stream:
            return True
        name, _, wanted = stream.partition(":")
        out = self.module.run_command(["dnf", "-q", "module", "list", "--enabled", name])[1]
        return any(line.split()[:2] == [name, wanted] for line in out.splitlines())

    def install(self, packages: dict[str, str], remove: list[str]) -> None:
        """Bring the packages to their versions, all in one transaction."""
        if self.apt:
            self.install_by_apt(packages, remove)
            return
        stream = self.module.params["stream"]
        if not self.stream_is_enabled():
            self.run(["dnf", "-y", "module", "reset", stream.partition(":")[0]])
            self.run(["dnf", "-y", "module", "enable", stream])
        self.run(["dnf", "-y", "install", "python3-dnf-plugin-versionlock"])
        self.module.run_command(["dnf", "-y", "versionlock", "delete", *packages, *remove])
        wanted = [f"{name}-{version.rstrip('*-')}*" if version else name for name, version in packages.items()]
        self.run([*DNF, "install", *wanted])

    def install_by_apt(self, packages: dict[str, str], remove: list[str]) -> None:
        """Install with apt, which moves no held package for the sake of another one: let the family go meanwhile."""
        wanted = [f"{name}={version}" if version else name for name, version in packages.items()]
        held = sorted(self.held() & set(self.installed()))
        if held:
            self.run(["apt-mark", "unhold", *held])
        try:
            self.run([*APT_INSTALL, *wanted, *(f"{name}-" for name in remove)])
        finally:
            kept = sorted(set(held) & set(self.installed()))
            if kept:
                self.run(["apt-mark", "hold", *kept])

    def hold(self, names: list[str]) -> None:
        """Hold packages at their versions."""
        self.run(["apt-mark", "hold", *names] if self.apt else ["dnf", "-y", "versionlock", "add", *names])


def to_hold(installed: dict[str, str], packages: dict[str, str], version: str) -> list[str]:
    """Return which packages belong on hold, sorted."""
    of_driver = {name for name, each in installed.items() if version and driver_version(each) == version}
    return sorted(of_driver | (set(packages) & set(installed)))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "required": True},
            "remove": {"type": "list", "elements": "str", "default": []},
            "family": {"type": "list", "elements": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "stream": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    manager = Manager(module)
    packages: dict[str, str] = module.params["packages"]
    before = manager.installed()
    missing = {name: version for name, version in packages.items() if not is_right(before.get(name), version)}
    remove = [name for name in module.params["remove"] if name in before]
    change = bool(missing or remove or not manager.stream_is_enabled())
    if change and not module.check_mode:
        # All of them are named, so that none is moved by the dependencies of another one.
        manager.install(packages, remove)
    after: dict[str, str] = manager.installed() if change and not module.check_mode else {**before, **missing}
    version = module.params["version"]
    hold = [name for name in to_hold(after, packages, version) if name not in manager.held()]
    if hold and not module.check_mode:
        manager.hold(hold)
    module.exit_json(
        changed=change or bool(hold),
        installed=missing,
        removed=remove,
        held=hold,
        diff=[difference(before, after, remove, hold)] if change or hold else [],
    )


def difference(before: dict[str, str], after: dict[str, str], remove: list[str], hold: list[str]) -> dict[str, Any]:
    """Return what Ansible shows as the difference."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name) and name not in remove)
    old = [f"{name} {before[name]}" for name in sorted({*names, *remove}) if name in before]
    new = [f"{name} {after[name]}" for name in names if name in after] + [f"{name} held" for name in hold]
    shown = {"before_header": "packages of the NVIDIA driver", "after_header": "packages of the NVIDIA driver"}
    return shown | {"before": "".join(f"{line}\n" for line in old), "after": "".join(f"{line}\n" for line in new)}


if __name__ == "__main__":
    main()
