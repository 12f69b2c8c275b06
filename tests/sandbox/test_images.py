"""Tests of an image server that answers only known machines, and a node that configures itself from a signed bundle."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from busbar.image import bundle
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("pxe_server", "node_pull")

SERVER = "login"
KNOWN, UNKNOWN = "52:54:00:bb:99:01", "52:54:00:bb:99:02"
PXE, PXE_IPXE, EFI = "PXEClient:Arch:00000", "iPXE", "PXEClient:Arch:00007"
# Sends a DHCPDISCOVER for each machine and collects offers until the last machine has one: the server answers in order.
ASK = r"""
import json, socket, struct, sys
def option(code, value): return bytes([code, len(value)]) + value
def discover(number, mac, kind):
    head = struct.pack("!BBBBIHH16x", 1, 1, 6, 0, number, 0, 0x8000)
    head += bytes.fromhex(mac.replace(":", "")).ljust(16, b"\0")
    asked = option(53, b"\1") + option(55, b"\1\3\14\103")
    if kind == "iPXE": asked += option(77, b"iPXE")
    else:
        asked += option(60, kind.encode()) + option(93, struct.pack("!H", int(kind[-5:])))
    return head + bytes(192) + b"\x63\x82\x53\x63" + asked + b"\xff"
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[1].encode())
link.bind(("", 68))
link.settimeout(30)
machines = json.loads(sys.argv[2])
offers = {}
for number, (mac, kind) in enumerate(machines, 1):
    link.sendto(discover(number, mac, kind), ("255.255.255.255", 67))
while str(len(machines)) not in offers:
    data = link.recv(2000)
    number = struct.unpack("!I", data[4:8])[0]
    words, at = {}, 240
    while data[at] != 255:
        words[data[at]] = data[at + 2 : at + 2 + data[at + 1]]
        at += 2 + data[at + 1]
    file = words.get(67, data[108:236]).rstrip(b"\0").decode()
    offers[str(number)] = [socket.inet_ntoa(data[16:20]), words.get(12, b"").decode(), file]
print(json.dumps(offers))
"""


class Site:
    """The published files, and an additional inventory for the sandbox."""

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Write an inventory and an image file."""
        self.sandbox, self.folder, self.node = sandbox, folder / "published", sandbox.compute[-1]
        self.further = sandbox.state / "pxe.yml"
        self.address = sandbox.exec(SERVER, "hostname -I").stdout.split()[0]
        own = {
            "pxe_server_interface": "eth0",
            "pxe_server_content": str(self.folder),
            "pxe_server_address": self.address,
        }
        hosts: dict[str, Any] = {
            "pxe_server": {"hosts": {SERVER: own}},
            "slurm_compute": {"hosts": {self.node: {"pxe_server_mac": KNOWN}}},
        }
        self.further.write_text(json.dumps({"all": {"children": hosts}}), encoding="utf-8")
        self.folder.mkdir()
        for name in ("vmlinuz", "initrd.img", "root.squashfs"):
            (self.folder / name).write_text(name)

    @property
    def key(self) -> Path:
        """Return the signing key."""
        return self.sandbox.state / "secrets" / bundle.KEY

    def publish(self) -> None:
        """Publish a bundle of this checkout."""
        done = self.sandbox.busbar("image", "bundle", str(self.folder), *self.inventory)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def inventory(self) -> list[str]:
        """Return the options for both inventories."""
        return ["-i", str(self.sandbox.inventory), "-i", str(self.further)]

    def play(self, name: str, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run a playbook on the sandbox with both inventories."""
        given = ["-e", json.dumps(variables)] if variables else []
        return self.sandbox.playbook(name, "-i", str(self.further), *arguments, *given)

    def serve(self, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run the role of the server."""
        return self.play("pxe.yml", *arguments, **variables)

    def give_pull(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Install the image's pull program on a node."""
        told = {
            "image_like": self.node,
            "node_pull_url": f"http://{self.address}",
            "node_pull_shipped": str(self.folder),
        }
        return self.play("image.yml", "--tags", "node_pull", *arguments, **told)

    def served(self, command: str) -> None:
        """Run a shell command in the served folder."""
        self.sandbox.exec(SERVER, f"cd /var/cache/busbar/pxe && {command}")

    def pull(self) -> dict[str, Any]:
        """Run a pull on the node as at boot."""
        self.sandbox.exec(self.node, "systemctl start busbar-node-pull", check=False, timeout=1800)
        found: dict[str, Any] = json.loads(self.sandbox.exec(self.node, "cat /run/busbar/node_pull_status.json").stdout)
        return found

    def ask(self, *machines: tuple[str, str]) -> dict[str, list[str]]:
        """Return the DHCP offers to machines by index."""
        script = self.sandbox.state / "ask.py"
        script.write_text(ASK, encoding="utf-8")
        self.sandbox.exec(self.node, f"cat >/run/ask.py <<'END'\n{ASK}END")
        said = self.sandbox.exec(self.node, f"python3 /run/ask.py eth0 '{json.dumps(machines)}'").stdout
        offers: dict[str, list[str]] = json.loads(said)
        return offers


@pytest.fixture(scope="module")
def site(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server and a node that pulls from it; both are restored at the end."""
    made = Site(sandbox, tmp_path_factory.mktemp("images"))
    made.publish()
    for done in (made.serve(), made.give_pull()):
        assert done.returncode == 0, done.stdout + done.stderr
    yield made
    units = "busbar-pxe-dhcp busbar-pxe-http"
    sandbox.exec(SERVER, f"systemctl disable -q --now {units}; rm -r /var/cache/busbar/pxe /etc/busbar/pxe")
    sandbox.exec(SERVER, f"cd /etc/systemd/system && rm {' '.join(f'{unit}.service' for unit in units.split())}")
    sandbox.exec(made.node, "systemctl disable -q busbar-node-pull busbar-node-identity; rm -r /var/lib/busbar/state")
    sandbox.exec(made.node, "rm -r /etc/busbar/node_pull.json /var/lib/busbar/bundle /usr/local/lib/busbar/node_pull")
    sandbox.exec(made.node, "rm /etc/systemd/system/busbar-node-*.service; systemctl daemon-reload")
    made.further.unlink()


@pytest.mark.scenario
def test_only_known_machines_are_answered_and_a_node_configures_itself(site: Site) -> None:
    address = site.sandbox.exec(site.node, "hostname -I").stdout.split()[0]
    offers = site.ask((UNKNOWN, PXE), (KNOWN, PXE), (KNOWN, PXE_IPXE), (KNOWN, EFI))
    assert offers == {
        "2": [address, site.node, "undionly.kpxe"],
        "3": [address, site.node, f"http://{site.address}/boot.ipxe"],
        "4": [address, site.node, "snponly.efi"],
    }
    outcome = site.pull()
    assert (outcome["result"], outcome["serial"]) == ("applied", bundle.published_serial(site.folder)), outcome


def test_second_runs_change_nothing_and_check_mode_is_accurate(site: Site) -> None:
    for done, host in ((site.serve(), SERVER), (site.give_pull(), site.node), (site.serve("--check"), SERVER)):
        assert done.returncode == 0, done.stdout + done.stderr
        assert recap(done.stdout)[host]["changed"] == 0, done.stdout
    done = site.serve("--check", "--diff", pxe_server_kernel_options="console=ttyS1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "console=ttyS1" in done.stdout
    assert "ttyS1" not in site.sandbox.exec(SERVER, "cat /var/cache/busbar/pxe/boot.ipxe").stdout


def test_only_image_and_bundle_are_served(site: Site) -> None:
    get = "import sys, urllib.request, urllib.error\ntry: print(urllib.request.urlopen(sys.argv[1]).status)"
    get += "\nexcept urllib.error.HTTPError as exc: print(exc.code)"
    for path, code in (("boot.ipxe", 200), ("root.squashfs", 200), ("bundle.signed", 200), ("", 404), ("x", 404)):
        said = site.sandbox.exec(site.node, f"python3 -c '{get}' http://{site.address}/{path}").stdout.strip()
        assert said == str(code), path


def test_bundle_configures_the_same_as_the_provisioning_host(site: Site) -> None:
    site.sandbox.exec(site.node, "rm /etc/security/limits.d/80-busbar.conf; sed -i /ctl/d /etc/hosts")
    assert site.pull()["result"] == "applied"
    assert "ctl" in site.sandbox.exec(site.node, "cat /etc/hosts").stdout
    done = site.play("base.yml", "--tags", "hosts", "--limit", site.node)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)[site.node]["changed"] == 0, done.stdout


def test_foreign_bundle_is_refused_and_failing_bundle_is_rolled_back(site: Site) -> None:
    good = site.pull()
    assert good["result"] == "applied"
    served = site.folder / "false"
    archive = (next(site.folder.glob("bundle-*.tar.gz"))).read_bytes()

    def offer(**given: Any) -> dict[str, Any]:  # noqa: ANN401 - those of publish
        shutil.rmtree(served, ignore_errors=True)
        told: dict[str, Any] = {"content": archive, "cluster": "busbar", "key": site.key, "serial": good["serial"] + 1}
        told |= {"cluster": json.loads((site.folder / bundle.SIGNED).read_text().partition(bundle.MARK)[0])["cluster"]}
        bundle.publish(**(told | given), folder=served)
        for path in served.iterdir():
            target = f"{site.sandbox.container(SERVER)}:/var/cache/busbar/pxe/{path.name}"
            subprocess.run(["podman", "cp", str(path), target], check=True)
        return site.pull()

    other = site.folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    for given, says in (
        ({"key": other}, "is not signed by cluster"),
        ({"cluster": "other"}, "belongs to cluster other"),
        ({"serial": good["serial"] - 1}, "is older"),
    ):
        outcome = offer(**given)
        assert (outcome["result"], outcome["serial"]) == ("refused", good["serial"]), outcome
        assert says in outcome["reason"]
    site.served("sed -i '/BEGIN SSH/,$d' bundle.signed")
    assert "is not signed" in site.pull()["reason"]
    # A validly signed bundle whose run fails, because the time zone does not exist.
    done = site.sandbox.busbar(
        *("image", "bundle", str(served), *site.inventory, "-i", str(broken_inventory(site))),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for path in served.iterdir():
        target = f"{site.sandbox.container(SERVER)}:/var/cache/busbar/pxe/{path.name}"
        subprocess.run(["podman", "cp", str(path), target], check=True)
    outcome = site.pull()
    assert (outcome["result"], outcome["serial"]) == ("failed", good["serial"]), outcome
    assert site.sandbox.exec(site.node, "readlink -e /etc/localtime").stdout.strip() != ""


def broken_inventory(site: Site) -> Path:
    """Write an additional inventory with an option that the role rejects."""
    path = site.sandbox.state / "broken.yml"
    path.write_text(json.dumps({"all": {"hosts": {site.node: {"hosts_timezone": "No/Where"}}}}), encoding="utf-8")
    return path


def test_bad_options_are_refused_before_any_change(site: Site) -> None:
    done = site.serve(pxe_server_interface="eth9")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "interface 'eth9' does not exist" in " ".join(done.stdout.split())
    assert recap(done.stdout)[SERVER]["changed"] == 0
