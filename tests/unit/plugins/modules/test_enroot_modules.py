"""Tests of the facts that the Enroot modules read, and of the hooks that they select."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.host_files import keep_files
from ansible_collections.busbar.cluster.plugins.modules import container_info, enroot_configuration, enroot_hooks
from executables import executable
from module_run import module_result

MOUNTS = (
    "overlay / overlay rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/sda /scratch xfs rw 0 0\n/dev/sdb /scratch2 ext4 rw 0 0\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/lib/enroot", "overlay"), ("/run/enroot", "tmpfs"), ("/scratch/enroot", "xfs"), ("/scratch2", "ext4")],
)
def test_file_system(path: str, kind: str) -> None:
    assert enroot_configuration.file_system(Path(path), MOUNTS) == kind


def test_settings_and_users(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("15000\n")
    assert enroot_configuration.setting("user.max_user_namespaces", tmp_path) == 15000
    assert enroot_configuration.setting("kernel.unprivileged_userns_clone", tmp_path) is None
    assert enroot_configuration.existing(tmp_path / "a" / "b") == tmp_path
    assert enroot_configuration.known("root")
    assert not enroot_configuration.known("nobody-of-that-name")


def test_namespaces_are_tried_with_enroot_nsenter_or_unshare(tmp_path: Path) -> None:
    """The AppArmor profile applies only to /usr/bin/enroot-nsenter, so unshare does not test it."""
    program = tmp_path / "enroot-nsenter"
    assert "unshare" in enroot_configuration.trial(program)
    program.touch()
    assert enroot_configuration.trial(program)[4:] == [str(program), "--user", "--mount", "--remap-root", "true"]


def test_login_also_covers_the_token_host() -> None:
    mine = {"user": "alice", "machine": "nvcr.io", "port": None, "login": "$oauthtoken", "password": "x"}
    made = {**mine, "user": "bob", "machine": "ecr", "port": 5000, "password": "$(aws ecr get-login-password)"}
    logins = container_info.logins_of([mine, made])
    assert logins["alice"]["authn.nvidia.com"][1:] == ("$oauthtoken", "x", None)
    assert logins["bob"]["ecr"] == ("ecr", "$oauthtoken", None, 5000)


@pytest.mark.parametrize("check", [False, True])
def test_hooks(tmp_path: Path, *, check: bool) -> None:
    directory, offered = tmp_path / "etc", tmp_path / "share"
    for folder, name in ((directory, "98-nvidia.sh"), (directory, "10-home.sh"), (offered, "50-slurm-pmi.sh")):
        folder.mkdir(exist_ok=True)
        executable(folder / name, "#!/bin/sh\n")
    (directory / "50-sharp.sh").symlink_to(offered / "50-sharp.sh")

    def choose(*names: str) -> dict[str, bool]:
        hooks = enroot_hooks.Hooks(SimpleNamespace(check_mode=check), directory, offered)
        hooks.switch("98-nvidia.sh", on="98-nvidia.sh" in names)
        hooks.link("50-slurm-pmi.sh")
        hooks.unlink(["50-slurm-pmi.sh"])
        return hooks.changed

    assert choose() == {"98-nvidia.sh": False, "50-slurm-pmi.sh": True, "50-sharp.sh": False}
    names = {path.name for path in directory.iterdir()}
    assert ("50-slurm-pmi.sh" in names, "50-sharp.sh" in names) == ((False, True) if check else (True, False))
    assert (len(choose()) == 0) is not check
    assert choose("98-nvidia.sh") == (
        {"50-slurm-pmi.sh": True, "50-sharp.sh": False} if check else {"98-nvidia.sh": True}
    )


FOUND: dict[str, Any] = {
    "works": True,
    "installed": True,
    "nvidia_cli": False,
    "settings": {"user.max_user_namespaces": 0},
    "disk": {"total_mb": 100_000, "free_mb": 1, "type": "xfs"},
    "unknown_users": [],
    "credentials": ["alice"],
    "units": {},
}
NAMES = ["enroot_4.1.2-1_amd64.deb"]
DECLARED: dict[str, Any] = {
    "packages": ["enroot"],
    "release": {"version": "4.1.2", "revision": "1", "dist": "el8"},
    "family": "Debian",
    "architecture": "x86_64",
    "package_version": "4.1.2-1",
    "checksums": dict.fromkeys(NAMES, "a" * 64),
    "own": {},
    "settings": {},
    "mounts": [],
    "path": "/var/lib/enroot",
    "minimum_mb": 100,
}


def decide(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *found: dict[str, Any],
    **options: Any,  # noqa: ANN401 - as given
) -> dict[str, Any]:
    """Return the module's result on a host where successive trials find these results."""
    looks = iter(found)
    monkeypatch.setattr(enroot_configuration, "read_enroot", lambda *_: next(looks))
    monkeypatch.setattr(enroot_configuration, "installed_versions", lambda *_: {"enroot": "4.0.0-1", "pigz": "2.6-1"})
    given = {"host": "gpu1", "declared": DECLARED, "users_directory": "/etc/enroot/users", **options}
    return module_result(enroot_configuration, capsys, **given)


def test_missing_parts_of_a_host_are_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = decide(capsys, monkeypatch, FOUND, extra_packages=["pigz", "squashfuse"])
    assert (told["changed"], told["files"], told["missing"]) == (False, NAMES, ["enroot"])
    assert (told["missing_packages"], told["credentials"]) == (["squashfuse"], ["alice"])


def test_all_problems_are_reported_at_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"hosts": [], "key": "enroot_credentials", "problem": "item 1 has no user", "remedy": "change one"}
    told = decide(capsys, monkeypatch, {**FOUND, "works": False}, problems=[wrong], sysctls=True)
    assert told["busbar_refused"]
    lines = told["msg"].splitlines()
    assert lines[0] == "Enroot cannot be set up:"
    assert lines[1].startswith("gpu1: user namespaces: unprivileged users cannot")
    assert lines[3] == "enroot_credentials: item 1 has no user"


@pytest.mark.parametrize("check", [False, True])
def test_sysctls_are_set_before_the_kernel_is_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, check: bool
) -> None:
    programs, file = tmp_path / "bin", tmp_path / "60-busbar.conf"
    programs.mkdir()
    executable(programs / "sysctl", f"#!/bin/sh\necho $* >>{tmp_path}/calls\n")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(enroot_configuration, "SYSCTLS", str(file))

    def kept(module: Any, files: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - as it is
        return keep_files(module, [{**item, "owner": "", "group": ""} for item in files])

    monkeypatch.setattr(enroot_configuration, "keep_files", kept)
    closed = {**FOUND, "works": False}
    told = decide(capsys, monkeypatch, closed, FOUND, sysctls=True, _ansible_check_mode=check)
    assert (told["changed"], file.exists()) == (True, not check)
    assert "+user.max_user_namespaces = 15000" in "+" + told["diff"][0]["after"].splitlines()[-1]
    if not check:
        assert (tmp_path / "calls").read_text() == f"-q -p {file}\n"
        assert not decide(capsys, monkeypatch, FOUND, sysctls=True)["changed"]
