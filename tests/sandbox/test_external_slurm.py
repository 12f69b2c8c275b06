"""Tests of the adoption of a Slurm that the site built below /opt/slurm: busbar configures it and installs no Slurm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from busbar.sandbox.state import load
from conftest import Cluster, recap, succeeded

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves("slurm")
# The admin's setup without busbar. The files are Debian's with other paths, so dpkg has no Slurm package.
BUILD = r"""
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
depends="apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances"
names=$($depends --recurse slurmctld slurmd slurm-client | grep -E '^slurm' | sort -u)
needs=$($depends $names | sed -n 's/^ *Depends: \([a-z].*\)/\1/p' | grep -vE '^slurm' | sort -u)
apt-get -qq install -y --no-install-recommends munge $needs >/dev/null
if [ ! -d /shared/opt ]; then
    cd "$(mktemp -d)"
    chmod 755 .
    apt-get -qq download $names 2>/dev/null
    for file in *.deb; do dpkg -x "$file" root; done
    arch=$(uname -m)-linux-gnu
    mkdir -p slurm/lib/$arch
    mv root/usr/bin root/usr/sbin root/usr/lib/systemd/system slurm/
    mv root/usr/lib/$arch/slurm-wlm slurm/lib/$arch/slm
    cd slurm
    for file in sbin/*-wlm; do mv "$file" "${file%-wlm}"; done
    # Paths of the same length as Debian's: configuration and plugins are below /opt/slurm.
    plugins="s#/usr/lib/$arch/slurm-wlm#/opt/slurm/lib/$arch/slm#g"
    sed -i "s#/etc/slurm#/opt/slurm#g; $plugins" $(grep -rlE "/etc/slurm|/slurm-wlm" bin sbin lib)
    sed -i 's#/usr/sbin/slurmd#& -d /opt/slurm/sbin/slurmstepd#; s#/usr/sbin#/opt/slurm/sbin#' system/*.service
    sed -i 's#/etc/slurm#/opt/slurm#' system/*.service
    dd if=/dev/urandom bs=1 count=1024 of=munge.key status=none
    cp -a . /shared/opt
fi
cp -a /shared/opt /opt/slurm
mv /opt/slurm/system/*.service /etc/systemd/system/
install -m 0400 -o munge -g munge /opt/slurm/munge.key /etc/munge/munge.key
rm -r /opt/slurm/munge.key /opt/slurm/system
useradd -r -u 777 -d /nonexistent -s /usr/sbin/nologin slurm
useradd -m -u 5001 -s /bin/bash ines
install -d -o slurm /var/spool/ctld
systemctl daemon-reload
systemctl enable -q munge
systemctl restart munge
"""
CONF = """
# Written by hand.
clustername=institute
SlurmctldHost=ctl({ctl})
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/spool/ctld
SlurmdSpoolDir=/var/spool/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=1
SlurmctldTimeout=30
SlurmdTimeout=60
MpiDefault=none
NodeName=gpu1 NodeAddr={gpu1} {shape} Feature=old,fast
PartitionName=DEFAULT MaxTime=2:00:00
PartitionName=main Nodes=ALL Default=YES
PartitionName=long Nodes=gpu1 MaxTime=UNLIMITED PriorityTier=2
"""


class Site:
    """The cluster and the folder of its site."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Read the SSH access to the sandbox."""
        self.cluster, self.folder = cluster, folder
        self.state = load(cluster.name)
        found = yaml.safe_load((cluster.inventory / "group_vars/all/zz_sandbox.yml").read_text())
        self.connection = {key: value for key, value in found.items() if key.startswith("ansible_")}
        self.inventory = yaml.safe_load((cluster.inventory / "hosts.yml").read_text())["all"]["children"]

    def address(self, host: str) -> str:
        """Return the address of a host."""
        return str(
            next(
                group["hosts"][host]["ansible_host"]
                for group in self.inventory.values()
                if (group.get("hosts") or {}).get(host)
            )
        )

    def adopt(self) -> subprocess.CompletedProcess[str]:
        """Write the draft of the site."""
        common = f"{self.connection['ansible_ssh_common_args']} -i {self.connection['ansible_ssh_private_key_file']}"
        user = self.connection["ansible_user"]
        places = ("--controller", f"{user}@{self.address('ctl')}", "--login", f"{user}@{self.address('login')}")
        return self.cluster.busbar("adopt", "cluster", str(self.folder), *places, f"--ssh-common-args={common}")

    def provision(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook on the adopted site."""
        inventory = ("-i", str(self.folder / "inventory"), "-e", json.dumps(self.connection))
        return self.cluster.busbar("provision", *arguments, *inventory, timeout=1200)


def build(site: Site) -> None:
    """Build the cluster by script, with a running and a waiting job."""
    cluster = site.cluster
    for host in ("ctl", "login", "gpu1"):
        cluster.exec(host, BUILD, timeout=600)
    shape = cluster.exec("gpu1", "/opt/slurm/sbin/slurmd -C | sed -n 's/NodeName=[^ ]* //p'").stdout.strip()
    conf = CONF.format(ctl=site.address("ctl"), gpu1=site.address("gpu1"), shape=shape)
    for host in ("ctl", "login", "gpu1"):
        cluster.exec(host, f"cat >/opt/slurm/slurm.conf <<'END'\n{conf}END\n")
    cluster.exec("ctl", "systemctl enable -q --now slurmctld")
    cluster.exec("gpu1", "systemctl enable -q --now slurmd")
    cluster.wait_until(lambda: "idle" in cluster.exec("ctl", "/opt/slurm/bin/sinfo -hN", check=False).stdout, "no node")
    for name in ("first", "second"):
        cluster.exec("ctl", f"cd /tmp && /opt/slurm/bin/sbatch -J {name} --exclusive --wrap 'sleep 3000'", user="ines")


@pytest.fixture(scope="module")
def site(sandbox_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a hand-built cluster with a running and a waiting job, and the draft of its site."""
    cluster = Cluster(f"{sandbox_name}-opt")
    made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--compute", "1")
    assert made.returncode == 0, made.stderr
    site = Site(cluster, tmp_path_factory.mktemp("site") / "institute")
    try:
        build(site)
        yield site
    finally:
        cluster.busbar("sandbox", "down", "--name", cluster.name)


def queue(site: Site) -> str:
    """Return the jobs with start time and number of restarts."""
    return site.cluster.exec("ctl", "/opt/slurm/bin/squeue -h -o '%i %j %T %S' --sort=i").stdout


def test_takeover_keeps_jobs_programs_and_units(site: Site) -> None:
    cluster = site.cluster
    cluster.wait_until(lambda: "RUNNING" in queue(site), "the job does not start")
    before = queue(site).splitlines()
    units = {
        host: cluster.exec(host, f"cat /etc/systemd/system/{unit}.service").stdout
        for host, unit in (("ctl", "slurmctld"), ("gpu1", "slurmd"))
    }
    succeeded(site.adopt())
    said = yaml.safe_load((site.folder / "inventory/group_vars/all/slurm.yml").read_text())
    assert said["slurm_external"] == {"prefix": "/opt/slurm", "config": "/opt/slurm"}
    report = (site.folder / "ADOPTED.md").read_text()
    assert "slurm_external" in report
    checked = site.provision("slurm", "--check", "--diff")
    succeeded(checked)
    assert "before: /opt/slurm/slurm.conf" in checked.stdout
    assert "-NodeName" in checked.stdout
    assert cluster.exec("ctl", "test -e /etc/slurm", check=False).returncode == 1
    succeeded(site.provision("slurm"))
    assert queue(site).splitlines()[0] == before[0]
    assert [line.split()[:3] for line in queue(site).splitlines()] == [line.split()[:3] for line in before]
    for host, unit in (("ctl", "slurmctld"), ("gpu1", "slurmd")):
        assert cluster.exec(host, f"cat /etc/systemd/system/{unit}.service").stdout == units[host]
    for host in ("ctl", "login", "gpu1"):
        assert "slurm" not in cluster.exec(host, "dpkg-query -W -f '${Package}\n' '*slurm*' 2>/dev/null || true").stdout
    assert "--conf-server" in cluster.exec("gpu1", "tr '\\0' ' ' </proc/$(pidof -s slurmd)/cmdline").stdout


def test_busbar_programs_find_the_slurm_commands(site: Site) -> None:
    for host in ("ctl", "login", "gpu1"):
        assert "UP" in site.cluster.exec(host, "systemd-run --quiet --pipe --wait scontrol ping").stdout
        assert site.cluster.exec(host, "readlink -f /etc/slurm").stdout == "/opt/slurm\n"


def test_packages_are_not_upgraded(site: Site) -> None:
    done = site.provision("upgrade_slurm")
    assert done.returncode == 2
    for word in ("slurm_external", "/opt/slurm", "busbar provision slurm"):
        assert word in done.stdout


def test_second_run_changes_nothing(site: Site) -> None:
    done = site.provision("slurm")
    succeeded(done)
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}
