"""Tests of the program that creates a user's directories of Enroot as root, also among planted files and links."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from busbar.paths import collection
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLE = collection() / "roles/enroot"
KINDS = ("runtime", "cache", "data", "tmp")
ME = os.getuid()
OTHER = 54321
as_root = pytest.mark.skipif(ME != 0, reason="only root makes directories of others")


class Node:
    """A node with the program under both of its names."""

    def __init__(self, folder: Path, *, mode: int = 0o755) -> None:
        """Install the program in a folder."""
        self.scripts, self.path = folder / "scripts", folder / "enroot"
        self.scripts.mkdir()
        for name in ("enroot_prolog", "enroot_directories"):
            shutil.copy(ROLE / "files/usr/local/lib/busbar/enroot_directories", self.scripts / name)
            (self.scripts / name).chmod(0o755)
        (self.scripts / "enroot_directories.conf").write_text(f"path='{self.path}'\n", encoding="utf-8")
        for kind in KINDS:
            (self.path / kind).mkdir(parents=True)
            (self.path / kind).chmod(mode)

    def prolog(self, user: object = ME) -> str:
        """Run the prolog as slurmd does; return its errors. It always exits with 0."""
        return self.run("enroot_prolog", SLURM_JOB_UID=str(user))

    def run(self, name: str, *arguments: str, **environment: str) -> str:
        """Run the program by one of its names; return its errors."""
        command = ["bash", str(self.scripts / name), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=30)
        assert done.returncode == 0
        return done.stderr

    def directory(self, kind: str = "data", user: int = ME) -> Path:
        """Return a user's directory of a kind."""
        return self.path / kind / f"user-{user}"

    def owned(self, user: int = ME) -> bool:
        """Return whether all directories of a user exist, belong to the user, and are private."""
        found = [self.directory(kind, user).lstat() for kind in KINDS]
        return all((each.st_mode, each.st_uid) == (0o40700, user) for each in found)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_prolog_creates_missing_directories_and_keeps_existing_ones(node: Node) -> None:
    assert node.prolog() == ""
    assert node.owned()
    kept = node.directory("cache") / "layer"
    kept.touch()
    assert node.prolog() == ""
    assert kept.exists()
    assert not list(node.path.glob("*/.*"))


@pytest.mark.parametrize("planted", ["file", "link", "dangling", "fifo"])
def test_planted_link_is_moved_away_and_not_followed(node: Node, tmp_path: Path, planted: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    place = node.directory()
    if planted == "file":
        place.write_text("mine")
    elif planted == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to(victim if planted == "link" else tmp_path / "nowhere")
    said = node.prolog()
    assert f"{place} does not belong to user {ME}: moved to" in said
    assert "deleted at the next boot" in said
    assert node.owned()
    assert victim.stat().st_mode == 0o40755
    assert not list(victim.iterdir())
    assert not (tmp_path / "nowhere").exists()
    assert len(list(node.path.glob("data/.set-aside-*/user-*"))) == 1


@as_root
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_directory_of_another_user_is_moved_away_even_in_a_world_writable_parent(tmp_path: Path, mode: int) -> None:
    node = Node(tmp_path, mode=mode)
    place = node.directory(user=OTHER)
    place.mkdir(mode=0o777)
    (place / "trap").touch()
    os.chown(place, OTHER + 1, OTHER + 1)
    assert f"{place} does not belong to user {OTHER}" in node.prolog(OTHER)
    assert node.owned(OTHER)
    assert not list(place.iterdir())


@as_root
def test_concurrent_jobs_of_one_user_get_the_same_directories(node: Node) -> None:
    threads = [threading.Thread(target=node.prolog, args=(OTHER,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert node.owned(OTHER)
    assert not list(node.path.glob("*/.*"))


@pytest.mark.parametrize("user", ["", "../../etc", "01", "-1", "1 2", "a"])
def test_invalid_uid_creates_nothing(node: Node, user: str) -> None:
    assert node.prolog(user) == ""
    assert not list(node.path.glob("*/*"))


def test_prolog_succeeds_on_a_node_without_enroot(node: Node) -> None:
    shutil.rmtree(node.path)
    assert node.prolog() == ""
    assert not node.path.exists()


# Names of socket instances in systemd 252 and 257 (socket.c, instance_from_socket).
@pytest.mark.parametrize("instance", ["7-4711-{me}", "7-4711_9223-{me}"])
def test_uid_is_read_from_the_name_of_the_systemd_instance(node: Node, instance: str) -> None:
    assert node.run("enroot_directories", instance.format(me=ME)) == ""
    assert node.owned()


def test_unknown_peer_gets_nothing(node: Node) -> None:
    assert node.run("enroot_directories", "7-unknown") == ""
    assert not list(node.path.glob("*/*"))


class Asked:
    """The program that Enroot calls for a user's paths, as the role writes it, and a stand-in for its socket."""

    def __init__(self, folder: Path, **options: int) -> None:
        """Write the program; the socket runs root's program for each peer, as that of systemd does."""
        self.node, self.socket, self.file = Node(folder), folder / "asked.sock", folder / "enroot_path"
        values = {
            "enroot_path": str(self.node.path),
            "__enroot_scripts": str(self.node.scripts),
            "enroot_free_mb": 0,
            "enroot_refuse_mb": 0,
        } | options
        values |= {
            "__enroot_socket": str(self.socket),
            "__enroot_users": str(folder / "users"),
            "ansible_managed": "ours",
        }
        program = ROLE / "templates/usr/local/lib/busbar/enroot_path.j2"
        text = program.read_text(encoding="utf-8").replace("sleep 1", "sleep 0.1")
        templar = Templar(loader=DataLoader(), variables=values)
        self.file.write_text(templar.template(trust_as_template(text)), encoding="utf-8")

    def run(self, kind: str = "data", user: int = OTHER) -> subprocess.CompletedProcess[str]:
        """Run the program as a user."""
        command = ["sh", str(self.file), kind]
        given = {"PATH": os.environ["PATH"], "HOME": "/home/of"}
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, user=user, cwd="/", env=given
        )

    @contextlib.contextmanager
    def answered(self) -> Iterator[None]:
        """Answer on the socket during the context."""
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.socket))
            self.socket.chmod(0o666)
            listening.listen()
            thread = threading.Thread(target=self._answer, args=(listening,), daemon=True)
            thread.start()
            yield
            thread.join(timeout=30)

    def _answer(self, listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            process, user, _ = struct.unpack("3i", peer)
            self.node.run("enroot_directories", f"0-{process}-{user}")


@pytest.fixture
def asked() -> Iterator[Asked]:
    """Yield an instance in a folder that all users may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Asked(Path(folder))


@as_root
def test_enroot_gets_the_directory_of_the_prolog(asked: Asked) -> None:
    asked.node.prolog(OTHER)
    asked.node.directory(user=OTHER).chmod(0o755)
    done = asked.run()
    assert (done.stdout, done.stderr) == (f"{asked.node.directory(user=OTHER)}\n", "")
    assert asked.node.owned(OTHER)


@as_root
def test_user_without_a_job_gets_only_own_directories(asked: Asked) -> None:
    trap = asked.node.directory(user=OTHER)
    trap.mkdir(mode=0o777)
    os.chown(trap, OTHER + 1, OTHER + 1)
    with asked.answered():
        done = asked.run()
    assert (done.stdout, done.stderr) == (f"{trap}\n", "")
    assert asked.node.owned(OTHER)
    assert not asked.node.directory(user=OTHER + 1).exists()


@as_root
def test_hooks_mounts_and_variables_of_a_user_with_credentials_are_kept(asked: Asked) -> None:
    assert asked.run("config").stdout == "/home/of/.config/enroot\n"
    asked.node.prolog(OTHER)
    whose = subprocess.run(["id", "-un"], check=False, capture_output=True, text=True, user=OTHER).stdout.strip()
    kept = asked.file.parent / "users" / whose
    kept.mkdir(parents=True)
    (kept / ".credentials").write_text("machine a login b password c\n", encoding="utf-8")
    for _ in range(2):
        done = asked.run("config")
        place = asked.node.directory("cache", OTHER) / ".config"
        assert (done.stdout, done.stderr) == (f"{place}\n", "")
    found = {path.name: str(path.readlink()) for path in place.iterdir()}
    own = {name: f"/home/of/.config/enroot/{name}" for name in ("hooks.d", "mounts.d", "environ.d")}
    assert found == {".credentials": str(kept / ".credentials"), **own}


@as_root
def test_root_creates_its_own_directories(asked: Asked) -> None:
    assert asked.run(user=0).stdout == f"{asked.node.directory(user=0)}\n"
    assert asked.node.owned(0)


@as_root
@pytest.mark.parametrize("planted", ["", "link", "foreign"])
def test_enroot_fails_with_the_reason_if_the_socket_does_not_answer(asked: Asked, planted: str) -> None:
    place = asked.node.directory(user=OTHER)
    if planted == "link":
        own = asked.node.path / "elsewhere"
        own.mkdir()
        os.chown(own, OTHER, OTHER)
        place.symlink_to(own)
    elif planted:
        place.mkdir()
    done = asked.run()
    assert done.stdout == "/proc/refused-for-the-reason-above/data\n"
    assert f"{place} is missing or owned by another user: contact the administrator" in done.stderr


# Reads enroot.conf as enroot 4.1.2 does, in a bash script named on its command line.
ENROOT = """#!/usr/bin/env bash
set -euo pipefail
shopt -s lastpipe
while IFS=$' \\t=' read -r key value; do
    export "${key}=$(eval echo "${value}")"
done <<< "ENROOT_CACHE_PATH \\$(sh $PROGRAM cache)"
mkdir -p "$ENROOT_CACHE_PATH" || exit 1
echo "$1"
"""


@as_root
@pytest.mark.parametrize(
    ("command", "refused"),
    [("import", True), ("load", True), ("create", True), ("list", False), ("remove", False), ("start", False)],
)
def test_full_disk_refuses_new_images_and_permits_removal(*, command: str, refused: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        asked = Asked(folder, enroot_refuse_mb=10**9, enroot_free_mb=10**9)
        asked.node.prolog(OTHER)
        program = folder / "bin/enroot"
        program.parent.mkdir(mode=0o755)
        executable(program, ENROOT)
        done = subprocess.run(
            [program, command, "--name", "x"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            user=OTHER,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PROGRAM": str(asked.file)},
        )
    # Pyxis prints the output of Enroot, and reports the line marked as an error. An error of mkdir follows and refers
    # to that line.
    lines = done.stderr.splitlines()
    told = [line for line in lines if line.startswith("[ERROR] enroot on ")]
    assert ["refused-for-the-reason-above" in line for line in lines[1:]] == [True] * len(told)
    assert bool(told) is refused
    assert all("MiB are free" in line and "too few for an image" in line for line in told)
    assert (done.returncode, done.stdout) == ((1, "") if refused else (0, f"{command}\n"))


@pytest.mark.parametrize(
    ("options", "prologs"),
    [
        ({}, []),
        ({"enroot_enabled": True}, ["enroot_prolog"]),
        ({"enroot_enabled": True, "scratch_per_job": True}, ["scratch_prolog", "enroot_prolog"]),
        ({"enroot_enabled": True, "slurm_gpu_jobs": True}, ["enroot_prolog", "gpu_jobs_prolog"]),
        ({"enroot_enabled": False, "slurm_gpu_jobs": True}, ["gpu_jobs_prolog"]),
    ],
)
def test_slurm_runs_the_prolog_if_enroot_is_enabled(options: dict[str, bool], prologs: list[str]) -> None:
    defaults = yaml.safe_load((ROLE.parent / "slurm/defaults/main.yml").read_text(encoding="utf-8"))
    templar = Templar(loader=DataLoader(), variables={"slurm_gpu_jobs": False} | options)
    scripts = templar.template(trust_as_template(defaults["slurm_job_scripts"]))
    assert [path.rpartition("/")[2] for path in scripts.get("Prolog", [])] == prologs


def test_only_root_may_write_to_parents_of_user_directories() -> None:
    lines = (ROLE / "templates/etc/tmpfiles.d/busbar-enroot.conf.j2").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if "enroot_path" in line and not line.startswith(("X ", "R! "))]
    assert len(kept) == 5
    assert all(" 0755 root root " in line for line in kept)
