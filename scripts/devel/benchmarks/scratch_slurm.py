"""Slurm of Debian's packages, unpacked and never installed, in namespaces of its own: no port or file of this machine.

No slurmd runs: slurmctld takes all nodes to be powered down (`State=CLOUD`), and allocates them to jobs as it would
real ones. Debian's slurm-wlm-emulator would start a slurmd for many nodes, but is linked with the library of the
ordinary Slurm, which refuses `FrontendName` (Debian 12, 22.05.8).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from busbar.errors import UsageError
from busbar.paths import collection

__all__ = ["ADDRESS", "CONFIG", "Answer", "prepare", "schedule"]

ADDRESS = "10.255.0.1"
_PACKAGES = ("slurmctld", "slurm-client", "slurm-wlm-basic-plugins", "libhwloc15")
_JOBS = 1000
_START_S, _SCHEDULE_S = 120, 900
# What a site would write into slurm_config, to run without munge, accounting and slurmd.
CONFIG = {
    "AuthType": "auth/none",
    "CredType": "cred/none",
    "SlurmUser": "root",
    "MpiDefault": "none",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "PrologFlags": None,
    "JobAcctGatherType": "jobacct_gather/none",
    "LaunchParameters": None,
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmctldLogFile": "/run/slurmctld.log",
    "PluginDir": "/run/slurm/usr/lib/x86_64-linux-gnu/slurm-wlm",
    "PrivateData": "cloud",
    "ResumeProgram": "/bin/true",
    "SuspendProgram": "/bin/true",
    "SuspendTime": 3600,
    "ResumeTimeout": 3600,
    # The nodes have no daemon that could be looked at.
    "HealthCheckProgram": None,
    "HealthCheckInterval": 0,
}
_SCRIPT = r"""
set -eu
hostname ctl
ip link set lo up
# A resolver that finds loopback addresses alone leaves out IPv4 altogether.
ip address add "$address/32" dev lo
mount -t tmpfs tmpfs /run
mkdir -p /run/state /run/slurm
mount --bind "$slurm" /run/slurm
cp "$folder"/slurm.conf "$folder"/gres.conf "$folder"/topology.conf /run
printf '127.0.0.1 localhost\n' | cat - "$folder/hosts" >/run/hosts
mount --bind /run/hosts /etc/hosts
sed -i 's/State=UNKNOWN$/State=CLOUD/' /run/slurm.conf
export SLURM_CONF=/run/slurm.conf LD_LIBRARY_PATH=/run/slurm/usr/lib/x86_64-linux-gnu/slurm-wlm
LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/run/slurm/usr/lib/x86_64-linux-gnu
PATH=/run/slurm/usr/bin:/run/slurm/usr/sbin:$PATH
slurmctld-wlm -D -c >/run/out 2>&1 &
began=$(date +%s%N)
until sinfo -h >/dev/null 2>&1; do
    kill -0 $! 2>/dev/null && [ $(($(date +%s%N) - began)) -lt ${start_s}000000000 ] || { cat /run/out >&2; exit 1; }
    sleep 0.1
done
echo "start_ms=$((($(date +%s%N) - began) / 1000000))"
began=$(date +%s%N)
echo "nodes=$(sinfo -h -N -o %N | sort -u | wc -l)"
echo "sinfo_ms=$((($(date +%s%N) - began) / 1000000))"
printf '#!/bin/sh\ntrue\n' >/run/job
began=$(date +%s%N)
sbatch -Q --array="1-$jobs" -N 1 --exclusive -t 10 /run/job
while [ "$(squeue -h -r -t CF,R | wc -l)" -lt "$jobs" ] &&
    [ $(($(date +%s%N) - began)) -lt ${schedule_s}000000000 ]; do sleep 0.5; done
echo "schedule_ms=$((($(date +%s%N) - began) / 1000000))"
echo "jobs=$(squeue -h -r -t CF,R | wc -l)"
grep -E 'fatal|error:' /run/out >&2 || true
"""


class Answer(NamedTuple):
    """What slurmctld made of the files."""

    start_s: float
    nodes: int
    sinfo_s: float
    jobs: int
    schedule_s: float


def prepare() -> Path:
    """Unpack the packages, once; returns where they lie.

    Raises:
        UsageError: this is no root, or not Debian 12, whose Slurm the files are for.
    """
    if os.geteuid():
        message = "--slurmctld: making namespaces needs root: run as root, or leave it out"
        raise UsageError(message)
    folder = collection() / ".cache/slurm"
    if folder.exists():
        return folder
    if shutil.which("apt-get") is None or shutil.which("unshare") is None:
        message = "--slurmctld: the packages come by apt-get: run it on Debian 12, or leave it out"
        raise UsageError(message)
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="busbar-benchmark-", dir=folder.parent) as place:
        got = subprocess.run(
            ["apt-get", "download", "-qq", *_PACKAGES], cwd=place, check=False, capture_output=True, text=True
        )
        if got.returncode:
            message = (
                f"--slurmctld: {' '.join(_PACKAGES)} cannot be downloaded: run apt-get update ({got.stderr[:200]})"
            )
            raise UsageError(message)
        unpacked = Path(place) / "unpacked"
        for package in Path(place).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
        unpacked.rename(folder)
    return folder


def schedule(folder: Path, count: int) -> Answer:
    """Let slurmctld read the files of a folder, and schedule jobs.

    Raises:
        ValueError: it ends, names other nodes, or does not schedule all jobs.
    """
    began = time.monotonic()
    values = {"slurm": prepare(), "folder": folder, "address": ADDRESS, "jobs": min(_JOBS, count)}
    times = {"start_s": _START_S, "schedule_s": _SCHEDULE_S}
    with subprocess.Popen(
        ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "bash", "-c", _SCRIPT],
        env=os.environ | {key: str(value) for key, value in (values | times).items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=_START_S + _SCHEDULE_S + 60)
        except BaseException:
            process.kill()
            raise
    told = {key: int(value) for key, value in re.findall(r"^(\w+)=(\d+)$", out, re.MULTILINE)}
    if process.returncode or told.get("nodes") != count or told.get("jobs") != values["jobs"]:
        message = (
            f"slurmctld ended after {time.monotonic() - began:.0f} s with code {process.returncode}, "
            f"named {told.get('nodes', 0)} of {count} nodes and scheduled {told.get('jobs', 0)} of {values['jobs']} "
            f"jobs: {err[-500:]}"
        )
        raise ValueError(message)
    return Answer(
        told["start_ms"] / 1000, told["nodes"], told["sinfo_ms"] / 1000, told["jobs"], told["schedule_ms"] / 1000
    )
