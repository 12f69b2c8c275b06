"""Tests of the culprit search on four nodes: only the bad node is blamed, and it is drained on request."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Cluster, as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

# The measured CPU cores are shared with other programs: a failed test runs again and is shown as a rerun.
pytestmark = [
    pytest.mark.proves("validation"),
    pytest.mark.grows,
    pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"]),
]

PASS, FAIL, INCONCLUSIVE = 0, 1, 3
# One message of 1 MiB: 0.001 GB/s on a link of 10 Mb/s and 0.1 or more on a healthy one, even on a busy CPU.
SMALL = (
    *("-t", "validation_run", "-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2"),
    *("-e", "validation_floor_gbs=0.006"),
)


@pytest.fixture(scope="module")
def four(sandbox: Cluster) -> Iterator[Cluster]:
    """Return a provisioned sandbox of four compute nodes: the existing one if it has four, otherwise a new one."""
    if sandbox.compute == ["gpu1", "gpu2", "gpu3", "gpu4"]:
        back_in_service(sandbox)
        yield sandbox
        return
    cluster = Cluster(f"{sandbox.name}-4")
    made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--compute", "4", "--gpus", "1")
    assert made.returncode == 0, made.stderr
    try:
        done = cluster.busbar("provision", "--sandbox", "--name", cluster.name)
        assert done.returncode == PASS, done.stdout + done.stderr
        yield cluster
    finally:
        gone = cluster.busbar("sandbox", "down", "--name", cluster.name)
    assert gone.returncode == 0, gone.stderr


def validate(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cluster.busbar("validate", "--sandbox", "--name", cluster.name, *SMALL, *arguments, timeout=300)


def latest(cluster: Cluster) -> dict[str, Any]:
    report: dict[str, Any] = as_json((cluster.state / "reports/latest/report.json").read_text(encoding="utf-8"))
    return report


def verdicts(report: dict[str, Any], stage: str) -> dict[str, str]:
    return {test["name"]: test["verdict"] for test in report["tests"] if test["stage"] == stage}


def back_in_service(cluster: Cluster) -> None:
    """Heal all faults, and resume every node that was drained."""

    def idle() -> bool:
        states = cluster.node_states()
        out = [node for node, state in states.items() if state.rstrip("*") not in {"idle", "comp", "alloc", "mix"}]
        for node in out:
            cluster.exec("ctl", f"scontrol update nodename={node} state=resume", check=False)
        return set(states.values()) == {"idle"}

    cluster.fault("heal")
    # slurmctld rarely polls a returned node for a job that was cancelled in the meantime, so the job ends late.
    cluster.wait_until(idle, "not all nodes are back", 240)


def test_four_healthy_nodes_pass_all_stages(four: Cluster) -> None:
    done = validate(four)
    assert done.returncode == PASS, done.stdout + done.stderr
    report = latest(four)
    assert report["verdict"] == "PASS"
    assert [test["stage"] for test in report["tests"]] == ["node"] * 4 + ["cluster"]
    assert (report["search_rounds"], report["left_out"], report["drain"]["nodes"]) == (0, {}, [])


@pytest.mark.core
@pytest.mark.fault(
    "a slow link of one node",
    says="culprit nodes: gpu3",
    heals="repair the link, validate again; the node is drained on request",
)
def test_only_the_throttled_node_is_blamed_and_drained_on_request(four: Cluster) -> None:
    four.fault("throttle", "gpu3", "10mbit")
    try:
        done = validate(four, "-e", "validation_drain_failed=true")
        assert done.returncode == FAIL, done.stdout + done.stderr
        assert "culprit nodes: gpu3\n" in done.stdout
        report = latest(four)
        assert [(item["kind"], item["nodes"]) for item in report["culprits"]] == [("node", ["gpu3"])]
        assert report["unresolved"] == []
        assert set(verdicts(report, "node").values()) == {"PASS"}
        pairs = verdicts(report, "pair")
        assert {name: verdict == "FAIL" for name, verdict in pairs.items()} == {name: "gpu3" in name for name in pairs}
        assert set(verdicts(report, "search").values()) == {"PASS"}
        assert four.node_states() == {"gpu1": "idle", "gpu2": "idle", "gpu3": "drain", "gpu4": "idle"}
        assert four.exec("ctl", "sinfo -Rh -o '%n %E'").stdout.startswith("gpu3 busbar: slow with gpu1")
    finally:
        back_in_service(four)
    done = validate(four, "-e", '{"validation_stages": ["cluster"]}')
    assert done.returncode == PASS, done.stdout + done.stderr


# All links are shaped, so that they, and not the CPU, limit the speed: a message takes 0.3 s, much longer than a rank
# waits for a core, and each repeat is the median of several.
SHAPED, EIGHTH_LOST = "200mbit", "174mbit"


@pytest.mark.fault(
    "a node's link has lost an eighth of its rate",
    says="culprit nodes: gpu3",
    heals="repair the NIC or its cable, validate again; the node is drained on request",
)
@pytest.mark.parametrize(("rate", "blamed"), [(EIGHTH_LOST, ["gpu3"]), (SHAPED, [])])
def test_only_the_link_that_lost_an_eighth_is_blamed(four: Cluster, rate: str, blamed: list[str]) -> None:
    asked = {
        "validation_stages": ["pair"],
        "validation_min_bytes": "4M",
        "validation_max_bytes": "4M",
        "validation_seconds_per_size": 2,
        "validation_floor_gbs": 0.0002,
        "validation_search_repeats": 6,
        "validation_drain_failed": True,
    }
    try:
        for node in four.compute:
            four.fault("throttle", node, rate if node == "gpu3" else SHAPED)
        done = four.busbar("validate", "--sandbox", "--name", four.name, *SMALL, "-e", json.dumps(asked), timeout=590)
    finally:
        back_in_service(four)
    assert done.returncode == (FAIL if blamed else PASS), done.stdout + done.stderr
    report = latest(four)
    assert [(item["kind"], item["nodes"]) for item in report["culprits"]] == [("node", [node]) for node in blamed]
    assert report["unresolved"] == []
    assert [item["node"] for item in report["drain"]["nodes"]] == blamed
    assert ("culprit nodes: gpu3\n" in done.stdout) is bool(blamed)


def test_bad_new_node_is_blamed_and_its_partners_are_not(four: Cluster) -> None:
    four.fault("throttle", "gpu4", "10mbit")
    try:
        done = validate(four, "-e", "validation_nodes=gpu4")
    finally:
        back_in_service(four)
    assert done.returncode == FAIL, done.stdout + done.stderr
    report = latest(four)
    whole = next(test for test in report["tests"] if test["stage"] == "cluster")
    assert (whole["nodes"], len(whole["partners"])) == (["gpu4"], 2)
    assert [(item["kind"], item["nodes"]) for item in report["culprits"]] == [("node", ["gpu4"])]
    assert "culprit nodes: gpu4\n" in done.stdout
    assert (report["unresolved"], set(report["nodes"])) == ([], {"gpu4"})


@contextlib.contextmanager
def slow_link(cluster: Cluster, one: str, other: str) -> Iterator[None]:
    """Limit the traffic from one node to one other to 10 Mb/s; all other traffic is unchanged."""
    inside = ["podman", "inspect", "--format", "{{.State.Pid}}", cluster.container(one)]
    pid = subprocess.run(inside, check=True, capture_output=True, text=True).stdout.strip()
    address = cluster.exec(other, "hostname -I").stdout.split()[0]

    def tc(words: str) -> None:
        subprocess.run(["nsenter", f"--target={pid}", "--net", "tc", *words.split()], check=True)

    tc("qdisc add dev eth0 root handle 1: htb")
    try:
        tc("class add dev eth0 parent 1: classid 1:4 htb rate 10mbit burst 80k")
        tc(f"filter add dev eth0 parent 1: protocol ip u32 match ip dst {address}/32 flowid 1:4")
        yield
    finally:
        tc("qdisc del dev eth0 root")


def test_slow_link_is_found_by_alltoall_and_no_node_is_blamed(four: Cluster) -> None:
    asked = ("-e", "validation_collectives=alltoall", "-e", "validation_stages=cluster")
    drain = ("-e", "validation_drain_failed=true")
    try:
        with slow_link(four, "gpu1", "gpu3"):
            done = validate(four, *asked, *drain)
        drained = four.exec("ctl", "sinfo -Rh").stdout
    finally:
        back_in_service(four)
    assert done.returncode == FAIL, done.stdout + done.stderr
    report = latest(four)
    assert [(item["kind"], item["nodes"]) for item in report["culprits"]] == [("link", ["gpu1", "gpu3"])]
    assert {test["collective"] for test in report["tests"]} == {"alltoall"}
    assert "link gpu1-gpu3: slow between gpu1 and gpu3, each fast with other nodes" in done.stdout
    assert (report["unresolved"], report["drain"]["nodes"], drained) == ([], [], "")


@contextlib.contextmanager
def second_rail(cluster: Cluster, slow: str) -> Iterator[None]:
    """Add a second network interface, eth1, to each compute node; on one node it has 10 Mb/s."""
    bridge = f"bb{os.getpid()}"
    limit = "root tbf rate 10mbit burst 80000 latency 50ms"

    def run(words: str) -> None:
        subprocess.run(words.split(), check=True, capture_output=True)

    run(f"ip link add {bridge} type bridge")
    try:
        run(f"ip link set {bridge} up")
        for number, node in enumerate(cluster.compute, start=1):
            inside = ["podman", "inspect", "--format", "{{.State.Pid}}", cluster.container(node)]
            pid = subprocess.run(inside, check=True, capture_output=True, text=True).stdout.strip()
            run(f"ip link add {bridge}n{number} type veth peer name eth1 netns {pid}")
            run(f"ip link set {bridge}n{number} master {bridge} up")
            run(f"nsenter --target={pid} --net ip addr add 10.98.7.{number}/24 dev eth1")
            run(f"nsenter --target={pid} --net ip link set eth1 up")
            if node == slow:
                run(f"nsenter --target={pid} --net tc qdisc replace dev eth1 {limit}")
                run(f"tc qdisc replace dev {bridge}n{number} {limit}")
        yield
    finally:
        for number in range(1, len(cluster.compute) + 1):
            subprocess.run(["ip", "link", "del", f"{bridge}n{number}"], check=False, capture_output=True)
        run(f"ip link del {bridge}")


def test_slow_rail_is_found_with_its_node_although_the_total_passes(four: Cluster) -> None:
    floor = ("-e", "validation_floor_gbs=0.012")
    rails = ("-e", "validation_rails=eth0,eth1", "-e", "validation_stages=cluster")
    first = ("-e", '{"validation_environment": {"OMPI_MCA_btl_tcp_if_include": "eth0"}}')
    with second_rail(four, "gpu3"):
        done = validate(four, *floor, *rails, *first)
    assert done.returncode == FAIL, done.stdout + done.stderr
    report = latest(four)
    assert [(item["kind"], item["nodes"], item["rail"]) for item in report["culprits"]] == [("rail", ["gpu3"], "eth1")]
    assert "rail eth1 of node gpu3: slow with gpu" in done.stdout
    found = {test["name"]: test["verdict"] for test in report["tests"]}
    assert (found["cluster"], found["rail-eth0"], found["rail-eth1"]) == ("PASS", "PASS", "FAIL")
    assert report["unresolved"] == []


@pytest.mark.fault(
    "a node reboots during a validation",
    says="node-gpu4…INCONCLUSIVE",
    heals="validate again when it is back; the others are judged",
)
def test_node_lost_during_the_run_is_inconclusive_and_others_are_judged(four: Cluster) -> None:
    slow = ("-e", "validation_seconds_per_size=2", "-e", "validation_iterations=100000")
    limits = ("-e", "validation_test_time_limit=30", "-e", "validation_wait=15", "-e", "ansible_ssh_timeout=5")
    drain = ("-e", "validation_drain_failed=true")
    try:
        with ThreadPoolExecutor() as pool:
            running = pool.submit(validate, four, *slow, *limits, *drain)
            listing = "squeue -h -n busbar-node-gpu4 -t RUNNING -o %i"
            four.wait_until(lambda: four.exec("ctl", listing).stdout != "", "the job of gpu4 does not start", 90)
            four.fault("pull", "gpu4")
            done = running.result()
        assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr
        report = latest(four)
        assert (report["verdict"], report.get("culprits", [])) == ("INCONCLUSIVE", [])
        assert verdicts(report, "node") == {
            "node-gpu1": "PASS",
            "node-gpu2": "PASS",
            "node-gpu3": "PASS",
            "node-gpu4": "INCONCLUSIVE",
        }
        assert verdicts(report, "cluster") == {"cluster": "PASS"}
        assert report["drain"]["nodes"] == []
        assert not any("busbar:" in line for line in report["node_reasons"])
    finally:
        back_in_service(four)
