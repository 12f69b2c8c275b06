"""Module that checks whether users can run containers on a host, and whether registries accept their credentials."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_info
author: busbar contributors (!UNKNOWN)
short_description: Check user namespaces and credentials for container registries
description:
  - Without O(credentials), creates a user namespace as the user C(nobody), as a rootless container does. If that fails,
    returns the kernel setting that forbids it, and its remedy.
  - With O(credentials), authenticates to each registry without pulling. A registry that rejects the login is a problem,
    and so is a token server for which the user has no login. A registry that does not answer is a note.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  key:
    description: Name of the variable that enables containers or holds the credentials, for messages.
    type: str
    required: true
  program:
    description:
      - Path of the runtime. If it is installed, it is tried instead of C(unshare), because an AppArmor profile may
        allow namespaces only to the runtime.
    type: path
  profile:
    description: Name of the AppArmor profile in the runtime's package that allows user namespaces.
    type: str
    default: ""
  installed:
    description: Whether the runtime's package is installed. Its profile must then be loaded.
    type: bool
    default: true
  credentials:
    description: The credentials, each with C(user), C(machine), C(login) and C(password).
    type: list
    elements: dict
    suboptions:
      user:
        description: Owner of the credential, for messages.
        type: str
        required: true
      machine:
        description: Name of the registry.
        type: str
        required: true
      port:
        description: Port of the registry, if it is not the default of the scheme.
        type: int
      login:
        description: Login name.
        type: str
        required: true
      password:
        description: Password or token. A value in C($(…)) is not tested, since the user's shell expands it.
        type: str
        required: true
  http:
    description: Whether to connect to registries without TLS.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check whether users may run containers
  busbar.cluster.container_info:
    host: "{{ inventory_hostname }}"
    key: charliecloud_enabled
  register: __example_namespaces
"""

RETURN = r"""
problems:
  description: Problems, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: always
  type: list
  elements: dict
notes:
  description: One line for each registry that did not answer.
  returned: with O(credentials)
  type: list
  elements: str
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import Problem, make_problem
from ..module_utils.containers.enroot_credentials import is_evaluated, with_token_hosts
from ..module_utils.containers.registry_access import MISSING, REFUSED, UNKNOWN, Login, registry_access

if TYPE_CHECKING:
    from collections.abc import Mapping

PROC_SYS = Path("/proc/sys")
PROFILES = Path("/sys/kernel/security/apparmor/profiles")
NOBODY = "65534"
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "true"]
# Kernel settings that can forbid user namespaces, as files below /proc/sys; some kernels do not have all of them.
SETTINGS = (
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
_FILE = "/etc/sysctl.d/90-user-namespaces.conf"


def user_namespace_problems(
    host: str, key: str, settings: Mapping[str, int | None], refusal: str = "", *, allowed: bool = False
) -> list[Problem]:
    """Return why unprivileged users of a host cannot run containers.

    Args:
        host: name of the host.
        key: name of the variable that enables containers on the host.
        settings: value of each of SETTINGS, None if the kernel does not have it.
        refusal: error of a trial as an unprivileged user; empty if it succeeded.
        allowed: whether an AppArmor profile allows the container runtime to create user namespaces.
    """
    if not refusal:
        return []
    found = [
        make_problem([host], key, f"{name} is {settings.get(path)}", remedy)
        for path, name, wrong, remedy in _RULES
        if settings.get(path) == wrong
    ]
    if allowed and settings.get(SETTINGS[2]) == 1 and len(found) == 1:
        return []
    return found or [
        make_problem(
            [host],
            key,
            f"unprivileged users cannot create user namespaces: {refusal}",
            "boot a kernel with CONFIG_USER_NS, or allow it in the container or security module that restricts this "
            "host",
        )
    ]


def _sysctl(setting: str) -> str:
    """Return the instruction to set a sysctl now and at every boot."""
    return f"put `{setting}` into {_FILE} and run `sysctl --system`"


_RULES = (
    (SETTINGS[0], "user.max_user_namespaces", 0, _sysctl("user.max_user_namespaces = 15000")),
    (SETTINGS[1], "kernel.unprivileged_userns_clone", 0, _sysctl("kernel.unprivileged_userns_clone = 1")),
    (
        SETTINGS[2],
        "kernel.apparmor_restrict_unprivileged_userns",
        1,
        "give the runtime an AppArmor profile with the rule `userns,`, or "
        + _sysctl("kernel.apparmor_restrict_unprivileged_userns = 0"),
    ),
)


def read_settings(root: Path = PROC_SYS) -> dict[str, int | None]:
    """Return the value of each setting, or None if the kernel does not have it."""
    found: dict[str, int | None] = {}
    for name in SETTINGS:
        try:
            found[name] = int((root / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            found[name] = None
    return found


def profile_allows(profile: str, *, installed: bool, loaded: Path = PROFILES) -> bool:
    """Return whether an AppArmor profile, loaded or about to be installed, allows the runtime to create namespaces."""
    if not profile:
        return False
    try:
        lines = loaded.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return not installed or any(line.rpartition(" (")[0] == profile for line in lines)


def refusal(module: AnsibleModule) -> str:
    """Return the error from creating the namespaces as an unprivileged user; empty if it succeeds."""
    program = module.params["program"]
    trial = [program] if program and Path(program).exists() else UNSHARE
    command = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", *trial]
    status, out, err = module.run_command(command, cwd="/", environ_update={"LC_ALL": "C.UTF-8", "USER": "nobody"})
    return "" if status == 0 else (err or out).strip() or f"`{' '.join(trial)}` exited with status {status}"


def logins_of(credentials: list[dict[str, Any]]) -> dict[str, dict[str, Login]]:
    """Return the logins of each user by machine, including those for separate token hosts."""
    found: dict[str, dict[str, Login]] = {}
    for item in with_token_hosts(credentials):
        password = None if is_evaluated(item["password"]) else item["password"]
        login = Login(item["machine"], item["login"], password, item["port"])
        found.setdefault(item["user"], {})[item["machine"]] = login
    return found


def ask_registries(module: AnsibleModule) -> None:
    """Exit the module with the registries that refuse the credentials."""
    problems, notes = [], {}
    for user, logins in logins_of(module.params["credentials"]).items():
        gives_tokens = set()
        for machine, login in logins.items():
            found = registry_access(login, logins, http=module.params["http"])
            gives_tokens.add(found.tokens)
            port = f":{login.port}" if login.port else ""
            who = f"{machine}{port}, login {login.login} of user {user}"
            if found.state == REFUSED:
                problem, remedy = f"refused: {found.detail}", "put a valid token into the vault, or remove the entry"
            elif found.state == MISSING:
                problem, remedy = found.detail, f"add an entry for {user} with machine: {found.tokens}"
            else:
                if found.state == UNKNOWN:
                    notes[user, machine] = f"{who}: not tested: {found.detail}"
                continue
            text = f"{who}: {problem}"
            problems.append(make_problem([module.params["host"]], module.params["key"], text, remedy))
        # A token server is not a registry; its login was already tested with the registry that it serves.
        for machine in gives_tokens:
            notes.pop((user, machine), None)
    module.exit_json(changed=False, problems=problems, notes=list(notes.values()))


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    credential = {"user": word, "machine": word, "port": {"type": "int"}, "login": word}
    credential["password"] = {**word, "no_log": True}
    module = AnsibleModule(
        argument_spec={
            "host": word,
            "key": {**word, "no_log": False},
            "program": {"type": "path"},
            "profile": {"type": "str", "default": ""},
            "installed": {"type": "bool", "default": True},
            "credentials": {"type": "list", "elements": "dict", "options": credential},
            "http": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    if given["credentials"] is not None:
        ask_registries(module)
    allowed = profile_allows(given["profile"], installed=given["installed"])
    settings = read_settings()
    problems = user_namespace_problems(given["host"], given["key"], settings, refusal(module), allowed=allowed)
    module.exit_json(changed=False, problems=problems)


if __name__ == "__main__":
    main()
