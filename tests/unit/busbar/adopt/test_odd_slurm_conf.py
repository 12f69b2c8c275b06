"""Tests of rare forms of slurm.conf: the site writes the same configuration again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from adopted_sites import Site, slurm_conf_of
from busbar.adopt.cluster import draft_cluster
from busbar.adopt.cluster_source import HostReading
from busbar.adopt.draft import ASK, CHANGED
from busbar.adopt.slurm_conf import read_slurm_conf, shape

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/etc/slurm/slurm.conf"
OLD = r"""
ControlMachine=head
ControlAddr=10.1.0.1
BackupController=head2
BackupAddr=10.1.0.2
ClusterName=lab
StateSaveLocation=/shared/slurm/state
SlurmctldPort=6820-6824
CryptoType=crypto/munge
FastSchedule=1
Waittime=0
SelectType=select/cons_res
JobSubmitPlugins=lua,all_partitions
NodeName=DEFAULT Procs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000 TmpDisk=100000
NodeName=rack[0-1]n[01-02]
NodeName=DEFAULT RealMemory=128000 Feature=big
NodeName=rack2n[01-02] Weight=5 Features="big,ssd"
NodeName=g1 NodeAddr=10.1.9.1 Gres=gpu:2 Feature=gpu
PartitionName=DEFAULT Shared=FORCE:2 MaxTime=1-00:00:00 DefaultTime=60
PartitionName=batch Nodes=rack[0-2]n[01-02] Default=YES Priority=10
PartitionName=DEFAULT MaxTime=INFINITE
PartitionName=gpu Nodes=g1 Shared=NO MaxNodes=UNLIMITED AllowGroups=users,gpu
DownNodes=rack0n01 State=DOWN Reason="power supply \#2"
"""
MIXED = r"""
clustername = mixed   # a comment ends with a backslash \
SLURMCTLDHOST=ctl1(192.168.7.1)
StateSaveLocation=/var/spool/slurmctld
AuthInfo="socket=/run/munge/munge.socket.2,cred_expire=120"
SelectTypeParameters=CR_Core_Memory,\
CR_ONE_TASK_PER_CORE
GresTypes=gpu,shard,nic
Prolog=/etc/slurm/prolog.d/*
Prolog=/opt/site/prolog
EpilogSlurmctld=/opt/site/a
EpilogSlurmctld=/opt/site/b
NodeName=c[001-003,010] CPUs=64 Sockets=2 CoresPerSocket=32 RealMemory=250000 Feature=icelake,ib CoreSpecCount=2
NodeName=g[1-2] CPUs=128 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=2 RealMemory=1000000 \
  Gres=gpu:a100:4,gpu:v100:2,shard:a100:16,nic:2 Feature=gpu Reason="new hw" State=DRAIN
nodename=x1 nodeaddr=10.9.9.9 nodehostname=x1 port=17002 cpus=8 realmemory=16000
NodeSet=icelake Feature=icelake
NodeSet=gpus Nodes=g[1-2]
PartitionName=cpu Nodes=icelake Default=YES TRESBillingWeights="CPU=1.0,Mem=0.25G"
PartitionName=all,hidden Nodes=ALL Hidden=YES MaxTime=UNLIMITED
PartitionName=either Nodes=gpus,x1 Alternate=cpu
PartitionName=empty Nodes="" State=INACTIVE
"""
# slurmctld 24.11 reports the same nodes and partitions for these two files as for the site's slurm.conf.
LISTS = """
CLUSTERNAME="Odd-One"
slurmctldhost=login(10.9.0.1)
StateSaveLocation=/var/spool/odd
SchedulerParameters=bf_max_time=60
SchedulerParameters=defer,bf_window=1440   # the last one counts
PrologFlags=Alloc,Contain
NodeName=DEFAULT CPUs=8 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=3000 Feature=a,b
NodeName=r[1-2]c[1-2] NodeAddr=10.9.[1-2].[1-2]
NodeName=x1,y[02-03] NodeAddr=10.9.3.1,10.9.3.[2-3] Features=c
NodeName=z[1-2] Port=[7901-7902] Weight=7 Gres=gpu,lic:no_consume:4G
GresTypes=gpu,lic
PartitionName=DEFAULT MaxTime=-1 State=UP
PartitionName=p1 Nodes=r[1-2]c[1-2],x1 Default=YES
PartitionName=p2 Nodes=all OverSubscribe=YES:4 Hidden=yes MaxNodes=2
PartitionName=DEFAULT Nodes=z1 PriorityTier=3
PartitionName=p3
"""
BOARDS = r"""
  ClusterName = two
SlurmctldHost=login
StateSaveLocation=/var/spool/two
NodeName=a[1-4] CPUs=16 Boards=2 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=8000 TmpDisk=100 \
    Feature="fast,big" CoreSpecCount=2 \
    MemSpecLimit=500 State=UNKNOWN
NodeName=b1 CPUs=4 CPUSpecList=0,1 RealMemory=1000 State=DOWN Reason="fan \#3 broken"
NodeName=f[1-3] CPUs=4 State=FUTURE
NodeSet=fastset Feature=fast
NodeSet=mix Nodes=b1,a1
PartitionName=one Nodes=fastset,b1 AllocNodes=login
PartitionName=two Nodes=mix TRESBillingWeights="CPU=1.0,Mem=0.25G" DefMemPerCPU=100 MaxMemPerCPU=200
PartitionName=dyn Nodes=ALL MaxTime=1-0 DefaultTime=0:30:00 GraceTime=60 AllowQos=normal,high LLN=yes
MaxNodeCount=20
Licenses="matlab:10,ansys:5"
TaskProlog="/etc/slurm/a b.sh"
DownNodes=a4 State=FAIL Reason=disk
"""
SPLIT = "Include cluster.conf\ninclude nodes/%c.conf # all\nInclude /etc/slurm/parts.conf\n"
PARTS = {
    "/etc/slurm/cluster.conf": "ClusterName=Inc\nSlurmctldHost=inc1\nStateSaveLocation=/var/spool/inc\n",
    "/etc/slurm/nodes/inc.conf": "NodeName=DEFAULT CPUs=32\nInclude nodes/more.conf\nNodeName=i[1-4]\n",
    "/etc/slurm/nodes/more.conf": "NodeName=j[1-2] Feature=a\nNodeName=DEFAULT RealMemory=64000 # less\n",
    "/etc/slurm/parts.conf": "PartitionName=DEFAULT Nodes=i[1-4]\nPartitionName=i\nPartitionName=j Nodes=j[1-2]\n",
}
# Keys with an option of busbar, and keys that SlurmctldHost replaces.
OWN = {"ClusterName", "StateSaveLocation", "ControlMachine", "ControlAddr", "BackupController", "BackupAddr"}
SHAPE = {"CPUs", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "RealMemory"}
SHAPE |= {"State", "NodeHostname"}


@pytest.mark.parametrize(
    ("text", "files"),
    [(OLD, {}), (MIXED, {}), (LISTS, {}), (BOARDS, {}), (SPLIT, PARTS)],
    ids=["old", "mixed", "lists", "boards", "includes"],
)
def test_the_site_has_the_same_nodes_partitions_and_keys(text: str, files: dict[str, str], tmp_path: Path) -> None:
    reading = HostReading(files={PATH: text, **files})
    old = read_slurm_conf(reading.files, PATH)
    assert old.errors == []
    controller = old.controllers[0][0]
    site = Site(draft_cluster({controller: reading}, controller), tmp_path / "site")
    new = read_slurm_conf({PATH: slurm_conf_of(site)}, PATH)
    assert (new.errors, new.controllers, new.down, new.sets) == ([], old.controllers, old.down, old.sets)
    assert new.nodes.keys() == old.nodes.keys()
    for name, keys in old.nodes.items():
        found = new.nodes[name]
        assert shape(found) == shape(keys), name
        assert {key: each for key, each in found.items() if key not in SHAPE} == {
            key: each for key, each in keys.items() if key not in SHAPE
        }
    assert new.partitions.keys() == old.partitions.keys()
    for name, keys in old.partitions.items():
        found = {"State": "UP", "MaxTime": "UNLIMITED", **new.partitions[name]}
        wanted = {"State": "UP", "MaxTime": "UNLIMITED", **keys}
        assert set(new.members(found.pop("Nodes"))) == set(old.members(wanted.pop("Nodes"))), name
        assert {key: each.lower() for key, each in found.items()} == {key: each.lower() for key, each in wanted.items()}
    added = {"SlurmctldPort", "SlurmctldParameters"} - old.keys.keys()
    assert {key: new.value(key) for key in new.keys.keys() - OWN - added} == {
        key: old.value(key) for key in old.keys.keys() - OWN
    }


def test_slurmd_connects_to_the_first_of_several_ports() -> None:
    draft = draft_cluster({"head": HostReading(files={PATH: OLD})}, "head")
    assert draft.variables["slurm_port"] == 6820
    assert draft.variables["slurm_config"]["SlurmctldPort"] == "6820-6824"


def test_two_controllers_share_their_state() -> None:
    draft = draft_cluster({"head": HostReading(files={PATH: OLD})}, "head")
    assert draft.variables["slurm_state_shared"] is True


def test_several_controllers_keep_order_and_addresses_whichever_is_read() -> None:
    text = "ClusterName=c\nSlurmctldHost=a1\nSlurmctldHost=a2(10.9.0.2)\nSlurmctldHost=a3\n"
    files = {
        PATH: f"{text}StateSaveLocation=/shared/state\nNodeName=n1 CPUs=2\nPartitionName=p Nodes=ALL\n",
        "/etc/hosts": "10.9.0.1 a1\n",
    }
    hosts = {"a2": HostReading(files=files), "a1": HostReading(error="ssh failed: No route to host")}
    draft = draft_cluster(hosts, "a2")
    assert draft.groups["slurm_controller"] == ["a1", "a2", "a3"]
    assert [draft.hosts[name].get("ansible_host") for name in ("a1", "a2", "a3")] == ["10.9.0.1", "10.9.0.2", None]
    assert draft.variables["slurm_config"]["SlurmctldHost"] == ["a1", "a2(10.9.0.2)", "a3"]
    assert (draft.variables["slurm_state_shared"], draft.variables["slurm_state_directory"]) == (True, "/shared/state")
    questions = {note.name: note.reason for note in draft.notes if note.result == ASK}
    assert "No route to host" in questions["host a1"]
    assert "do all controllers share it" in questions["StateSaveLocation /shared/state"]


def test_topology_with_nodes_that_are_not_hosts_blocks_the_takeover() -> None:
    files = {PATH: f"{MIXED}NodeName=f[1-2] State=FUTURE\n", "/etc/slurm/topology.conf": "SwitchName=s Nodes=f1,x1\n"}
    draft = draft_cluster({"ctl1": HostReading(files=files)}, "ctl1")
    assert "topology.conf places f1" in str(draft.variables["preflight_blockers"])
    assert "slurm_topology" not in draft.variables


def test_front_end_nodes_block_the_takeover() -> None:
    text = "ClusterName=f\nSlurmctldHost=fe0\nFrontendName=fe[0-1] FrontendAddr=10.0.0.[1-2]\nNodeName=n[1-2] CPUs=4\n"
    draft = draft_cluster({"fe0": HostReading(files={PATH: text})}, "fe0")
    assert re.search(r"front-end nodes.*fe\[0-1\]", str(draft.variables["preflight_blockers"]))


@pytest.mark.parametrize(
    ("paths", "version", "option", "blocker"),
    [
        (["/usr/sbin/slurmctld"], "slurm 24.11.5", None, ""),
        (["/usr/sbin/slurmctld-wlm"], "slurm-wlm 22.05.8", None, ""),
        (["/sw/slurm/23.11/sbin/slurmctld"], "slurm 23.11.4", "/sw/slurm/23.11", ""),
        (["/usr/local/sbin/slurmctld"], "slurm 21.08.8", "/usr/local", "21.08.8 is older than 22.05"),
        (["/opt/a/sbin/slurmctld", "/opt/b/sbin/slurmd"], "slurm 25.05.0", "/opt/a", "/opt/a, /opt/b"),
    ],
)
def test_slurm_built_by_the_site_is_external(paths: list[str], version: str, option: str | None, blocker: str) -> None:
    commands = {"daemon-paths": "\n".join(paths), "slurm-check": f"{version}\n"}
    draft = draft_cluster({"ctl1": HostReading(files={PATH: MIXED}, commands=commands)}, "ctl1")
    wanted = {"prefix": option, "config": "/etc/slurm"} if option else None
    assert draft.variables.get("slurm_external") == wanted
    assert bool(option) == any("/usr/local/sbin" in note.name for note in draft.notes if note.result == CHANGED)
    assert blocker in " ".join(draft.variables.get("preflight_blockers", []))
    assert bool(blocker) == ("preflight_blockers" in draft.variables)
