"""What Enroot's modules see of a host, and which hooks they choose."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.modules import enroot_hooks, enroot_info, registry_access

MOUNTS = (
    "overlay / overlay rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/sda /scratch xfs rw 0 0\n/dev/sdb /scratch2 ext4 rw 0 0\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/lib/enroot", "overlay"), ("/run/enroot", "tmpfs"), ("/scratch/enroot", "xfs"), ("/scratch2", "ext4")],
)
def test_file_system(path: str, kind: str) -> None:
    assert enroot_info.file_system(Path(path), MOUNTS) == kind


def test_settings_and_users(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("15000\n")
    assert enroot_info.setting("user.max_user_namespaces", tmp_path) == 15000
    assert enroot_info.setting("kernel.unprivileged_userns_clone", tmp_path) is None
    assert enroot_info.existing(tmp_path / "a" / "b") == tmp_path
    assert enroot_info.known("root")
    assert not enroot_info.known("nobody-of-that-name")


def test_what_tries_namespaces(tmp_path: Path) -> None:
    """AppArmor's profile is for /usr/bin/enroot-nsenter alone: unshare says nothing of it."""
    program = tmp_path / "enroot-nsenter"
    assert "unshare" in enroot_info.trial(program)
    program.touch()
    assert enroot_info.trial(program)[4:] == [str(program), "--user", "--mount", "--remap-root", "true"]


def test_each_login_is_known_with_that_of_the_host_of_its_tokens() -> None:
    mine = {"user": "alice", "machine": "nvcr.io", "port": None, "login": "$oauthtoken", "password": "x"}
    made = {**mine, "user": "bob", "machine": "ecr", "port": 5000, "password": "$(aws ecr get-login-password)"}
    logins = registry_access.logins_of([mine, made])
    assert logins["alice"]["authn.nvidia.com"][1:] == ("$oauthtoken", "x", None)
    assert logins["bob"]["ecr"] == ("ecr", "$oauthtoken", None, 5000)


@pytest.mark.parametrize("check", [False, True])
def test_hooks(tmp_path: Path, *, check: bool) -> None:
    directory, offered = tmp_path / "etc", tmp_path / "share"
    for folder, name in ((directory, "98-nvidia.sh"), (directory, "10-home.sh"), (offered, "50-slurm-pmi.sh")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    (directory / "50-sharp.sh").symlink_to(offered / "50-sharp.sh")

    def choose(*names: str) -> dict[str, bool]:
        hooks = enroot_hooks.Hooks(directory, offered, check=check)
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
