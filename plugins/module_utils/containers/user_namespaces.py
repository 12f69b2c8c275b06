"""Check whether users can create user namespaces, which rootless containers need, and what forbids them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SETTINGS", "user_namespace_problems"]

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
