"""Module that selects the hooks that run when an Enroot container starts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_hooks
author: busbar contributors (!UNKNOWN)
short_description: Choose the hooks of Enroot
description:
  - Links the chosen hooks that upstream offers into C(/etc/enroot/hooks.d), and removes the links of the others.
  - Sets the execute permission of the hooks that upstream installs, because Enroot runs only executable hooks.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  hooks:
    description: Hooks to enable; all other shipped hooks are disabled.
    type: list
    elements: str
    required: true
  shipped: {description: Hooks that upstream installs., type: list, elements: str, required: true}
"""

EXAMPLES = r"""
- busbar.cluster.enroot_hooks: {hooks: [50-slurm-pmi.sh], shipped: [98-nvidia.sh]}
"""

RETURN = r"""
hooks: {description: Hooks that were or would be switched., returned: always, type: list, elements: str}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_making

ON = 0o755
OFF = 0o644
EXECUTABLE = 0o111
DIRECTORY = Path("/etc/enroot/hooks.d")
# Hooks that upstream ships but does not enable.
OFFERED = Path("/usr/share/enroot/hooks.d")


class Hooks:
    """The hooks on a host."""

    def __init__(self, module: AnsibleModule, directory: Path, offered: Path):
        """Store the directories of enabled and offered hooks."""
        self.module, self.check = module, module.check_mode
        self.directory, self.offered = directory, offered
        self.changed: dict[str, bool] = {}

    def switch(self, name: str, *, on: bool) -> None:
        """Enable or disable a hook that upstream installs, through its execute permission."""
        path = self.directory / name
        if path.exists() and bool(path.stat().st_mode & EXECUTABLE) != on:
            self.changed[name] = on
            if not self.check:
                path.chmod(ON if on else OFF)

    def link(self, name: str) -> None:
        """Enable a hook that upstream offers."""
        path, target = self.directory / name, self.offered / name
        if path.is_symlink() and path.readlink() == target:
            return
        self.changed[name] = True
        if not self.check:
            before_making(self.module, "link", path)
            path.unlink(missing_ok=True)
            path.symlink_to(target)

    def unlink(self, chosen: list[str]) -> None:
        """Remove the links to hooks that are no longer chosen."""
        for path in sorted(self.directory.glob("*.sh")):
            if path.is_symlink() and path.readlink().parent == self.offered and path.name not in chosen:
                self.changed[path.name] = False
                if not self.check:
                    path.unlink()


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "hooks": names,
            "shipped": names,
        },
        supports_check_mode=True,
    )
    chosen, shipped = module.params["hooks"], module.params["shipped"]
    extra = [name for name in chosen if name not in shipped]
    absent = [name for name in extra if not (OFFERED / name).exists()]
    if absent and not (module.check_mode and not OFFERED.exists()):
        module.fail_json(
            msg=f"enroot_hooks: this version of Enroot does not have {', '.join(absent)}. Remedy: choose "
            f"hooks from {DIRECTORY} and {OFFERED}"
        )
    hooks = Hooks(module, DIRECTORY, OFFERED)
    for name in shipped:
        hooks.switch(name, on=name in chosen)
    for name in extra:
        hooks.link(name)
    hooks.unlink(extra)
    diff = [
        {"before": "off\n" if on else "on\n", "after": "on\n" if on else "off\n"}
        | {"before_header": name, "after_header": name}
        for name, on in hooks.changed.items()
    ]
    module.exit_json(changed=bool(hooks.changed), hooks=list(hooks.changed), diff=diff)


if __name__ == "__main__":
    main()
