"""Plan Enroot's packages and configuration, and check its kernel requirements."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "NAMESPACE_SETTINGS",
    "declaration_problems",
    "disk_problems",
    "enroot_plan",
    "package_files",
    "settings_text",
    "sysctl_text",
]

_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
_FIRST_PROFILE = [3, 5, 0]
# Kernel settings that Enroot requires (`user.*`: at least this value); settings missing from the kernel are ignored.
NAMESPACE_SETTINGS: dict[str, int] = {
    "kernel.unprivileged_userns_clone": 1,
    "user.max_user_namespaces": 15000,
    "user.max_mnt_namespaces": 15000,
    _APPARMOR: 0,
}
# enroot.in of 4.1.2, config::load. MELLANOX_ and NVIDIA_ are for the hooks 99-mellanox.sh and 98-nvidia.sh.
_KEYS = re.compile(r"ENROOT_[A-Z_]+|(MELLANOX|NVIDIA)_[A-Z0-9_]+|SSL_CERT_(DIR|FILE)|(all|no|http|https)_proxy")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Packages that the role builds from source.
_BUILT = ("enroot", "enroot+caps")
_DEB_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Pyxis (args.c, parse_mount_option) accepts SRC[:DST[:FLAGS]] with flags joined by `+`, and mounts with
# `x-create=auto,rbind` in front of them. Enroot passes unknown flags to the kernel, which ignores them for bind mounts
# (enroot-mount.c, parse_mount_opts): a misspelt `ro` would be writable. So unknown flags are rejected here.
_KEY = "enroot_mounts"
_DEFAULT = "x-create=auto,rbind"
_FLAGS = frozenset(
    {
        "async",
        "atime",
        "bind",
        "dev",
        "exec",
        "noatime",
        "nodev",
        "nodiratime",
        "noexec",
        "nofail",
        "nosuid",
        "private",
        "rbind",
        "relatime",
        "ro",
        "rprivate",
        "rshared",
        "rslave",
        "rw",
        "shared",
        "silent",
        "slave",
        "sync",
        "x-create=auto",
        "x-create=dir",
        "x-create=file",
    }
)
# Characters that are special in fstab lines, in the shell that Enroot reads them with, or in Pyxis' format.
_UNSAFE = frozenset(" \t\n\"'`$\\#")


def _problem(mount: str, problem: str, remedy: str) -> Problem:
    return make_problem([], _KEY, f"{mount!r} {problem}", remedy)


def _flag_problems(mount: str, flags: Sequence[str]) -> list[Problem]:
    """Return a problem for each flag that Enroot does not support."""
    problems = []
    for flag in flags:
        if flag not in _FLAGS:
            near = difflib.get_close_matches(flag, _FLAGS, 1)
            meant = f"write {near[0]}" if near else f"use one or more of {', '.join(sorted(_FLAGS))}"
            problems.append(_problem(mount, f"has the flag {flag!r}, which Enroot does not support", meant))
    return problems


def mount_lines(mounts: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Return the fstab lines of the valid mounts, and the errors in the others.

    Args:
        mounts: each `SOURCE[:TARGET[:FLAGS]]`, absolute paths, flags joined by `+`.
    """
    lines: list[str] = []
    problems: list[Problem] = []
    targets: dict[str, str] = {}
    for mount in mounts:
        source, _, rest = str(mount).partition(":")
        target, _, flags = rest.partition(":")
        target = target or source
        words = [flag for flag in flags.split("+") if flag]
        if not (source.startswith("/") and target.startswith("/")) or target.rstrip("/") == "":
            problems.append(_problem(mount, "is not a mount", "write SOURCE[:TARGET[:FLAGS]] with absolute paths"))
        elif _UNSAFE & set(mount):
            problems.append(_problem(mount, "contains a space, quote, $ or #", "mount a parent directory"))
        elif target in targets:
            problem = f"has the same target as {targets[target]!r}"
            problems.append(_problem(mount, problem, "mount one of them elsewhere"))
        else:
            problems += _flag_problems(mount, words)
            targets[target] = mount
            lines.append(f"{source} {target} none {','.join([_DEFAULT, *words])}")
    return lines, problems


def package_files(names: Sequence[str], release: Mapping[str, str], family: str, architecture: str) -> list[str]:
    """Return the file names of upstream's packages.

    Args:
        names: such as `enroot` and `enroot+caps`.
        release: `version`, `revision` and, for RPM, `dist` such as el8.
        family: `Debian` or `RedHat`.
        architecture: machine name of the kernel.
    """
    version, revision = release["version"], release["revision"]
    if family == "RedHat":
        return [f"{name}-{version}-{revision}.{release['dist']}.{architecture}.rpm" for name in names]
    deb = _DEB_ARCHITECTURES.get(architecture, architecture)
    return [f"{name}_{version}-{revision}_{deb}.deb" for name in names]


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return enroot.conf with one setting per line and Enroot's boolean values; null settings are omitted."""
    lines = []
    for key, value in settings.items():
        if value is not None:
            text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
            lines.append(f"{key:<26} {text}\n")
    return "".join(lines)


def declaration_problems(
    files: Sequence[str], checksums: Mapping[str, str], settings: Mapping[str, Any]
) -> list[Problem]:
    """Return the errors in the declaration.

    Args:
        files: file names of the packages.
        checksums: SHA-256 by file name.
        settings: settings for enroot.conf.
    """
    problems = []
    for name in files:
        if not _SHA256.fullmatch(str(checksums.get(name, ""))):
            problem = f"has no SHA-256 of {name}"
            remedy = f'add the line "{name}: SHA256" with the output of sha256sum for a file from a trusted source'
            problems.append(make_problem([], "enroot_checksums", problem, remedy))
    for key, value in settings.items():
        if not _KEYS.fullmatch(str(key)):
            remedy = "use names such as ENROOT_MAX_CONNECTIONS, NVIDIA_DRIVER_CAPABILITIES or https_proxy"
            problems.append(make_problem([], "enroot_settings", f"{key!r} is not a setting of Enroot", remedy))
        elif "\n" in str(value):
            problems.append(make_problem([], "enroot_settings", f"{key} contains a line break", "write it on one line"))
    return problems


def brings_profile(release: Mapping[str, str], family: str) -> bool:
    """Return whether Enroot's package has an AppArmor profile that allows it to create namespaces.

    Since 3.5.0 the packages for Debian and Ubuntu contain conf/apparmor.profile for /usr/bin/enroot-nsenter
    (pkg/deb/rules).
    """
    version = [int(part) for part in re.findall(r"\d+", release["version"])]
    return family == "Debian" and version >= _FIRST_PROFILE


def namespace_problems(
    host: str, settings: Mapping[str, int | None], *, works: bool, profile: bool = False
) -> list[Problem]:
    """Return why users of a host cannot create user namespaces.

    Args:
        host: name of the host.
        settings: value of each of `NAMESPACE_SETTINGS`; None if the kernel does not have the setting.
        works: whether an unprivileged user could create a namespace.
        profile: whether the package to be installed contains an AppArmor profile that allows namespaces.
    """
    wrong = {
        key: wanted
        for key, wanted in NAMESPACE_SETTINGS.items()
        if settings.get(key) is not None and not _allows(key, int(settings[key] or 0))
    }
    if works or (profile and wrong.keys() == {_APPARMOR}):
        return []
    problem = "unprivileged users cannot create user namespaces, which Enroot requires"
    if wrong:
        problem += ": " + ", ".join(f"{key} is {settings[key]}" for key in wrong)
        commands = " ".join(f"{key}={value}" for key, value in wrong.items())
        remedy = f"run sysctl -w {commands}, or set enroot_sysctls: true, which is permanent"
    else:
        remedy = (
            "boot a kernel with CONFIG_USER_NS (on RHEL: user_namespace.enable=1), or allow it in the container or "
            "security module that restricts this host; check with `unshare --user --map-root-user true`"
        )
    return [make_problem([host], "user namespaces", problem, remedy)]


def _allows(key: str, value: int) -> bool:
    """Return whether a setting has a value that Enroot works with."""
    if key == _APPARMOR:
        return value == 0
    return value >= 1 if key == "kernel.unprivileged_userns_clone" else value > 1


def disk_problems(host: str, path: str, disk: Mapping[str, Any], minimum_mb: int) -> list[Problem]:
    """Return why a disk is unsuitable for images.

    Args:
        host: name of the host.
        path: directory for Enroot's files.
        disk: `total_mb` and `type` of its file system.
        minimum_mb: required total size in MiB.
    """
    problems = []
    if disk["type"] in {"tmpfs", "ramfs"}:
        problem = f"{path} is in memory ({disk['type']}), so images would use the memory of jobs"
        problems.append(make_problem([host], "enroot_path", problem, "set a path on a disk, such as /scratch/enroot"))
    if disk["total_mb"] < minimum_mb:
        problem = (
            f"{path} is on a file system that is too small (found {disk['total_mb']} MiB, "
            f"enroot_minimum_mb: {minimum_mb})"
        )
        problems.append(
            make_problem([host], "enroot_path", problem, "set a path on a larger disk, or lower enroot_minimum_mb")
        )
    return problems


def _user_problems(host: str, unknown: Sequence[str]) -> list[Problem]:
    """Return a problem that lists the users who do not exist on a host."""
    if not unknown:
        return []
    remedy = "declare them in users, or remove their credentials"
    return [make_problem([host], "enroot_credentials", f"unknown users on this host: {', '.join(unknown)}", remedy)]


def sysctl_text(settings: Mapping[str, int | None]) -> str:
    """Return sysctl.conf lines that allow namespaces, for settings that the kernel has, without lowering a limit."""
    lines = []
    for key, wanted in NAMESPACE_SETTINGS.items():
        present = settings.get(key)
        if present is not None:
            lines.append(f"{key} = {max(present, wanted) if key.startswith('user.') else wanted}\n")
    return "".join(lines)


def enroot_plan(declared: Mapping[str, Any], host: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan for Enroot on a host.

    Args:
        declared: `packages`, `release`, `family` and `architecture` as for `package_files`; `package_version` as in the
            package database; `checksums`; `known`, whether the role has the sources of the version; `own`, the role's
            settings, and `settings`, the site's; `mounts` as for `mount_lines`; `path`; `minimum_mb`.
        host: name of the host.
        found: result of `read_enroot`.

    Returns:
        `problems`; `files`, the package file names; `built`, whether a build host builds the packages, whose `sha256`
        is then empty; `mounts`, the lines of fstab. Without problems, also `packages` for the upstream_release
        module, `config`, the text of enroot.conf, and `sysctls`, the text of the sysctl file.
    """
    names = package_files(declared["packages"], declared["release"], declared["family"], declared["architecture"])
    built = (
        not declared["checksums"]
        and bool(declared["known"])
        and declared["family"] == "Debian"
        and set(declared["packages"]) == set(_BUILT)
    )
    checksums = declared["checksums"]
    lines, wrong = mount_lines(declared["mounts"])
    problems = declaration_problems([] if built else names, checksums, declared["settings"]) + wrong
    plan: dict[str, Any] = {"problems": problems, "files": names, "mounts": lines, "built": built}
    if problems:
        return plan
    # An installed Enroot includes its AppArmor profile, so installing the package cannot fix a failed trial.
    profile = not found["installed"] and brings_profile(declared["release"], declared["family"])
    problems += namespace_problems(host, found["settings"], works=found["works"], profile=profile)
    problems += disk_problems(host, declared["path"], found["disk"], int(declared["minimum_mb"]))
    problems += _user_problems(host, found["unknown_users"])
    plan["sysctls"] = sysctl_text(found["settings"])
    plan["packages"] = [
        {"name": name, "version": declared["package_version"], "file": file, "sha256": checksums.get(file, "")}
        for name, file in zip(declared["packages"], names)
    ]
    plan["config"] = settings_text({**declared["own"], **declared["settings"]})
    return plan
