"""Tests of a SPANK plugin: built for the installed Slurm, loaded by real jobs, otherwise refused, and removed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from conftest import TOP, plain_environment, recap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm_spank")

PLUGIN = TOP / "tests" / "fixtures" / "spank_plugin"
LINE = "/etc/slurm/plugstack.conf.d/busbar-greeting.conf"
BUILT = "/var/lib/busbar/spank_packages"
LIBRARIES = "/usr/lib/busbar/spank"
PLACES = f"{BUILT} /var/cache/busbar/spank"
INSTALLED = "dpkg-query -W -f '${Package}\\n' 'busbar-spank-*' 2>/dev/null"
PLAY = """\
- hosts: slurm_controller:slurm_login:slurm_compute
  become: true
  gather_facts: false
  roles:
    - role: busbar.cluster.slurm_spank
"""
# Packages installed by the build, so that they can be removed; the names of packages installed before are subtracted.
PACKAGES = "dpkg-query -W -f '${Package} ${Status}\\n' | awk '/ ok installed$/ {print $1}' | sort"


class Site:
    """The sandbox with a play that contains only the plugins, and the archive of the test plugin."""

    def __init__(self, cluster: Cluster, folder: Path):
        """Write the play and the archive."""
        self.cluster, self.folder = cluster, folder
        self.play = folder / "spank.yml"
        self.play.write_text(PLAY, encoding="utf-8")
        self.archive = self.pack("greeting")

    def pack(self, name: str, *, old: str = "", new: str = "") -> Path:
        """Return the sources as an archive, with one text replaced."""
        tree = self.folder / name
        shutil.copytree(PLUGIN, tree)
        source = tree / "greeting.c"
        source.write_text(source.read_text(encoding="utf-8").replace(old or "\0", new), encoding="utf-8")
        archive = self.folder / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz") as stream:
            stream.add(tree, arcname=name)
        return archive

    def plugin(self, archive: Path, **change: object) -> dict[str, Any]:
        """Return the declaration of the plugin."""
        declared = {"name": "greeting", "version": "1.0", "source": str(archive), "provides": ["--greeting"]}
        declared |= {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "arguments": ["default=hello"]}
        return declared | change

    def run(self, *plugins: dict[str, Any], arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run the play with these plugins."""
        extra = json.dumps({"slurm_spank_plugins": plugins})
        command = ["ansible-playbook", "-i", str(self.cluster.inventory), str(self.play), "-e", extra, *arguments]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=600, cwd=TOP, env=plain_environment()
        )

    def greeting(self, option: str = "") -> list[str]:
        """Return the variable in the environment of a job's tasks on both nodes."""
        job = f"srun --quiet -N2 --mem=100 {option} printenv BUSBAR_GREETING"
        return self.cluster.exec("login", job, user="alice", check=False).stdout.split()

    def package(self, node: str) -> str:
        """Return the installed plugin packages of a host."""
        return self.cluster.exec(node, INSTALLED).stdout.strip()

    def hosts(self) -> list[str]:
        """Return all hosts that load plugins."""
        return ["ctl", "login", *self.cluster.compute]


def changed(output: str) -> set[int]:
    """Return the numbers of changes on the hosts."""
    return {counts["changed"] for counts in recap(output).values()}


@pytest.fixture(scope="module")
def site(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the sandbox without a plugin; plugin and compiler are removed at the end."""
    sandbox.wait_idle()
    before = set(sandbox.exec("ctl", PACKAGES).stdout.split())
    made = Site(sandbox, tmp_path_factory.mktemp("spank"))
    yield made
    if sandbox.exec("ctl", f"ls {LINE}", check=False).stdout:
        made.run()
    added = set(sandbox.exec("ctl", PACKAGES).stdout.split()) - before
    if added:
        sandbox.exec("ctl", f"dpkg --purge --force-depends {' '.join(sorted(added))}", timeout=300)
    for node in made.hosts():
        sandbox.exec(node, f"rm -rf {PLACES}", check=False)
    sandbox.wait_idle()


def test_wrong_checksum_changes_nothing(site: Site) -> None:
    done = site.run(site.plugin(site.archive, sha256="0" * 64))
    assert done.returncode != 0
    assert "0" * 64 in done.stdout
    assert site.plugin(site.archive)["sha256"] in done.stdout
    for node in site.hosts():
        assert site.cluster.exec(node, f"ls {LINE} {BUILT}/*.archive; {INSTALLED}", check=False).stdout == ""
    assert site.cluster.exec("ctl", "which gcc", check=False).returncode != 0


def test_plugin_is_built_once_and_loaded_by_all(site: Site) -> None:
    foreseen = site.run(site.plugin(site.archive), arguments=("--check", "--diff"))
    assert foreseen.returncode == 0, foreseen.stdout
    assert f"+++ after: {LINE}" in foreseen.stdout
    done = site.run(site.plugin(site.archive))
    assert done.returncode == 0, done.stdout
    package = site.package("ctl")
    slurm = site.cluster.exec("ctl", "scontrol --version").stdout.split()[1]
    assert package.startswith(f"busbar-spank-greeting-1.0-slurm{slurm}-")
    release = ".".join(slurm.split(".")[:2])
    for node in site.hosts():
        library = site.cluster.exec(node, f"awk '/required/ {{print $2}}' {LINE}").stdout.strip()
        assert site.cluster.exec(node, f"dpkg-query -S {library}").stdout == f"{package}: {library}\n"
        assert f"slurm-client (>= {release})" in site.cluster.exec(node, f"dpkg-query -s {package}").stdout
    for node in site.cluster.compute:
        assert site.cluster.exec(node, f"which gcc; ls {BUILT}", check=False).stdout == ""
    assert "--greeting=TEXT" in site.cluster.exec("login", "srun --help", user="alice").stdout
    assert site.greeting() == ["hello"] * 2
    assert site.greeting("--greeting=moin") == ["moin"] * 2
    assert changed(site.run(site.plugin(site.archive)).stdout) == {0}


def test_plugin_for_another_release_is_refused_and_jobs_still_run(site: Site) -> None:
    pretending = "#undef SLURM_VERSION_NUMBER\n#define SLURM_VERSION_NUMBER 0x170b07\nSPANK_PLUGIN("
    foreign = site.pack("foreign", old="SPANK_PLUGIN(", new=pretending)
    done = site.run(site.plugin(foreign, version="2.0"))
    assert done.returncode != 0
    assert "is built for Slurm 23.11.7, but this host has Slurm" in " ".join(done.stdout.split())
    assert site.greeting() == ["hello"] * 2
    done = site.run(site.plugin(site.archive))
    assert done.returncode == 0, done.stdout
    for node in site.hosts():
        assert "greeting-2.0" not in site.package(node)


def test_files_of_an_earlier_busbar_are_replaced_by_the_package(site: Site) -> None:
    """Simulates a node of busbar 1, and one whose plugin package was removed by a new Slurm release."""
    node, earlier = site.cluster.compute[0], "/usr/local/lib/busbar/spank"
    package, line = site.package(node), site.cluster.exec(node, f"cat {LINE}").stdout
    library = site.cluster.exec(node, f"awk '/required/ {{print $2}}' {LINE}").stdout.strip()
    site.cluster.exec(
        node,
        f"mkdir -p {earlier} /var/lib/busbar/spank && cp {library} {earlier}/greeting.so && dpkg --purge {package} && "
        f"echo {{}} >/var/lib/busbar/spank/installed.json && sed -i 's|{library}|{earlier}/greeting.so|' {LINE}",
    )
    done = site.run(site.plugin(site.archive), arguments=("--limit", node))
    assert done.returncode == 0, done.stdout
    assert site.cluster.exec(node, f"ls -d {earlier} /var/lib/busbar/spank", check=False).stdout == ""
    assert (site.package(node), site.cluster.exec(node, f"cat {LINE}").stdout) == (package, line)
    assert site.greeting() == ["hello"] * 2
    site.cluster.exec(node, f"dpkg --purge {package}")
    done = site.run(site.plugin(site.archive), arguments=("--limit", node))
    assert done.returncode == 0, done.stdout
    assert "Remove plugins that were built for another release of Slurm" in done.stdout
    assert site.package(node) == package
    assert site.greeting() == ["hello"] * 2
    assert changed(site.run(site.plugin(site.archive)).stdout) == {0}


def test_plugin_without_its_option_is_reverted(site: Site) -> None:
    done = site.run(
        site.plugin(site.archive, provides=["--no-such"], arguments=["default=x"]), arguments=("--limit", "login")
    )
    assert done.returncode != 0
    assert "does not show --no-such. The lines that load these plugins were reverted" in " ".join(done.stdout.split())
    assert "default=hello" in site.cluster.exec("login", f"cat {LINE}").stdout


def test_undeclared_plugin_is_removed_everywhere(site: Site) -> None:
    done = site.run()
    assert done.returncode == 0, done.stdout
    assert changed(done.stdout) == {2}
    for node in site.hosts():
        assert site.cluster.exec(node, f"ls {LINE} {LIBRARIES}; {INSTALLED}", check=False).stdout == ""
    assert site.greeting() == []
    assert site.cluster.exec("login", "srun --quiet -N2 --mem=100 true", user="alice").returncode == 0
    assert changed(site.run().stdout) == {0}
