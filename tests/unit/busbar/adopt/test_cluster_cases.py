"""The recordings of hand-built clusters become the sites that their index expects."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from adopted_sites import FIXTURES, Site, slurm_conf_of
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import unfold_hosts
from busbar.adopt import cluster_source
from busbar.adopt.cluster import draft_cluster
from busbar.adopt.cluster_source import parse_sections, read_hosts, read_recording
from busbar.adopt.draft import ASK, LEFT
from busbar.adopt.slurm_conf import pairs_of, read_pairs, read_slurm_conf, shape, split_lines
from busbar.adopt.verify import differences, record_of
from busbar.cli import main
from busbar.errors import UsageError
from executables import executable

pytestmark = pytest.mark.slow
SLURM = FIXTURES / "slurm"
CASES = {case["path"].split("/")[1]: case for case in json.loads((FIXTURES / "slurm.json").read_text())}
CONTROLLERS = {"lab-three-nodes": "alpha", "university": "sched1", "cloud-burst": "ctl-0"}
OTHERS = {"university": ("login1", "db1")}
each = pytest.mark.parametrize("name", CASES)
# Values that slurmctld prints in a form other than that of slurm.conf.
SAME = {"INFINITE": "UNLIMITED", "7-0": "7-00:00:00", "1-0": "1-00:00:00", "OFF": "off", "EXCLUSIVE": "Exclusive"}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    """Return the sites of the recordings by name."""
    out = tmp_path_factory.mktemp("adopt")
    found = {}
    for name, controller in CONTROLLERS.items():
        draft = draft_cluster(read_recording(SLURM / name, controller), controller, *OTHERS.get(name, ()))
        found[name] = Site(draft, out / name)
    return found


@each
def test_groups_and_addresses(name: str, sites: dict[str, Site]) -> None:
    for group, wanted in CASES[name]["groups"].items():
        hosts = unfold_hosts(wanted) if isinstance(wanted, str) else wanted
        assert sorted(sites[name].groups.get(group, [])) == sorted(hosts), group
    for host, address in CASES[name].get("hosts", {}).items():
        assert sites[name].hosts[host]["ansible_host"] == address


@each
def test_slurm_conf_of_the_site_matches_the_cluster(name: str, sites: dict[str, Site]) -> None:
    text = slurm_conf_of(sites[name])
    conf = read_slurm_conf({"/slurm.conf": text}, "/slurm.conf")
    assert not conf.errors
    said = CASES[name]["slurm_says"]
    assert len(conf.nodes) == said.get("count", len(said["nodes"]))
    for node, wanted in said["nodes"].items():
        found = conf.nodes[node]
        assert shape(found).items() <= wanted.items(), node
        assert found.get("Gres", "") == wanted.get("gres", "")
        assert found.get("Feature", "") == wanted.get("features", "")
        assert int(found.get("Weight", 1)) == wanted["weight"]
    assert conf.partitions.keys() == said["partitions"].keys()
    default_mode = conf.value("PreemptMode", "OFF")
    for partition, wanted in said["partitions"].items():
        found = {"PriorityTier": "1", "PreemptMode": default_mode, "MaxNodes": "UNLIMITED", "MaxTime": "UNLIMITED"}
        found |= conf.partitions[partition]
        for key, value in wanted.items():
            if key == "Nodes":
                members = [] if value == "(null)" else unfold_hosts(value)
                assert sorted(conf.members(found[key])) == sorted(members), partition
            elif key == "JobDefaults":
                pairs = {f"{key.lower()}={value}" for key, value in found.items()}
                assert {pair.lower() for pair in value.split(",")} <= pairs
            else:
                got = next(each for name, each in found.items() if name.lower() == key.lower())
                assert SAME.get(got, got).lower() == SAME.get(value, value).lower(), f"{partition} {key}"


@each
def test_only_keys_of_the_old_slurm_conf_are_written(name: str, sites: dict[str, Site]) -> None:
    conf = read_slurm_conf({"/slurm.conf": slurm_conf_of(sites[name])}, "/slurm.conf")
    hosts = read_recording(SLURM / name, CONTROLLERS[name])
    reading = hosts[CONTROLLERS[name]]
    old = read_slurm_conf(reading.files, reading.conf_path())
    ours = {"ClusterName", "SlurmctldPort", "StateSaveLocation"}
    assert {key: each.value for key, each in conf.keys.items() if key not in {*ours, "SlurmctldParameters"}} == {
        key: each.value for key, each in old.keys.items() if key not in {*ours, "SlurmctldParameters"}
    }
    if "SlurmctldParameters" in old.keys:
        assert set(old.value("SlurmctldParameters").split(",")) <= set(conf.value("SlurmctldParameters").split(","))


def test_differing_uids_and_gids_block_the_takeover(sites: dict[str, Site]) -> None:
    site = sites["lab-three-nodes"]
    text = " ".join(site.all["preflight_blockers"])
    for words in ("ines: UID differs: 1001 on alpha, gamma, 1002 on beta", "1002", "robots: GID differs"):
        assert words in text
    assert "munge" not in text
    assert not {"ines", "jan"} & {user["name"] for user in site.all["users_accounts"]}
    mara = next(user for user in site.all["users_accounts"] if user["name"] == "mara")
    assert mara == {
        "name": "mara",
        "uid": 1003,
        "group": "users",
        "comment": "Mara",
        "home": "/data/mara",
        "shell": "/usr/bin/zsh",
    }
    assert "gamma" in site.said("user guest7")
    assert "ReturnToService is 1, on alpha 2" in site.said("slurm.conf on gamma")
    assert "preflight_blockers" not in sites["university"].all


def test_accounting_of_the_university(sites: dict[str, Site]) -> None:
    site = sites["university"]
    qos = {item["name"]: item for item in site.all["slurm_qos"]}
    assert qos["scavenge"]["description"] == "idle: may be preempted"
    assert qos["urgent"]["preempt"] == ["normal", "scavenge"]
    accounts = {item["name"]: item for item in site.all["slurm_accounts"]}
    assert accounts["bio-single"] | {"parent": "bio", "fairshare": "parent"} == accounts["bio-single"]
    assert accounts["students"]["limits"]["GrpTRESMins"] == "gres/gpu=60000"
    for user, word in (("adele", "coordinator"), ("carla", "partition chem"), ("stud001", "WCKeys")):
        assert word in site.said(f"associations of user {user}")
    assert site.results("user gone99") == {LEFT}
    assert site.all["sssd_home"] == "/home/%l/%u"
    assert "gpu04" in {note.name.removeprefix("node ") for note in site.draft.notes if note.result == ASK}
    assert "hpcadmin" not in str(site.all.get("users_groups"))


def test_secrets_stay_on_the_hosts(sites: dict[str, Site]) -> None:
    for site in sites.values():
        for path in site.out.rglob("*"):
            assert not path.is_file() or "EXAMPLE-not-a-password" not in path.read_text()
    assert "StoragePass" in " ".join(note.name for note in sites["university"].draft.notes)
    assert "key" in sites["cloud-burst"].said("export /opt/munge-key").lower()


def test_cluster_with_generated_cloud_nodes_is_external(sites: dict[str, Site]) -> None:
    site = sites["cloud-burst"]
    text = " ".join(site.all["preflight_blockers"])
    assert "cloud.conf" in text
    assert "ResumeProgram=/slurm/scripts/resume_wrapper.sh" in text
    assert site.all["slurm_external"] == {"prefix": "/opt/slurm", "config": "/opt/slurm/etc"}
    assert not any(host.startswith("burst") for host in site.hosts)
    assert "default partition" in site.said("PartitionName=small")


@pytest.mark.parametrize("name", ["university", "lab-three-nodes"])
def test_preflight_accepts_the_site_or_lists_the_blockers(name: str, sites: dict[str, Site]) -> None:
    command = ["busbar", "doctor", "--offline", "--format", "json", "-i", str(sites[name].out / "inventory")]
    done = subprocess.run(command, cwd=sites[name].out, capture_output=True, text=True, check=False, timeout=300)
    errors = [each for each in json.loads(done.stdout)["findings"] if each["severity"] == "ERROR"]
    known = {"ansible_host", "ansible_ssh_private_key_file", "preflight_blockers"}
    assert [each for each in errors if each["key"] not in known] == []
    blocked = [each["problem"] for each in errors if each["key"] == "preflight_blockers"]
    assert len(blocked) == len(sites[name].all.get("preflight_blockers", []))


def test_command_writes_the_site_and_verify_compares_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "recording"
    shutil.copytree(SLURM / "university", recording)
    out = tmp_path / "out"
    source = ["--from", str(recording)]
    command = [
        "adopt",
        "cluster",
        str(out),
        "--controller",
        "sched1",
        "--login",
        "login1",
        "--database",
        "db1",
        *source,
    ]
    assert main(command) == 0
    assert (out / "files/etc/slurm/prolog.sh").is_file()
    assert main(command) == 2
    capsys.readouterr()
    assert main(["adopt", "verify", str(out), *source]) == 0
    assert "identical" in capsys.readouterr().out
    dump = recording / "commands/db1-sacctmgr-dump.txt"
    dump.write_text(dump.read_text().replace("MaxSubmitJobs=50", "MaxSubmitJobs=5"))
    passwd = recording / "commands/login1-getent-passwd.txt"
    passwd.write_text(passwd.read_text().replace("51008", "51009"))
    assert main(["adopt", "verify", str(out), *source]) == 1
    said = capsys.readouterr().out
    assert "user bruno in bio-single MaxSubmitJobs: 50 -> 5" in said
    assert "bruno on login1: 51008:" in said


def test_verify_ignores_times_states_and_values_of_busbar() -> None:
    hosts = read_recording(SLURM / "lab-three-nodes", "alpha")
    config = (
        "Configuration data as of 2026\nBOOT_TIME = {0}\nReturnToService = {1}\nSlurmctld(primary) at alpha is UP\n"
    )
    hosts["alpha"].commands["scontrol-config"] = config.format("x", 2)
    before = record_of(hosts)
    hosts["alpha"].commands["scontrol-config"] = config.format("y", 2).replace("UP", "DOWN")
    assert not list(differences(before, record_of(hosts)))
    added = "SlurmctldParameters = (null)\n", "SlurmctldParameters = enable_configless\n"
    hosts["alpha"].commands["scontrol-config"] = config.format("x", 2) + added[0]
    hosts["alpha"].commands["scontrol-partitions"] = "PartitionName=a Nodes=n[1-2]\n"
    before = record_of(hosts)
    hosts["alpha"].commands["scontrol-config"] = config.format("y", 2) + added[1]
    hosts["alpha"].commands["scontrol-partitions"] = "PartitionName=a NodeSets=ALL Nodes=n[1-2]\n"
    user = "\nParent - 'root'\nUser - 'busbar-validation':DefaultAccount='root':Fairshare=0\n"
    hosts["alpha"].commands["sacctmgr-dump"] = hosts["alpha"].commands.get("sacctmgr-dump", "") + user
    assert not list(differences(before, record_of(hosts)))
    hosts["alpha"].commands["scontrol-config"] = config.format("y", 1) + added[1]
    assert list(differences(before, record_of(hosts))) == ["scontrol show config: ReturnToService: 2 -> 1"]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("ReturnToServise=1", "ReturnToServise"),
        ("SchedulerParameters=a,\\\n  b", "'b'"),
        ("NodeName=n[1-3] NodeAddr=10.0.0.[1-2]", "NodeAddr"),
        ("NodeName=n9 Colour=red", "Colour"),
        ("Include missing.conf", "missing.conf"),
        ("Include slurm.conf", "slurm.conf"),
    ],
)
def test_slurm_conf_that_slurm_rejects_is_refused(line: str, word: str) -> None:
    conf = read_slurm_conf({"/etc/slurm/slurm.conf": f"NodeName=a\n{line}\n"}, "/etc/slurm/slurm.conf")
    assert conf.errors
    assert word in conf.errors[0]
    assert "/etc/slurm/slurm.conf:2" in conf.errors[0]


def test_lines_are_parsed_as_by_slurm() -> None:
    text = "A=1 # comment \\\nB=2\n#all\\\nC=3,\\\n4\nD=x\\#y\n"
    assert [pairs_of(line)[0] for _, line in split_lines(text)] == [
        [("A", "1")],
        [("B", "2")],
        [("C", "3,4")],
        [("D", "x#y")],
    ]
    assert read_pairs('name = gpu  Reason="a b"') == [{"name": "gpu", "Reason": "a b"}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"error": "sudo failed: allow"}, "sudo"),
        ({"commands": {"daemons": "slurmd"}}, "slurmctld does not run"),
        ({"commands": {"slurm-check": "scontrol: fatal: bad line"}}, "fatal: bad line"),
        ({"files": {}}, "no slurm.conf"),
        ({"files": {"/etc/slurm/slurm.conf": "NodeName=a\nPartitionName=p Nodes=a,b[1-2]\n"}}, "partition p: .*b1, b2"),
        ({"files": {"/etc/slurm/slurm.conf": "NodeName=a\nPartitionName=p Nodes=ALL,a\n"}}, "partition p: .*ALL"),
    ],
)
def test_unsuitable_controller_is_refused(change: dict[str, Any], words: str) -> None:
    hosts = read_recording(SLURM / "lab-three-nodes", "alpha")
    for key, value in change.items():
        setattr(hosts["alpha"], key, value)
    with pytest.raises(UsageError, match=words) as caught:
        draft_cluster(hosts, "alpha")
    assert "alpha" in str(caught.value)


def test_warnings_of_slurm_are_accepted() -> None:
    hosts = read_recording(SLURM / "lab-three-nodes", "alpha")
    hosts["alpha"].commands["slurm-check"] = (
        "scontrol: error: SchedulerParameters 1 specified more than once\nslurm 24.11"
    )
    assert draft_cluster(hosts, "alpha").cluster


def test_verify_ignores_the_order_of_partitions() -> None:
    hosts = read_recording(SLURM / "lab-three-nodes", "alpha")
    hosts["alpha"].commands["scontrol-nodes"] = "NodeName=a1 CPUTot=2 Partitions=one,two\n"
    before = record_of(hosts)
    hosts["alpha"].commands["scontrol-nodes"] = "NodeName=a1 CPUTot=2 Partitions=two,one\n"
    assert not list(differences(before, record_of(hosts)))


def test_duplicate_user_names_and_uids_block_the_takeover() -> None:
    hosts = read_recording(SLURM / "university", "sched1")
    hosts["sched1"].files["/etc/passwd"] += "carla:x:1500:1500::/home/carla:/bin/bash\nnew:x:1000:1000::/h:/bin/sh\n"
    hosts["sched1"].commands["getent-sss"] = "carla:*:51031:20003:Carla:/home/c/carla:/bin/tcsh\n"
    text = " ".join(draft_cluster(hosts, "sched1", "login1", "db1").variables["preflight_blockers"])
    for word in ("carla is in two sources on sched1", "UID 1000 belongs to several users", "51031"):
        assert word in text


def test_hardware_of_the_catalogue_keeps_the_node_lines() -> None:
    hosts = read_recording(SLURM / "university", "sched1")
    draft = draft_cluster(hosts, "sched1", "login1", "db1", ["gpu[01-04]=hgx_a100"])
    assert draft.hosts["gpu01"]["hardware"] == "hgx_a100"
    assert draft.hosts["gpu01"]["slurm_node_params"]["CPUs"] == 64
    with pytest.raises(UsageError, match="gpu99"):
        draft_cluster(hosts, "sched1", hardware=["gpu99=hgx_a100"])
    with pytest.raises(UsageError, match="no_such"):
        draft_cluster(hosts, "sched1", hardware=["no_such"])


def test_several_daemons_on_a_host_block_the_takeover() -> None:
    hosts = read_recording(SLURM / "lab-three-nodes", "alpha")
    path = hosts["alpha"].conf_path()
    hosts["alpha"].files[path] += "NodeName=v[1-2] NodeHostname=gamma Port=[17001-17002] CPUs=2\n"
    text = " ".join(draft_cluster(hosts, "alpha").variables["preflight_blockers"])
    assert "gamma runs 2 slurmd (v[1-2])" in text


def test_script_reads_a_host_and_removes_passwords(tmp_path: Path) -> None:
    conf = tmp_path / "etc/slurm.conf"
    conf.parent.mkdir()
    conf.write_text("ClusterName=x\nAccountingStoragePass=hidden\n")
    (conf.parent / "slurmdbd.conf").write_text("StorageUser=slurm\n storagepass = hidden\n")
    (conf.parent / "jwt_hs256.key").write_text("hidden")
    scripts = [tmp_path / "prolog", tmp_path / "prolog.d/a.sh"]
    scripts[1].parent.mkdir()
    for path in scripts:
        path.write_text("true\n")
    tool = tmp_path / "scontrol"
    # Format of Slurm 24.05 and newer.
    prologs = f"Prolog[0] = {scripts[0]}\nProlog[1] = {scripts[1].parent}/*"
    executable(tool, f"#!/bin/sh\ncat <<'END'\nSLURM_CONF = {conf}\nClusterName = x\n{prologs}\nEpilog = (null)\nEND\n")
    script = Path(cluster_source.__file__).with_name("collect.sh")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, check=True, timeout=120)
    reading = parse_sections(done.stdout.splitlines())
    assert reading is not None
    assert reading.conf_path() == str(conf)
    assert "hidden" not in str(reading.files)
    assert {str(path) for path in (*scripts, conf.parent / "slurmdbd.conf")} <= reading.files.keys()
    assert "ClusterName=x" in reading.files[str(conf)]
    assert "root:" in reading.files["/etc/passwd"]
    assert parse_sections(done.stdout.splitlines()[:-1]) is None


def test_hosts_that_refuse_ssh_or_sudo_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    # sudo -n prints this and exits with 1; ssh exits with 255 if it cannot connect.
    said = "case $* in *denied*) echo 'sudo: a password is required' >&2; exit 1;; esac"
    executable(ssh, f"#!/bin/sh\n{said}\necho 'No route to host' >&2\nexit 255\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = read_hosts({"a": "denied", "b": "away"})
    assert "a password is required" in found["a"].error
    assert "sudo without a password" in found["a"].error
    assert "No route to host" in found["b"].error
