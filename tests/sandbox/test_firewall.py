"""The role firewall: what is open from outside, from another node and to users, and what is not."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.state import load
from conftest import recap
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("firewall")

# Prints which of the ports ADDRESS:PORT that it is given answer. A refusal is an answer; a firewall is silent.
SCAN = """
import asyncio, sys
async def look(text):
    address, port = text.rsplit(":", 1)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, int(port)), 2)
    except ConnectionRefusedError:
        return text + " refused"
    except (OSError, asyncio.TimeoutError):
        return None
    writer.close()
    return text + " open"
async def main():
    for said in await asyncio.gather(*map(look, sys.argv[1:])):
        if said: print(said)
asyncio.run(main())
"""
# Two tasks of a job meet on the usual port of torchrun.
MEET = """
import os, socket, sys, time
if os.environ["SLURM_PROCID"] == "0":
    server = socket.create_server(("", 29500))
    server.settimeout(30)
    server.accept()
    print("met")
else:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            socket.create_connection((sys.argv[1], 29500), 2)
        except OSError:
            time.sleep(0.1)
        else:
            print("reached")
            break
"""
# The declared list, once more and by hand: from where each port of a host is open.
OUTSIDE = {"login": {22}}
FROM_A_NODE = {
    "ctl": {22, 6817, 6819},
    "login": {22, 6818},
    "gpu1": {22, 6818},
    "gpu2": {22, 6818},
}


def on(gateway: str) -> list[str]:
    options = {"firewall_enabled": True, "firewall_admin_networks": [gateway]}
    return ["--tags", "firewall", "-e", json.dumps(options)]


@pytest.fixture(scope="module")
def gateway(sandbox: Cluster) -> str:
    """Where runs come from: this machine's address in the network of the sandbox."""
    return sandbox.exec("ctl", "ip -4 route show default | cut -d' ' -f3").stdout.strip()


@pytest.fixture(scope="module")
def addresses(sandbox: Cluster) -> dict[str, str]:
    """The address of each node."""
    known = load(sandbox.name)
    return {node: known.address(node) for node in known.nodes}


@pytest.fixture(scope="module")
def stranger(gateway: str) -> Iterator[list[str]]:
    """A machine beside the cluster that belongs to nobody: the words that run a command on it."""
    route = json.loads(subprocess.check_output(["ip", "-j", "-4", "addr", "show", "to", gateway], text=True))
    bridge, length = route[0]["ifname"], route[0]["addr_info"][0]["prefixlen"]
    address = gateway.rsplit(".", 1)[0] + ".250"
    # Another sandbox's tests may run on this machine at the same time.
    name = f"{bridge}-out"
    enter = ["ip", "netns", "exec", name]
    with contextlib.ExitStack() as stack:
        for command, undo in (
            (f"ip netns add {name}", f"ip netns del {name}"),
            (f"ip link add {name} master {bridge} type veth peer name eth0 netns {name}", ""),
            (f"ip link set {name} up", ""),
            (f"ip -n {name} addr add {address}/{length} dev eth0", ""),
            (f"ip -n {name} link set eth0 up", ""),
        ):
            subprocess.run(command.split(), check=True)
            if undo:
                stack.callback(subprocess.run, undo.split(), check=False)
        yield enter


@pytest.fixture(scope="module")
def closed(sandbox: Cluster, gateway: str) -> Iterator[Cluster]:
    """The cluster with the firewall on, and off again afterwards."""
    done = sandbox.playbook("base.yml", *on(gateway))
    assert done.returncode == 0, done.stdout + done.stderr
    yield sandbox
    done = sandbox.playbook("base.yml", "--tags", "firewall")
    assert done.returncode == 0, done.stdout + done.stderr
    for node in ("ctl", "login", *sandbox.compute):
        left = sandbox.exec(node, "nft list tables; ls /etc/busbar/firewall.nft", check=False).stdout
        assert "busbar" not in left, node


def listening(sandbox: Cluster, node: str) -> set[int]:
    """Ports of a node on which anything listens for other hosts."""
    found = sandbox.exec(node, "ss -Htln | awk '{print $4}'").stdout.split()
    return {int(text.rsplit(":", 1)[1]) for text in found if not text.startswith(("127.", "[::1]"))}


def answered(output: str, addresses: dict[str, str]) -> dict[str, set[int]]:
    """Ports that a scan got an answer from, by node."""
    names = {address: name for name, address in addresses.items()}
    found: dict[str, set[int]] = {}
    for line in output.splitlines():
        address, _, port = line.split()[0].rpartition(":")
        found.setdefault(names[address], set()).add(int(port))
    return found


def targets(sandbox: Cluster, addresses: dict[str, str]) -> list[str]:
    """All that listens, and two ports of each node on which nothing does, which a closed host does not even refuse."""
    return [f"{addresses[node]}:{port}" for node in addresses for port in sorted(listening(sandbox, node) | {79, 8088})]


def test_without_the_firewall_a_stranger_reaches_the_exporters(
    sandbox: Cluster, stranger: list[str], addresses: dict[str, str]
) -> None:
    """The control of what follows: the scan sees what is open."""
    done = subprocess.check_output([*stranger, "python3", "-c", SCAN, *targets(sandbox, addresses)], text=True)
    seen = answered(done, addresses)
    assert all({22, 79, 8088, 9100} <= seen[node] for node in addresses)
    assert 6817 in seen["ctl"]


def test_a_run_from_an_address_that_would_be_shut_out_is_refused(sandbox: Cluster, gateway: str) -> None:
    options = json.dumps({"firewall_enabled": True})
    done = sandbox.playbook("base.yml", "--tags", "firewall", "-e", options)
    assert done.returncode != 0
    assert f"lacks {gateway}, the source of this run, which the rules would block" in done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}


@pytest.mark.core
def test_from_outside_only_what_is_meant_for_users_is_open(
    closed: Cluster, stranger: list[str], addresses: dict[str, str]
) -> None:
    done = subprocess.check_output([*stranger, "python3", "-c", SCAN, *targets(closed, addresses)], text=True)
    assert answered(done, addresses) == OUTSIDE


@pytest.mark.parametrize(("node", "user"), [("login", "alice"), ("gpu1", None)])
def test_whoever_is_on_a_node_reaches_only_what_is_declared(
    closed: Cluster, addresses: dict[str, str], node: str, user: str | None
) -> None:
    others = {name: address for name, address in addresses.items() if name != node}
    low = [text for text in targets(closed, others) if int(text.rsplit(":", 1)[1]) < 10000]
    done = closed.exec(node, f"python3 - {' '.join(low)} <<'END'\n{SCAN}\nEND", user=user)
    assert answered(done.stdout, addresses) == {name: FROM_A_NODE[name] for name in others}


def test_prometheus_still_reads_every_node(closed: Cluster, addresses: dict[str, str]) -> None:
    begin, prometheus = time.time(), Prometheus(closed.name)

    def read() -> set[str]:
        found = prometheus.query(f'up{{job="node"}} == 1 and timestamp(up{{job="node"}}) > {begin}')
        return {labels["instance"].split(":")[0] for labels, _ in found}

    closed.wait_until(lambda: read() in (set(addresses), set(addresses.values())), "Prometheus misses a node")


@pytest.mark.core
def test_jobs_over_several_nodes_run_and_their_output_arrives(closed: Cluster) -> None:
    done = closed.exec("login", "srun -N2 --ntasks-per-node=1 hostname", user="alice")
    assert sorted(done.stdout.split()) == closed.compute[:2]
    first = closed.compute[0]
    done = closed.exec("login", f"srun -N2 --ntasks-per-node=1 python3 - {first} <<'END'\n{MEET}\nEND", user="alice")
    assert sorted(done.stdout.split()) == ["met", "reached"]


def test_a_second_run_changes_nothing_and_lost_rules_come_back(closed: Cluster, gateway: str) -> None:
    again = closed.playbook("base.yml", *on(gateway))
    assert again.returncode == 0, again.stdout + again.stderr
    assert {host: counts["changed"] for host, counts in recap(again.stdout).items() if counts["changed"]} == {}
    closed.exec("gpu1", "nft flush ruleset")
    healed = closed.playbook("base.yml", *on(gateway))
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert {host for host, counts in recap(healed.stdout).items() if counts["changed"]} == {"gpu1"}
    assert "policy drop" in closed.exec("gpu1", "nft list chain inet busbar input").stdout
    assert closed.exec("gpu1", "systemctl is-enabled busbar-firewall").stdout.strip() == "enabled"


def test_rules_that_shut_the_door_are_taken_back_by_the_host(closed: Cluster, gateway: str) -> None:
    """The firewall is told another port than the one that the server of gpu2 listens on."""
    options = json.dumps({"firewall_enabled": True, "firewall_admin_networks": [gateway], "ssh_port": 2222})
    before = closed.exec("gpu2", "nft list chain inet busbar input").stdout
    done = closed.playbook("base.yml", "--tags", "firewall", "--limit", "gpu2", "-e", options)
    assert done.returncode != 0
    assert "restores its previous settings" in done.stdout + done.stderr
    closed.wait_until(
        lambda: closed.exec("gpu2", "nft list chain inet busbar input", check=False).stdout == before,
        "the former rules do not come back",
        timeout=240,
    )
    reached = closed.playbook("base.yml", *on(gateway))
    assert reached.returncode == 0, reached.stdout + reached.stderr
