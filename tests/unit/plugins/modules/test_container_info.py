"""Tests of the module's trial of user namespaces, with fake programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import container_info
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path


def run(capsys: pytest.CaptureFixture[str], **arguments: object) -> dict[str, Any]:
    return module_result(container_info, capsys, host="gpu1", key="x_enabled", **arguments)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a `setpriv` that only drops its own options and an `unshare` that fails."""
    for name, text in {
        "setpriv": 'shift 5; exec "$@"',
        "unshare": "echo Operation not permitted >&2; exit 1",
        "runtime": "exit 0",
    }.items():
        executable(tmp_path / name, f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.usefixtures("programs")
def test_refused_namespace_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    (problem,) = run(capsys)["problems"]
    assert (problem["hosts"], problem["key"]) == (["gpu1"], "x_enabled")


def test_installed_runtime_is_tried_itself(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, program=str(programs / "runtime"))["problems"] == []
    assert run(capsys, program=str(programs / "absent"))["problems"] != []


def test_settings_are_read_and_absent_ones_null(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("0\n")
    assert container_info.read_settings(tmp_path) == {
        "user/max_user_namespaces": 0,
        "kernel/unprivileged_userns_clone": None,
        "kernel/apparmor_restrict_unprivileged_userns": None,
    }


@pytest.mark.parametrize(
    ("profile", "installed", "loaded", "allowed"),
    [
        ("apptainer", False, "", True),
        ("apptainer", True, "apptainer (unconfined)\nunprivileged_userns (enforce)\n", True),
        ("apptainer", True, "apptainer-other (unconfined)\n", False),
        ("apptainer", True, "", False),
        ("", False, "apptainer (unconfined)\n", False),
    ],
)
def test_apparmor_profile_allows_only_when_loaded(
    tmp_path: Path, profile: str, loaded: str, *, installed: bool, allowed: bool
) -> None:
    (tmp_path / "profiles").write_text(loaded)
    found = container_info.profile_allows(profile, installed=installed, loaded=tmp_path / "profiles")
    assert found is allowed


def test_no_profile_is_loaded_without_apparmor(tmp_path: Path) -> None:
    assert not container_info.profile_allows("apptainer", installed=True, loaded=tmp_path / "absent")
