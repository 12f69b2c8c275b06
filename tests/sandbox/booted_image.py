"""A compute node of the sandbox that booted the image of its cluster: built, served, and started as a container of it.

The file system is what `root.squashfs` has, systemd is the first process, its address comes by DHCP from the server of
the image, and its configuration from the bundle there. What a container cannot show is firmware, kernel and
initramfs, as `booted_machine` does.
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
    """One node more in the sandbox, which boots from the network."""

    mac = "52:54:00:bb:98:01"
    boot_timeout_s = 180

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Write the node into the inventory, and beside it what serves it."""
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
        """What the role of the server is told besides."""
        return {}

    @property
    def node_options(self) -> dict[str, Any]:
        """What the inventory says of the node besides."""
        return {}

    def _save(self, state: Sandbox) -> None:
        state.save()
        write_inventory(state, self.public_key.read_text(encoding="utf-8").strip())

    @property
    def public_key(self) -> Path:
        """With which busbar logs in."""
        return self.sandbox.state / "ssh" / "id_ed25519.pub"

    @property
    def known_hosts(self) -> Path:
        """What the provisioning host goes by."""
        return self.sandbox.state / "ssh" / "known_hosts"

    @property
    def inventory(self) -> list[str]:
        """Options that name the inventory with the node."""
        return ["-i", str(self.sandbox.inventory), "-i", str(self.further)]

    def busbar(self, *words: str, also: Path | None = None, timeout: float = 900) -> str:
        """Run a command on this inventory and one that may say more; it has to end well. Returns what was said."""
        more = ["-i", str(also)] if also else []
        done = self.sandbox.busbar(*words, *self.inventory, *more, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def build(self) -> None:
        """Make bundle and image, and serve them."""
        self.folder.mkdir()
        self.busbar("image", "bundle", str(self.folder))
        words = ("image", "build", str(self.folder), "--like", self.node, "--url", f"http://{self.server}/")
        own = ("--authorized-key", str(self.public_key), "--distribution", self.former.distribution)
        self.busbar(*words, *own, timeout=BUILD_TIMEOUT_S)
        self.busbar("provision", "pxe")

    def unpack(self) -> None:
        """Make an image of podman from what machines fetch as their file system."""
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
        """Start the machine, and keep the time at which its SSH answered."""
        state = load(self.sandbox.name)
        cluster.create(state, self.node, self.image, mac=self.mac)
        subprocess.run(["podman", "start", state.container(self.node)], check=True, capture_output=True)
        self.wait_for_ssh()

    def wait_for_ssh(self, runs: Callable[[], bool] = lambda: True) -> None:
        """Keep the time at which the node's SSH answers."""
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
        """Where the node names its host key."""
        return self.on_node("journalctl -b -u busbar-node-identity -o cat").stdout.splitlines()

    def fingerprint(self) -> str:
        """What the node shows on its console."""
        (line,) = (line for line in self.identity_lines() if "host key of this node" in line)
        return next(word for word in line.split() if word.startswith("SHA256:"))

    def bootstrap(self) -> None:
        """Let the provisioning host know the node's key, as its console shows it."""
        vouched = f"{self.node}={self.fingerprint()}"
        words = ["busbar", "ssh", "bootstrap", "-i", str(self.sandbox.inventory), "--limit", self.node]
        words += ["--key", str(self.public_key), "--known-hosts", str(self.known_hosts), "--fingerprint", vouched]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=120, env=os.environ | {"NO_COLOR": "1"}
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def join(self, *options: str, timeout: float = 900) -> str:
        """Admit the node to the cluster; returns what was said."""
        self.joined = True
        return self.busbar("provision", "add_nodes", *options, timeout=timeout)

    def status(self) -> dict[str, Any]:
        """What the last pull ended with."""
        found: dict[str, Any] = json.loads(self.on_node(f"cat {STATUS}").stdout)
        return found

    def pull(self) -> dict[str, Any]:
        """Have the node pull as at boot; returns the outcome, with which that of the unit agrees."""
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
        """Let the node back into the cluster after a reboot; returns what was said."""
        words = ("provision", "replace_node", "-e", f"replace_node={self.node}")
        return self.busbar(*words, *options, timeout=timeout)

    def switch_off(self) -> None:
        """Take the machine's power away, and all that lies in its memory."""
        container = load(self.sandbox.name).container(self.node)
        subprocess.run(["podman", "rm", "-f", "-t", "0", "--ignore", container], check=False, capture_output=True)

    def remove(self) -> None:
        """Take all that away: machine, image, server, and the node's place in the inventory."""
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
