"""Tests of the recipe of docs/scale.md for one bastion per rack, over real SSH to other addresses of this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a server that lets users in"),
]
TOP = Path(__file__).resolve().parents[2]
UNPACKED = TOP / ".cache/sshd"
ADDRESSES = {"bastion-rack1": "127.0.0.2", "bastion-rack2": "127.0.0.3"}
SECRET = "correct-horse-battery"  # noqa: S105 - the text that the test looks for
PLAY = """
- name: Record where the rack's playbook runs
  hosts: all
  gather_facts: false
  tasks:
    - name: Write the folder of the site, the bastion's address and the secret
      ansible.builtin.copy:
        dest: "{{ out }}/{{ inventory_hostname }}"
        content: |
          {{ cluster_dir }}
          {{ lookup('env', 'SSH_CONNECTION').split()[2] }}
          {{ lookup('file', cluster_dir ~ '/secrets/word') }}
          {{ [lookup('config', 'HOST_KEY_CHECKING'), lookup('config', 'DEFAULT_FORKS')] }}
          {{ ['gpu1', 'gpu2'] | busbar.cluster.fold_hosts }}
        mode: "0600"
    - name: Fail where the test wants it
      ansible.builtin.fail:
        msg: this rack fails
      when: inventory_hostname in fails | default([])
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with an ssh that reaches the bastions by name; they are two addresses of one sshd."""
    folder = tmp_path_factory.mktemp("bastions")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.2", 0))
        port = free.getsockname()[1]
    (folder / "sshd").write_text(
        f"Port {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n"
        f"PidFile none\nPermitRootLogin yes\n" + "".join(f"ListenAddress {address}\n" for address in ADDRESSES.values())
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "config").write_text(
        "".join(f"Host {name}\nHostName {address}\n" for name, address in ADDRESSES.items())
        + f"Host *\nPort {port}\nUser {getuser()}\nIdentityFile {folder}/user\nIdentitiesOnly yes\n"
        f"StrictHostKeyChecking no\nUserKnownHostsFile {folder}/known\nLogLevel ERROR\n"
    )
    (folder / "bin").mkdir()
    executable(folder / "bin/ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    # The user sshd exists only in the mount namespace of the server.
    users = folder / "passwd"
    users.write_text(f"{Path('/etc/passwd').read_text()}sshd:x:899:65534::/run/sshd:/usr/sbin/nologin\n")
    libraries = ":".join(sorted({str(path.parent) for path in UNPACKED.rglob("lib*.so*")}))
    server = f"LD_LIBRARY_PATH={libraries} exec {UNPACKED}/usr/sbin/sshd -D -e -f {folder}/sshd"
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", f"mount --bind {users} /etc/passwd && {server}"])
    try:
        end = time.monotonic() + 30
        while subprocess.run([str(folder / "bin/ssh"), "bastion-rack1", "true"], check=False).returncode:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)
        yield folder / "bin"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    for name in ("inventory", "secrets", "project"):
        (folder / name).mkdir(mode=0o700, parents=True)
    (tmp_path / "out").mkdir()
    (folder / "secrets/word").write_text(SECRET)
    (folder / "project/rack.yml").write_text(PLAY)
    (folder / "inventory/hosts.yml").write_text(
        "all: {children: {rack1: {hosts: {gpu1: }}, rack2: {hosts: {gpu2: }}}, "
        f"vars: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}, out: {tmp_path}/out, "
        'cluster_dir: "{{ inventory_dir }}/.."}}\n'
    )
    return folder


def follow(site: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of the page, with this checkout as busbar of the bastions and the test's playbook."""
    page = (TOP / "docs/scale.md").read_text()
    found = re.search(r"```bash\n(.*?)```", page, re.DOTALL)
    assert found is not None
    commands = found[1].replace("/opt/busbar", str(TOP))
    assert commands.count("busbar.cluster.configure") == 1
    return subprocess.run(
        ["bash", "-c", commands.replace("busbar.cluster.configure", "rack.yml")],
        cwd=site.parent,
        env={**os.environ, "PATH": f"{programs}:{TOP}/.venv/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_each_rack_runs_on_its_bastion_and_the_copied_site_is_removed(site: Path, programs: Path) -> None:
    done = follow(site, programs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stderr
    found = {host: (site.parent / "out" / host).read_text().splitlines() for host in ("gpu1", "gpu2")}
    folders = {lines[0] for lines in found.values()}
    assert len(folders | {str(site)}) == 3
    assert [folder for folder in folders if Path(folder).exists()] == []
    assert {host: lines[1] for host, lines in found.items()} == dict(zip(found, ADDRESSES.values(), strict=True))
    assert {tuple(lines[2:]) for lines in found.values()} == {(SECRET, "[True, 50]", "gpu[1-2]")}
    assert "gpu2" not in (site.parent / "runs/rack1/artifacts/stdout").read_text()


def test_failed_rack_is_named_and_the_other_rack_continues(site: Path, programs: Path) -> None:
    variables = site / "inventory/group_vars"
    variables.mkdir()
    (variables / "all.yml").write_text("fails: [gpu1]\n")
    done = follow(site, programs)
    assert "rack1 failed" in done.stderr
    assert "rack2 failed" not in done.stderr
    assert (site.parent / "out/gpu2").exists()
    assert [(site.parent / f"runs/{rack}/artifacts/rc").read_text() for rack in ("rack1", "rack2")] == ["2", "0"]
