"""Run package managers without prompts and one at a time, optionally without starting services."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .baseline import before_packages
from .package_lock import LOCK_PATIENCE_S, first_holder, is_lock_failure, lock_holder, wait_for_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ansible.module_utils.basic import AnsibleModule

__all__ = [
    "APT",
    "ENVIRONMENT",
    "INTERRUPTED",
    "POLICY",
    "clear_policy",
    "error_text",
    "fetch_problems",
    "install_command",
    "installed_versions",
    "lists_are_fresh",
    "run_manager",
    "services_held",
]

LISTS = Path("/var/lib/apt/lists")
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_LOCK = Path("/run/busbar-policy-rc.d.lock")
FRESH_S = 3600
# Another process may take apt's lock after the check; apt then waits for it silently.
APT = ["apt-get", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_PATIENCE_S}", "-o", "Dpkg::Options::=--force-confold"]
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
UNMET = "The following packages have unmet dependencies:"
# After a power failure apt refuses to work until `dpkg --configure` has run.
INTERRUPTED = "dpkg was interrupted"
SUMMARY = "Errors were encountered while processing:"
MOST_LINES = 30
MOST_SCRIPT_LINES = 5
MOST_FETCHES = 3
# dpkg prints one of these when it starts to process a package; the lines after it come from the maintainer script.
STEPS = ("Setting up ", "Unpacking ", "Preparing to unpack ", "Processing triggers ", "Removing ")
FETCH = re.compile(r"[EW]: (?:Failed to fetch|Unable to fetch)")
# The policy applies only while a process holds the lock; a stale file has no effect.
POLICY_MARK = "# Written by busbar during package installation"
POLICY_TEXT = """\
#!/bin/sh
{mark}; has no effect afterwards.
flock --nonblock --exclusive {lock} true || exit 101
exit 0
"""


def installed_versions(module: AnsibleModule, names: Sequence[str]) -> dict[str, str]:
    """Return the versions of the installed packages among `names`."""
    if not names:
        return {}
    if module.get_bin_path("dpkg-query"):
        _, out, _ = module.run_command(
            ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\\n", *names]
        )
        found = [line.split() for line in out.splitlines()]
        return {words[0]: words[2] for words in found if len(words) == 3 and words[1] == "installed"}  # noqa: PLR2004
    _, out, _ = module.run_command(["rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", *names])
    return dict(line.split() for line in out.splitlines() if len(line.split()) == 2)  # noqa: PLR2004


def install_command(
    module: Any,  # noqa: ANN401 - Ansible has no types
    *,
    recommends: bool = False,
    apt: Sequence[str] = (),
    dnf: Sequence[str] = (),
) -> list[str]:
    """Return the install command of the host's package manager; `apt` and `dnf` are extra options for each one."""
    if module.get_bin_path("apt-get"):
        return [*APT, *([] if recommends else ["--no-install-recommends"]), *apt, "install"]
    return ["dnf", "-y", *([] if recommends else ["--setopt=install_weak_deps=False"]), *dnf, "install"]


def run_manager(
    module: Any,  # noqa: ANN401 - Ansible has no types
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    recorded: bool = True,
) -> tuple[int, str]:
    """Return the exit status and the output of a package manager; fail the module if another process keeps the lock.

    Args:
        module: the running module.
        command: command and arguments.
        environment: overrides the default environment.
        recorded: whether `uninstall` reverts the change.
    """
    wait_for_lock(module, lock_holder())
    words = ["dnf", "--setopt=exit_on_lock=True", *command[1:]] if command[0] == "dnf" else list(command)
    if recorded:
        words = before_packages(module, words)
    status, out, err = module.run_command(words, environ_update=environment or ENVIRONMENT)
    output = f"{out}\n{err}"
    if is_lock_failure(command, status, output):
        wait_for_lock(module, first_holder() or {"lock": command[0], "pid": 0, "process": "", "command": ""})
    return status, output


def lists_are_fresh(lists: Path = LISTS) -> bool:
    """Return whether apt's package lists exist and were updated within the last hour."""
    found = [*lists.glob("*_Packages*"), *lists.glob("*_InRelease"), *lists.glob("*_Release")]
    return any(path.name.find("_Packages") > 0 for path in found) and (
        # A list file has the server's timestamp; the directory has the time of the update.
        time.time() - lists.stat().st_mtime < FRESH_S
    )


def open_policy_lock(lock: Path) -> IO[str]:
    """Open the lock with mode 0600: a user who held it could keep services from starting."""
    return os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+")


def is_own_policy(policy: Path) -> bool:
    """Return whether busbar wrote a policy-rc.d file."""
    try:
        return POLICY_MARK in policy.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def clear_policy(policy: Path = POLICY, lock: Path = POLICY_LOCK) -> bool:
    """Remove the policy that a killed installation left behind; return whether it was removed."""
    if not is_own_policy(policy):
        return False
    with open_policy_lock(lock) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # an installation is running
        policy.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def services_held(*, held: bool, policy: Path = POLICY, lock: Path = POLICY_LOCK) -> Iterator[None]:
    """Keep Debian packages from starting services, unless the host has a policy-rc.d that busbar did not write.

    Several installations may run at once: they share the lock, and the last one removes the policy.
    """
    if not held or (policy.exists() and not is_own_policy(policy)):
        yield
        return
    with open_policy_lock(lock) as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        fresh = policy.with_name(f"{policy.name}.busbar-{os.getpid()}")
        fresh.write_text(POLICY_TEXT.format(mark=POLICY_MARK, lock=lock), encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(policy)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # another installation still uses it
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                policy.unlink(missing_ok=True)


def error_text(output: str) -> str:
    """Return the errors and their reasons from the output of a package manager, or its last lines.

    apt prints the reasons as a list of unmet dependencies before its errors, and since 3.0 also indented after them.
    dnf prints them indented after the word Error. If a maintainer script fails, dpkg prints the package name after the
    script's output.
    """
    reasons: list[str] = []
    errors: list[str] = []
    of_script: list[str] = []
    block = ""
    for line in output.splitlines():
        if line.startswith(("E:", "Error")) and not line.startswith(SUMMARY):
            block = "error"
        elif line.startswith(UNMET):
            block = "unmet"
            continue
        elif line.startswith(STEPS):
            block, of_script = "", []
        elif line.startswith("dpkg: error processing "):
            block = "dpkg"
            reasons += of_script[-MOST_SCRIPT_LINES:]
            of_script = []
        elif not line.startswith(" "):
            block = ""
            of_script.append(line.rstrip())
        if block:
            (errors if block == "error" else reasons).append(line.rstrip())
    return "\n".join((errors + reasons)[:MOST_LINES]) or " ".join(output.splitlines()[-5:])


def fetch_problems(output: str, shown: str = "") -> str:
    """Return the part of an error message that lists files apt could not fetch; '' if it fetched all.

    Args:
        output: output of apt.
        shown: text of the error; lines in it are not repeated.
    """
    lines = (" ".join(line.split()) for line in output.splitlines() if FETCH.match(line))
    found = list(dict.fromkeys(lines))
    if not found:
        return ""
    shown_text = " ".join(shown.split())
    more = [line for line in found if line not in shown_text][:MOST_FETCHES]
    remedy = (
        "check that the host resolves the name and reaches the URL (getent hosts NAME, curl -I URL), then run again"
    )
    return "".join(f"\n    {line}" for line in more) + f"\n    remedy: {remedy}"
