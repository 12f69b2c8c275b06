"""Tests of Enroot's configuration, and of declarations refused before the installation."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.containers.enroot_config import (
    enroot_plan,
    package_files,
    settings_text,
    sysctl_text,
)
from ansible_collections.busbar.cluster.plugins.module_utils.containers.enroot_credentials import credential_files
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import problem_report

SECRET = "s3cret-of-alice"  # noqa: S105 - a made-up one
FILES = ["enroot_4.0.1-1_amd64.deb", "enroot+caps_4.0.1-1_amd64.deb"]
RPMS = ["enroot-4.0.1-1.el8.x86_64.rpm", "enroot+caps-4.0.1-1.el8.x86_64.rpm"]
CREDENTIAL: dict[str, Any] = {"user": "alice", "machine": "nvcr.io", "login": "$oauthtoken", "password": SECRET}
DECLARED: dict[str, Any] = {
    "packages": ["enroot", "enroot+caps"],
    "release": {"version": "4.0.1", "revision": "1", "dist": "el8"},
    "family": "Debian",
    "architecture": "x86_64",
    "package_version": "4.0.1-1",
    "checksums": dict.fromkeys(FILES, "a" * 64),
    "known": False,
    "own": {"ENROOT_CACHE_PATH": "$(enroot_path cache)", "ENROOT_CONFIG_PATH": None},
    "settings": {},
    "mounts": [],
    "path": "/var/lib/enroot",
    "minimum_mb": 20000,
}
FOUND: dict[str, Any] = {
    "works": True,
    "installed": False,
    "settings": {},
    "mounts": [],
    "disk": {"total_mb": 100_000, "free_mb": 1, "type": "xfs"},
    "unknown_users": [],
}


def report(declared: dict[str, Any] | None = None, found: dict[str, Any] | None = None) -> str:
    """Return the problems of a declaration on a host."""
    plan = enroot_plan({**DECLARED, **(declared or {})}, "gpu1", {**FOUND, **(found or {})})
    return problem_report(plan["problems"])


@pytest.mark.parametrize(
    ("family", "architecture", "names"),
    [
        ("Debian", "x86_64", FILES),
        ("Debian", "aarch64", ["enroot_4.0.1-1_arm64.deb", "enroot+caps_4.0.1-1_arm64.deb"]),
        ("RedHat", "aarch64", ["enroot-4.0.1-1.el8.aarch64.rpm", "enroot+caps-4.0.1-1.el8.aarch64.rpm"]),
    ],
)
def test_package_file_names_follow_distribution_and_architecture(
    family: str, architecture: str, names: list[str]
) -> None:
    assert package_files(DECLARED["packages"], DECLARED["release"], family, architecture) == names


@pytest.mark.parametrize(
    ("change", "built"),
    [
        ({"checksums": {}, "known": True}, True),
        ({"checksums": {}, "known": True, "family": "RedHat"}, False),
        ({"checksums": {}, "known": True, "packages": ["enroot-hardened"]}, False),
        ({"known": True}, False),
    ],
)
def test_packages_without_checksums_are_built_if_supported(change: dict[str, Any], *, built: bool) -> None:
    plan = enroot_plan({**DECLARED, **change}, "gpu1", FOUND)
    assert plan["built"] is built
    assert ("enroot_checksums" in problem_report(plan["problems"])) is (not built and "checksums" in change)


def test_credentials_are_written_per_user() -> None:
    made = credential_files([CREDENTIAL], "/etc/enroot/users", ["alice", "bob"])
    assert made["problems"] == []
    alice, bob = made["files"]
    assert alice["content"].splitlines() == [
        f"machine {machine} login $oauthtoken password {SECRET}" for machine in ("nvcr.io", "authn.nvidia.com")
    ]
    assert (alice["path"], alice["owner"], alice["mode"]) == ("/etc/enroot/users/alice/.credentials", "alice", "0600")
    assert bob == {"path": "/etc/enroot/users/bob/.credentials", "state": "absent"}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"checksums": {}}, f"enroot_checksums: has no SHA-256 of {FILES[0]}"),
        ({"architecture": "aarch64"}, "has no SHA-256 of enroot_4.0.1-1_arm64.deb"),
        ({"settings": {"PATH": "/tmp"}}, "'PATH' is not a setting of Enroot"),  # noqa: S108 - any path
        ({"settings": {"ENROOT_X": "a\nb"}}, "ENROOT_X contains a line break"),
        ({"settings": {"MELLANOX": "all"}}, "'MELLANOX' is not a setting of Enroot"),
    ],
)
def test_invalid_declarations_are_refused(declared: dict[str, Any], said: str) -> None:
    assert said in report(declared)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"user": ""}, "item 1 has no valid user"),
        ({"machine": "a b"}, "item 1 has no valid machine"),
        ({"password": f"${SECRET}"}, "which Enroot passes to a shell"),
        ({"password": f"{SECRET} x"}, "item 1 has no valid password"),
    ],
)
def test_invalid_credentials_are_refused_without_revealing_the_secret(change: dict[str, str], said: str) -> None:
    made = credential_files([{**CREDENTIAL, **change}], "/etc/enroot/users", ["bob"])
    assert said in problem_report(made["problems"])
    assert SECRET not in str(made)
    assert made["files"] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel.unprivileged_userns_clone": 0}, "sysctl -w kernel.unprivileged_userns_clone=1, or set"),
        (
            {"user.max_user_namespaces": 0, "user.max_mnt_namespaces": 9000},
            "sysctl -w user.max_user_namespaces=15000, or set",
        ),
        (
            {"kernel.unprivileged_userns_clone": 1, "kernel.apparmor_restrict_unprivileged_userns": 1},
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or set",
        ),
        ({"kernel.unprivileged_userns_clone": None}, "CONFIG_USER_NS"),
    ],
)
def test_missing_user_namespaces_are_reported_with_the_setting(settings: dict[str, int | None], said: str) -> None:
    text = report(found={"works": False, "installed": True, "settings": settings})
    assert text.startswith("gpu1: user namespaces: ")
    assert said in text
    assert not report(found={"works": True, "settings": settings})


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, False),
        ({"release": {"version": "3.4.1", "revision": "1", "dist": "el8"}}, True),
        ({"family": "RedHat", "checksums": dict.fromkeys(RPMS, "a" * 64)}, True),
    ],
)
def test_apparmor_restriction_is_accepted_if_the_package_has_a_profile(
    change: dict[str, Any], *, refused: bool
) -> None:
    forbids = {"kernel.apparmor_restrict_unprivileged_userns": 1, "user.max_user_namespaces": 9000}
    named = package_files(
        DECLARED["packages"], {**DECLARED["release"], **change.get("release", {})}, "Debian", "x86_64"
    )
    change = {"checksums": dict.fromkeys(named, "a" * 64), **change}
    assert bool(report(change, {"works": False, "settings": forbids})) is refused
    # An additional reason, or an installed program that still fails, is a problem.
    assert report(change, {"works": False, "settings": {**forbids, "user.max_user_namespaces": 0}})
    assert report(change, {"works": False, "installed": True, "settings": forbids})


def test_disk_and_users() -> None:
    assert "enroot_minimum_mb: 20000" in report(found={"disk": {"total_mb": 900, "type": "ext4"}})
    assert "is in memory (tmpfs)" in report(found={"disk": {"total_mb": 90_000, "type": "tmpfs"}})
    assert "unknown users on this host: carol" in report(found={"unknown_users": ["carol"]})


def test_settings_and_sysctls() -> None:
    assert report({"settings": {"MELLANOX_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute"}}) == ""
    assert settings_text({"ENROOT_ALLOW_HTTP": True, "https_proxy": None}).split() == ["ENROOT_ALLOW_HTTP", "yes"]
    present = {
        "user.max_user_namespaces": 96365,
        "user.max_mnt_namespaces": 0,
        "kernel.unprivileged_userns_clone": None,
    }
    assert sysctl_text(present) == "user.max_user_namespaces = 96365\nuser.max_mnt_namespaces = 15000\n"
