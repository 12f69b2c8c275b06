"""Slices on other hosts: real servers of SSH on this machine's own addresses."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from busbar.cli import main
from busbar.errors import UsageError
from busbar.paths import collection
from busbar.run.display import PlainDisplay
from busbar.run.playbook import Playbook
from busbar.run.slices import crew as crew_module
from busbar.run.slices.crew import Crew
from busbar.run.slices.links import check_places
from busbar.run.slices.share_out import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a server that lets users in")
UNPACKED = Path(__file__).resolve().parents[5] / ".cache/sshd"
PLACES = ["bastion1", "bastion2"]
ADDRESSES = {"bastion1": "127.0.0.2", "bastion2": "127.0.0.3"}
SECRET = "correct-horse-battery"  # noqa: S105 - what the test looks for
TEXT = """
- name: Write
  hosts: all
  gather_facts: false
  tasks:
    - name: Note where this is
      ansible.builtin.shell: echo {{ inventory_dir }} >> {{ out }}/where-{{ inventory_hostname }}
    - name: Use a secret of the site
      ansible.builtin.shell: >-
        echo {{ lookup('file', inventory_dir ~ '/../secrets/word') }} > {{ out }}/word-{{ inventory_hostname }}
      no_log: true
    - name: Read what the others have noted
      ansible.builtin.set_fact:
        known: "{{ lookup('file', inventory_dir ~ '/../secrets/ledger') }}"
      run_once: true
    - name: Note a host beside the secrets
      ansible.builtin.copy:
        dest: "{{ inventory_dir }}/../secrets/ledger"
        content: "{{ known }} {{ inventory_hostname }}"
        mode: "0600"
      run_once: true
      delegate_to: localhost
    - name: Wait on one
      ansible.builtin.command: timeout 120 sh -c 'cd {{ out }}; touch waits; until [ -e enough ]; do sleep 0.2; done'
      when: inventory_hostname == 'gpu2' and wait is defined
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a command ssh that reaches two servers by name."""
    folder = tmp_path_factory.mktemp("bastions")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = _free()
    (folder / "sshd").write_text(
        f"Port {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n"
        f"PidFile none\nPermitRootLogin yes\n" + "".join(f"ListenAddress {address}\n" for address in ADDRESSES.values())
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    hosts = "".join(
        f"Host {name}\nHostName {address}\nPort {port}\nUser {getuser()}\n" for name, address in ADDRESSES.items()
    )
    (folder / "config").write_text(
        f"{hosts}Host *\nIdentityFile {folder}/user\nIdentitiesOnly yes\nStrictHostKeyChecking no\n"
        f"UserKnownHostsFile {folder}/known\nLogLevel ERROR\n"
    )
    (folder / "bin").mkdir()
    (folder / "bin/ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    (folder / "bin/ssh").chmod(0o755)
    # Without a package that makes it, the server's own user is there for the server alone.
    users = folder / "passwd"
    users.write_text(f"{Path('/etc/passwd').read_text()}sshd:x:899:65534::/run/sshd:/usr/sbin/nologin\n")
    libraries = ":".join(sorted({str(path.parent) for path in UNPACKED.rglob("lib*.so*")}))
    server = f"LD_LIBRARY_PATH={libraries} exec {UNPACKED}/usr/sbin/sshd -D -e -f {folder}/sshd"
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount --bind {users} /etc/passwd && {server}"])
    try:
        end = time.monotonic() + 30
        while subprocess.run([str(folder / "bin/ssh"), "bastion1", "true"], check=False).returncode:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)
        yield folder / "bin"
    finally:
        process.terminate()
        process.wait()


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.2", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def site(tmp_path: Path, servers: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{servers}:{os.environ['PATH']}")
    for name in ("inventory", "secrets", "logs", "out"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "secrets/word").write_text(SECRET)
    (tmp_path / "secrets/ledger").write_text("begun")
    variables = f"{{ansible_connection: local, ansible_python_interpreter: {sys.executable}, out: {tmp_path}/out}}"
    (tmp_path / "inventory/hosts.yml").write_text(
        f"all: {{hosts: {{ctl: , gpu1: , gpu2: , gpu3: }}, vars: {variables}}}\n"
    )
    return tmp_path


@pytest.fixture
def play() -> Iterator[Path]:
    """A playbook that this host and the others have, as they have those of the collection."""
    path = collection().resolve() / "playbooks" / f"zz_test_slices_{os.getpid()}.yml"
    path.write_text(TEXT)
    yield path
    path.unlink()


def ran(site: Path, play: Path, said: io.StringIO, *options: str) -> Crew:
    shares = Shares(["ctl", "gpu1"], [["gpu2"], ["gpu3"]])
    playbook = Playbook(play, [str(site / "inventory")], list(options))
    return Crew(playbook, shares, PLACES, PlainDisplay(said), site / "logs/log")


def test_slices_run_on_other_hosts_with_a_copy_of_the_site_that_is_removed(site: Path, play: Path) -> None:
    said = io.StringIO()
    done = ran(site, play, said).work()
    assert done.returned == 0, said.getvalue()
    where = {host: (site / f"out/where-{host}").read_text().strip() for host in ("ctl", "gpu1", "gpu2", "gpu3")}
    assert where["ctl"] == where["gpu1"] == str(site / "inventory")
    assert len(set(where.values())) == 3
    assert {(site / f"out/word-{host}").read_text().strip() for host in where} == {SECRET}
    # What is noted once for all hosts is noted by one slice at a time, and comes home.
    assert sorted((site / "secrets/ledger").read_text().split()) == ["begun", "ctl", "gpu2", "gpu3"]
    assert (site / "secrets/ledger").stat().st_mode & 0o77 == 0
    assert [host for host in ("gpu2", "gpu3") if Path(where[host]).exists()] == []
    assert SECRET not in (site / "logs/log").read_text()


def test_a_slice_whose_host_is_lost_is_taken_over(site: Path, play: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "LEASE_S", 1.0)
    said = io.StringIO()
    run = ran(site, play, said, "-e", "wait=true")

    def cut() -> None:
        end = time.monotonic() + 120
        while not (site / "out/waits").exists():
            assert time.monotonic() < end
            time.sleep(0.1)
        link = run._slices["slice 1"].link  # noqa: SLF001 - who it is nobody else knows
        assert link is not None
        os.kill(link._process.pid, signal.SIGKILL)  # noqa: SLF001
        (site / "out/enough").touch()

    thread = threading.Thread(target=cut)
    thread.start()
    done = run.work()
    thread.join()
    assert done.returned == 0, said.getvalue()
    assert "slice 1 on bastion1 died" in said.getvalue()
    assert "taken over on bastion2" in said.getvalue()
    where = (site / "out/where-gpu2").read_text().split()
    assert len(where) == 2
    # Whoever lost its starter has ended, and taken the secrets with it.
    end = time.monotonic() + 30
    while Path(where[0]).exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert [path for path in where if Path(path).exists()] == []


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (["bastion1", "bastion1"], "--on bastion1: is the same host as --on bastion1; name each once"),
        (["-oProxyCommand=x"], "is no SSH destination"),
        (["bastion1", "nowhere.invalid"], "--on nowhere.invalid: cannot be used: .*ssh nowhere.invalid"),
    ],
)
@pytest.mark.usefixtures("site")
def test_hosts_that_cannot_be_used_are_refused(places: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_places(places)


@pytest.mark.usefixtures("site")
def test_another_busbar_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbar.run.slices.links.program", lambda: {"files": "0123", "ansible-core": "2.19.0"})
    with pytest.raises(UsageError, match=r"--on bastion1: has another busbar \(files .* than this host \(files 0123,"):
        check_places(["bastion1"])


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        ("--on bastion1", "base", "say how many, such as --slices 1"),
        ("--slices 0", "base", "--slices: '0' is not a whole number"),
        ("--slices -1", "base", "--slices: '-1' is not a whole number"),
        ("--slices many", "base", "--slices: 'many' is not a whole number"),
        ("--slices 9", "base", "--slices 9: of the 0 compute nodes of this run 0 can"),
        ("--slices 1 --on bastion1 --on bastion2", "base", "leaves 1 of the 2 hosts of --on without work"),
        ("--slices 1", "update_nodes", "update_nodes works on the cluster as a whole"),
        ("--slices 1 --start-at-task x", "base", "cannot be used with --start-at-task"),
        ("--slices 1 --on bastion1 --private-key /x", "base", "--private-key names a file of this host"),
        ("--slices 1 --on bastion1 -e @vars.yml", "base", "@vars.yml names a file of this host"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(
    site: Path, words: str, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["provision", name, "-i", str(site / "inventory"), *words.split()]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
    assert not list((site / "logs").iterdir())
