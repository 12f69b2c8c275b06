"""Module that tries whether ordinary users may run containers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: user_namespaces_info
author: busbar contributors
short_description: Try whether ordinary users may run rootless containers
description:
  - Makes a user and a mount namespace as the user nobody, which is what a rootless container begins with.
  - When that fails, says which setting forbids it, and the line that allows it.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
  key:
    description: Name of the variable that asks for containers, for the problems.
    type: str
    required: true
  program:
    description:
      - The runtime. Where AppArmor restricts namespaces, a profile that names it may allow them to it alone, so it is
        itself tried with O(arguments); without it C(unshare) is.
    type: path
  arguments:
    description: Arguments with which the program makes a namespace and does nothing else.
    type: list
    elements: str
    default: []
  profile:
    description:
      - Name of the AppArmor profile with which the runtime's package allows namespaces to its own program. Where
        AppArmor alone forbids them to others, a profile that is loaded is enough, and so is a package that has yet to
        bring it.
    type: str
    default: ""
  installed:
    description: Whether the runtime's package is installed, so that its profile must be loaded.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Try whether users may run containers
  busbar.cluster.user_namespaces_info:
    host: "{{ inventory_hostname }}"
    key: charliecloud_enabled
  register: __example_namespaces
"""

RETURN = r"""
problems:
  description: What is wrong, each with C(hosts), C(key), C(problem) and C(remedy); empty when all is well.
  returned: always
  type: list
  elements: dict
settings:
  description: The kernel's settings by their path below /proc/sys; null where the kernel has no such setting.
  returned: always
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.containers.user_namespaces import SETTINGS, user_namespace_problems

PROC_SYS = Path("/proc/sys")
PROFILES = Path("/sys/kernel/security/apparmor/profiles")
NOBODY = "65534"
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "true"]


def read_settings(root: Path = PROC_SYS) -> dict[str, int | None]:
    """Return the value of each setting, null where there is none."""
    found: dict[str, int | None] = {}
    for name in SETTINGS:
        try:
            found[name] = int((root / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            found[name] = None
    return found


def profile_allows(profile: str, *, installed: bool, loaded: Path = PROFILES) -> bool:
    """Return whether AppArmor allows namespaces to the runtime by a profile: one that is loaded, or yet to come."""
    if not profile:
        return False
    try:
        lines = loaded.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return not installed or any(line.rpartition(" (")[0] == profile for line in lines)


def refusal(module: AnsibleModule) -> str:
    """Return what was said when nobody tried to make the namespaces; empty when it went well."""
    program = module.params["program"]
    trial = [program, *module.params["arguments"]] if program and Path(program).exists() else UNSHARE
    command = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", *trial]
    status, out, err = module.run_command(command, cwd="/", environ_update={"LC_ALL": "C.UTF-8", "USER": "nobody"})
    return "" if status == 0 else (err or out).strip() or f"`{' '.join(trial)}` ended with {status}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},
            "program": {"type": "path"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "profile": {"type": "str", "default": ""},
            "installed": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    settings = read_settings()
    problems = user_namespace_problems(
        module.params["host"],
        module.params["key"],
        settings,
        refusal(module),
        allowed=profile_allows(module.params["profile"], installed=module.params["installed"]),
    )
    module.exit_json(changed=False, problems=problems, settings=settings)


if __name__ == "__main__":
    main()
