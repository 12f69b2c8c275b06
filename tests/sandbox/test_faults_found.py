"""Many faults at once, which no run can mend: the preflight names each of them before anything is changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.recording import gpu_recording
from fault_results import note
from faulted import Fault, Work, prove_rest, prove_told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight")

RECORDING = "/etc/simulated-gpus.xml"
LATE = "/opt/busbar-test-hour"
# Python whose clock is an hour late: a container has no clock of its own.
HOUR_LATE = f"""mkdir -p {LATE}
cat >{LATE}/sitecustomize.py <<'END'
import time
true_time = time.time
time.time = lambda: true_time() - 3600
END
printf '#!/bin/sh\\nPYTHONPATH={LATE} exec /usr/bin/python3 "$@"\\n' >{LATE}/python3
chmod +x {LATE}/python3"""
MORE = f"all: {{hosts: {{gpu2: {{ansible_python_interpreter: {LATE}/python3}}}}}}\n"
SSHD = "systemctl is-active ssh && ! ps -C sshd -o stat= | grep -q T"
# Told before a single host is changed. The admin puts them right, as no run can.
REFUSED = [
    Fault(
        "a clock that is an hour off",
        says="gpu2: clock: clock is 60 minutes behind this host's…remedy: set the clock of the host",
        heals="set the clock",
        node="gpu2",
        breaks=HOUR_LATE,
        mends=f"rm -r {LATE}",
    ),
    Fault(
        "a full /tmp",
        says="gpu2: disk /tmp: …MiB free, 512 needed…remedy: make room below /tmp",
        heals="make room",
        node="gpu2",
        breaks="mount -t tmpfs -o size=8m,mode=1777 tmpfs /tmp; head -c 10M /dev/zero >/tmp/full; true",
        mends="umount -l /tmp",
    ),
    Fault(
        "fewer GPUs than declared",
        says="gpu2: …2 declared, 1 found…remedy:",
        heals="reseat or replace the GPU, or correct the hardware of the host",
        node="gpu2",
        breaks=f"mv {RECORDING} {RECORDING}.sound; cat >{RECORDING} <<'END'\n{gpu_recording('gpu2', 1)}\nEND",
        mends=f"mv {RECORDING}.sound {RECORDING}",
    ),
    Fault(
        "an SSH server that hangs",
        says="gpu1: ansible_host: cannot be reached: …timed out…remedy: power the host on and check",
        heals="restart sshd from the console, or power-cycle the node",
        node="gpu1",
        breaks="pkill -STOP -x sshd; pkill -u admin; true",
        mends="pkill -CONT -x sshd",
        sound=SSHD,
    ),
    Fault(
        "a host without Python",
        says="login: python: has no Python that can be used: …remedy: install python3 on the host",
        heals="install python3",
        node="login",
        breaks="mv /usr/bin/python3 /usr/bin/python3.gone",
        mends="mv /usr/bin/python3.gone /usr/bin/python3",
        sound="python3 -c ''",
    ),
]
REFUSED_TOO = [
    Fault(
        "an SSH server that is down",
        says="gpu1: ansible_host: cannot be reached: …Connection refused…remedy: power the host on and check",
        heals="start sshd from the console",
        node="gpu1",
        breaks="systemctl stop ssh.socket ssh; pkill -u admin; true",
        mends="systemctl start ssh",
        sound=SSHD,
    ),
    Fault(
        "an operating system that nobody knows",
        says="login: operating system: Frob 1 is not supported…remedy: install one of: ",
        heals="install a system that is supported",
        node="login",
        breaks="mv /etc/os-release /root/os-release"
        "; printf 'ID=frob\\nVERSION_ID=1\\nPRETTY_NAME=\"Frob 1\"\\n' >/etc/os-release",
        mends="mv /root/os-release /etc/os-release",
        sound="grep -q ID=debian /etc/os-release",
    ),
    Fault(
        "an admin without a shell",
        says="gpu2: ansible_user: has no shell: This account…remedy: give ansible_user a shell",
        heals="`usermod -s /bin/bash`",
        node="gpu2",
        breaks="usermod -s /usr/sbin/nologin admin",
        mends="usermod -s /bin/bash admin",
    ),
]


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """What nobody may lose."""
    there = Work(sandbox)
    yield there
    there.end()


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory that lets Ansible run gpu2's late Python."""
    path: Path = tmp_path_factory.mktemp("late") / "more.yml"
    path.write_text(MORE)
    return path


def test_faults_that_no_run_can_mend_are_all_told_before_anything_changes(
    sandbox: Cluster, work: Work, late: Path
) -> None:
    took = prove_told(sandbox, work, REFUSED, "preflight", "-i", str(late))
    took |= prove_told(sandbox, work, REFUSED_TOO, "preflight")
    began = time.monotonic()
    prove_rest(sandbox, "preflight")
    healed_s = time.monotonic() - began
    for name, told_s in took.items():
        note("runs", name, {"told_s": round(told_s), "healed_s": round(healed_s)})
