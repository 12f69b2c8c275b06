"""How package managers are called by every module: without questions, one at a time, services held if wished."""

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

__all__ = [
    "APT",
    "ENVIRONMENT",
    "INTERRUPTED",
    "POLICY",
    "clear_policy",
    "error_text",
    "fetch_problems",
    "install_command",
    "lists_are_fresh",
    "run_manager",
    "services_held",
]

LISTS = Path("/var/lib/apt/lists")
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_LOCK = Path("/run/busbar-policy-rc.d.lock")
FRESH_S = 3600
# Who comes first in the moment between a look at the lock and apt's own is waited for without a word.
APT = ["apt-get", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_PATIENCE_S}", "-o", "Dpkg::Options::=--force-confold"]
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
UNMET = "The following packages have unmet dependencies:"
# Of a host that lost its power in the middle: apt does nothing until what is unpacked is configured.
INTERRUPTED = "dpkg was interrupted"
SUMMARY = "Errors were encountered while processing:"
MOST_LINES = 30
MOST_SCRIPT_LINES = 5
MOST_FETCHES = 3
# What dpkg says when it begins with a package, so that what follows is said by a script of it.
STEPS = ("Setting up ", "Unpacking ", "Preparing to unpack ", "Processing triggers ", "Removing ")
FETCH = re.compile(r"[EW]: (?:Failed to fetch|Unable to fetch)")
# In force only while a process has the lock: what a killed install leaves behind holds nothing back.
POLICY_MARK = "# Written by busbar while it installs packages"
POLICY_TEXT = """\
#!/bin/sh
{mark}; without effect once that is over.
flock --nonblock --exclusive {lock} true || exit 101
exit 0
"""


def install_command(
    module: Any,  # noqa: ANN401 - Ansible has no types
    *,
    recommends: bool = False,
    apt: Sequence[str] = (),
    dnf: Sequence[str] = (),
) -> list[str]:
    """Return how the host's package manager installs, with options that only one of the two has."""
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
    """Return the exit status of a package manager and what it said; end the module while another one is at work.

    Args:
        module: the module that runs.
        command: the words of the command.
        environment: of the command, if it is another one than usual.
        recorded: whether `uninstall` undoes the change.
    """
    wait_for_lock(module, lock_holder())
    words = ["dnf", "--setopt=exit_on_lock=True", *command[1:]] if command[0] == "dnf" else list(command)
    if recorded:
        words = before_packages(module, words)
    status, out, err = module.run_command(words, environ_update=environment or ENVIRONMENT)
    said = f"{out}\n{err}"
    if is_lock_failure(command, status, said):
        wait_for_lock(module, first_holder() or {"lock": command[0], "pid": 0, "process": "", "command": ""})
    return status, said


def lists_are_fresh(lists: Path = LISTS) -> bool:
    """Return whether there are package lists of apt, fetched within the last hour."""
    found = [*lists.glob("*_Packages*"), *lists.glob("*_InRelease"), *lists.glob("*_Release")]
    return any(path.name.find("_Packages") > 0 for path in found) and (
        # The date of a list is the server's; the directory's is ours.
        time.time() - lists.stat().st_mtime < FRESH_S
    )


def open_policy_lock(lock: Path) -> IO[str]:
    """Return the lock of the policy, open; nobody else may open it, or he could keep services from starting."""
    return os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+")


def is_own_policy(policy: Path) -> bool:
    """Return whether a policy for services is the one that is written here."""
    try:
        return POLICY_MARK in policy.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def clear_policy(policy: Path = POLICY, lock: Path = POLICY_LOCK) -> bool:
    """Take away the policy that a killed install has left; return whether there was one."""
    if not is_own_policy(policy):
        return False
    with open_policy_lock(lock) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # an install is going on
        policy.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def services_held(*, held: bool, policy: Path = POLICY, lock: Path = POLICY_LOCK) -> Iterator[None]:
    """Keep Debian's packages from starting services, unless somebody else's policy is there already.

    Several installs may do so at once: each has a share of the lock, and the last one takes the policy away.
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
            with contextlib.suppress(OSError):  # another install goes on under it
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                policy.unlink(missing_ok=True)


def error_text(said: str) -> str:
    """Return the errors in what a package manager said and its reasons for them, or its last lines.

    apt gives its reasons before its errors, as a list of unmet dependencies, and since 3.0 also after them, indented;
    dnf indents them after the word Error. Of a script of a package that fails dpkg says which, and before that the
    script what it had to say.
    """
    reasons: list[str] = []
    errors: list[str] = []
    of_script: list[str] = []
    block = ""
    for line in said.splitlines():
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
    return "\n".join((errors + reasons)[:MOST_LINES]) or " ".join(said.splitlines()[-5:])


def fetch_problems(said: str, shown: str = "") -> str:
    """Return which files apt could not fetch and why, to be appended to an error; '' when it got all.

    Args:
        said: by apt.
        shown: what the error says already.
    """
    lines = (" ".join(line.split()) for line in said.splitlines() if FETCH.match(line))
    found = list(dict.fromkeys(lines))
    if not found:
        return ""
    told = " ".join(shown.split())
    more = [line for line in found if line not in told][:MOST_FETCHES]
    remedy = "see that the host resolves the name and reaches the address (getent hosts NAME, curl -I URL), run again"
    return "".join(f"\n    {line}" for line in more) + f"\n    remedy: {remedy}"
