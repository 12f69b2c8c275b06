"""A sandbox compute node that booted the image of its cluster: built, served, and started as a container.

The file system is `root.squashfs`, systemd is PID 1, the address comes by DHCP from the image server, and the
configuration from the bundle there. `booted_machine` also covers firmware, kernel and initramfs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from busbar.image import bundle
from busbar.sandbox import cluster
from busbar.sandbox.inventory import write_inventory
from busbar.sandbox.state import Sandbox, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from conftest import Cluster

__all__ = ["SERVER", "Booted"]

SERVER = "login"
SERVED = "/var/cache/busbar/pxe"
STATUS = "/run/busbar/node_pull_status.json"
BUILD_TIMEOUT_S = 1800


class Booted:
    """An additional node of the sandbox that boots from the network."""

    mac = "52:54:00:bb:98:01"
    boot_timeout_s = 180

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Write the node into the inventory, and the server's options into a second inventory."""
        self.sandbox, self.folder = sandbox, folder / "published"
        self.former = load(sandbox.name)
        grown = dataclasses.replace(self.former, compute=self.former.compute + 1)
        self.node = grown.compute_nodes[-1]
        self.address = grown.address(self.node)
        self._save(grown)
        self.server = grown.address(SERVER)
        self.further = sandbox.state / "pxe.yml"
        own = {"pxe_server_interface": "eth0", "pxe_server_content": str(self.folder)} | self.server_options
        hosts: dict[str, Any] = {
            "pxe_server": {"hosts": {SERVER: own}},
            "slurm_compute": {"hosts": {self.node: {"pxe_server_mac": self.mac} | self.node_options}},
        }
        self.further.write_text(json.dumps({"all": {"children": hosts}}), encoding="utf-8")
        self.up, self.joined = 0.0, False
        self.image = f"localhost/busbar-booted-{sandbox.name}:latest"

    @property
    def server_options(self) -> dict[str, Any]:
        """Return additional options of the server's role."""
        return {}

    @property
    def node_options(self) -> dict[str, Any]:
        """Return additional inventory variables of the node."""
        return {}

    def _save(self, state: Sandbox) -> None:
        state.save()
        write_inventory(state, self.public_key.read_text(encoding="utf-8").strip())

    @property
    def public_key(self) -> Path:
        """Return busbar's SSH key."""
        return self.sandbox.state / "ssh" / "id_ed25519.pub"

    @property
    def known_hosts(self) -> Path:
        """Return the known_hosts file of the provisioning host."""
        return self.sandbox.state / "ssh" / "known_hosts"

    @property
    def inventory(self) -> list[str]:
        """Return the options that select the inventory with the node."""
        return ["-i", str(self.sandbox.inventory), "-i", str(self.further)]

    def busbar(self, *words: str, also: Path | None = None, timeout: float = 900) -> str:
        """Run a command on this inventory and an optional second one, check that it succeeds, and return its output."""
        more = ["-i", str(also)] if also else []
        done = self.sandbox.busbar(*words, *self.inventory, *more, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def build(self) -> None:
        """Build bundle and image, and serve them."""
        self.folder.mkdir()
        self.busbar("image", "bundle", str(self.folder))
        words = ("image", "build", str(self.folder), "--like", self.node, "--url", f"http://{self.server}/")
        own = ("--authorized-key", str(self.public_key), "--distribution", self.former.distribution)
        self.busbar(*words, *own, timeout=BUILD_TIMEOUT_S)
        self.busbar("provision", "pxe")

    def unpack(self) -> None:
        """Create a podman image from the root file system that machines download."""
        tree = self.folder / "tree"
        squashed = self.folder / "root.squashfs"
        subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", tree, squashed], check=True, capture_output=True)
        with subprocess.Popen(["tar", "-C", tree, "-c", "."], stdout=subprocess.PIPE) as packed:
            subprocess.run(
                ["podman", "import", "--quiet", "-", self.image], stdin=packed.stdout, check=True, capture_output=True
            )
        assert packed.returncode == 0
        subprocess.run(["rm", "-r", tree], check=True)

    def boot(self) -> None:
        """Start the machine, and record when its SSH answered."""
        state = load(self.sandbox.name)
        cluster.create(state, self.node, self.image, mac=self.mac)
        subprocess.run(["podman", "start", state.container(self.node)], check=True, capture_output=True)
        self.wait_for_ssh()

    def wait_for_ssh(self, runs: Callable[[], bool] = lambda: True) -> None:
        """Record when the node's SSH answers."""
        deadline = time.monotonic() + self.boot_timeout_s
        while not self._answers():
            assert runs(), "the machine has ended"
            assert time.monotonic() < deadline, "no SSH"
            time.sleep(0.2)
        self.up = time.monotonic()

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1) as link:
                return link.recv(4) == b"SSH-"
        except OSError:
            return False

    def on_node(self, command: str, *, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a shell command on the node as root."""
        return self.sandbox.exec(self.node, command, check=check, timeout=timeout)

    def identity_lines(self) -> Iterable[str]:
        """Return the log lines with the node's host key."""
        return self.on_node("journalctl -b -u busbar-node-identity -o cat").stdout.splitlines()

    def fingerprint(self) -> str:
        """Return the fingerprint that the node prints on its console."""
        (line,) = (line for line in self.identity_lines() if "host key of this node" in line)
        return next(word for word in line.split() if word.startswith("SHA256:"))

    def bootstrap(self) -> None:
        """Run `busbar ssh bootstrap` with the fingerprint from the node's console."""
        vouched = f"{self.node}={self.fingerprint()}"
        words = ["busbar", "ssh", "bootstrap", "-i", str(self.sandbox.inventory), "--limit", self.node]
        words += ["--key", str(self.public_key), "--known-hosts", str(self.known_hosts), "--fingerprint", vouched]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=120, env=os.environ | {"NO_COLOR": "1"}
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def join(self, *options: str, timeout: float = 900) -> str:
        """Add the node to the cluster; return the output."""
        self.joined = True
        return self.busbar("provision", "add_nodes", *options, timeout=timeout)

    def status(self) -> dict[str, Any]:
        """Return the status of the last pull."""
        found: dict[str, Any] = json.loads(self.on_node(f"cat {STATUS}").stdout)
        return found

    def pull(self) -> dict[str, Any]:
        """Run a pull on the node as at boot; return its status, which must agree with the unit's result."""
        done = self.on_node("systemctl start busbar-node-pull", check=False, timeout=1800)
        found = self.status()
        assert (done.returncode == 0) == (found["result"] == "applied"), done.stderr
        return found

    def offer(self, folder: Path) -> None:
        """Serve the bundle of a folder, the manifest last."""
        signed = folder / bundle.SIGNED
        for path in (*folder.glob("bundle-*.tar.gz"), signed):
            target = f"{self.sandbox.container(SERVER)}:{SERVED}/{path.name}"
            subprocess.run(["podman", "cp", str(path), target], check=True)

    def take_back(self, *options: str, timeout: float = 900) -> str:
        """Return the node to service after a reboot; return the output."""
        words = ("provision", "replace_node", "-e", f"replace_node={self.node}")
        return self.busbar(*words, *options, timeout=timeout)

    def switch_off(self) -> None:
        """Power the machine off; its memory is lost."""
        container = load(self.sandbox.name).container(self.node)
        subprocess.run(["podman", "rm", "-f", "-t", "0", "--ignore", container], check=False, capture_output=True)

    def remove(self) -> None:
        """Remove machine, image, server, and the node's inventory entry."""
        self.switch_off()
        subprocess.run(["podman", "rmi", "-f", self.image], check=False, capture_output=True)
        units = "busbar-pxe-dhcp.service busbar-pxe-http.service"
        self.sandbox.exec(SERVER, f"systemctl disable -q --now {units}", check=False)
        self.sandbox.exec(SERVER, f"rm -rf {SERVED} /etc/busbar/pxe; cd /etc/systemd/system && rm -f {units}")
        forget = ["ssh-keygen", "-q", "-f", str(self.known_hosts), "-R", self.address]
        subprocess.run(forget, check=False, capture_output=True)
        self.further.unlink()
        self._save(self.former)
        for playbook in ("slurm", "monitoring") if self.joined else ():
            done = self.sandbox.busbar("provision", playbook, "-i", str(self.sandbox.inventory))
            assert done.returncode == 0, done.stdout + done.stderr
