"""Tests of Enroot from packages with known content: installation, configuration per user, private credentials."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.state import load
from conftest import TOP, plain_environment, recap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conftest import Cluster

pytestmark = pytest.mark.proves("enroot")

PLAY = """\
- hosts: login:gpu1
  become: true
  gather_facts: true
  roles:
    - role: busbar.cluster.enroot
"""
NODES = ("login", "gpu1")
SECRET = "s3cret-of-alice"  # noqa: S105 - a test password
HOOK = "#!/bin/sh\n"
# The real program also starts by evaluating each value of enroot.conf in the shell.
PROGRAM = """\
#!/bin/bash
while IFS=$' \\t=' read -r key value; do
    [[ $key =~ ^ENROOT_ ]] && echo "$key=$(eval echo "$value")"
done < /etc/enroot/enroot.conf
"""
FILES = {
    "/usr/bin/enroot": PROGRAM,
    "/etc/enroot/hooks.d/98-nvidia.sh": HOOK,
    "/etc/enroot/hooks.d/99-mellanox.sh": HOOK,
    "/usr/share/enroot/hooks.d/50-slurm-pmi.sh": HOOK,
    "/usr/share/enroot/hooks.d/50-slurm-pytorch.sh": HOOK,
}


def package(folder: Path, name: str, files: Mapping[str, str], depends: str) -> Path:
    """Create a Debian package with the name that upstream uses."""
    target = folder / f"{name}_4.1.2-1_amd64.deb"
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        root.chmod(0o755)
        control = f"Package: {name}\nVersion: 4.1.2-1\nArchitecture: all\nDepends: {depends}\n"
        control += "Maintainer: busbar tests <tests@localhost>\nDescription: of a test\n"
        for path, text in {**files, "/DEBIAN/control": control}.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            place.chmod(0o755 if text.startswith("#!") else 0o644)
        command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", made, str(target)]
        subprocess.run(command, check=True, capture_output=True)
    return target


@contextlib.contextmanager
def served(cluster: Cluster, folder: Path, port: int = 8097) -> Iterator[str]:
    """Serve a folder from the controller; yields the URL."""
    place, unit = "/run/busbar-test-enroot", "busbar-test-enroot"
    subprocess.run(
        ["podman", "cp", str(folder), f"{cluster.container('ctl')}:{place}"], check=True, capture_output=True
    )
    cluster.exec("ctl", f"systemd-run -q --unit {unit} python3 -m http.server -d {place} {port}")
    try:
        cluster.wait_until(
            lambda: (
                cluster.exec(
                    "ctl", f"python3 -c \"import socket; socket.create_connection(('localhost', {port}))\"", check=False
                ).returncode
                == 0
            ),
            "the server does not answer",
        )
        yield f"http://{load(cluster.name).address('ctl')}:{port}"
    finally:
        cluster.exec("ctl", f"systemctl stop {unit}; rm -rf {place}", check=False)


class Site:
    """The sandbox with a play that contains only Enroot."""

    def __init__(self, cluster: Cluster, play: Path, options: dict[str, Any]):
        """Store the options of the role."""
        self.cluster, self.play, self.options = cluster, play, options

    def run(self, *arguments: str, **change: object) -> subprocess.CompletedProcess[str]:
        """Run the play."""
        file = self.play.with_name("options.json")  # not on the command line, which every user can read
        file.write_text(json.dumps(self.options | change), encoding="utf-8")
        command = ["ansible-playbook", "-i", str(self.cluster.inventory), str(self.play), "-e", f"@{file}", *arguments]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=600, cwd=TOP, env=plain_environment()
        )


@pytest.fixture(scope="module")
def site(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the sandbox without Enroot; Enroot is removed again at the end."""
    folder = tmp_path_factory.mktemp("enroot")
    packages = folder / "packages"
    packages.mkdir()
    made = [package(packages, "enroot", FILES, "bash"), package(packages, "enroot+caps", {}, "enroot (= 4.1.2-1)")]
    play = folder / "enroot.yml"
    play.write_text(PLAY, encoding="utf-8")
    with served(sandbox, packages) as address:
        credential = {"user": "alice", "machine": "nvcr.io", "login": "$oauthtoken", "password": SECRET}
        options = {
            "enroot_enabled": True,
            "enroot_source": address,
            "enroot_checksums": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made},
            "__enroot_extra_packages": [],
            "enroot_minimum_mb": 100,
            "enroot_hooks": ["50-slurm-pmi.sh", "98-nvidia.sh"],
            "enroot_settings": {"ENROOT_MAX_CONNECTIONS": 4},
            "enroot_credentials": [credential],
            # Tests must not contact public registries.
            "enroot_credentials_check": False,
        }
        yield Site(sandbox, play, options)
    for node in NODES:
        ours = "/etc/enroot /var/lib/enroot /etc/tmpfiles.d/busbar-enroot.conf /usr/local/lib/busbar/enroot_path"
        ours += " /etc/systemd/system/busbar-enroot*"
        stop = "systemctl disable --now busbar-enroot.socket"
        sandbox.exec(
            node, f"{stop}; dpkg --purge enroot+caps enroot; rm -rf {ours}; systemctl daemon-reload", check=False
        )


def test_wrong_checksum_installs_nothing(site: Site) -> None:
    wrong = dict.fromkeys(site.options["enroot_checksums"], "0" * 64)
    done = site.run(enroot_checksums=wrong)
    assert done.returncode != 0
    assert f"expected {'0' * 64}). Nothing was installed" in " ".join(done.stdout.split())
    assert site.cluster.exec("gpu1", "ls /etc/enroot /var/lib/enroot /usr/bin/enroot", check=False).stdout == ""


REGISTRY = """
import http.server
class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        given = self.headers.get("Authorization")
        self.send_response(403 if given else 401)
        self.send_header("WWW-Authenticate", "Basic realm=x")
        self.end_headers()
http.server.HTTPServer(("", 8098), Registry).serve_forever()
"""


def test_registry_refusal_ends_the_run_before_any_change(site: Site) -> None:
    unit, machine = "busbar-test-registry", load(site.cluster.name).address("ctl")
    address = f"{machine}:8098"
    mine = {"user": "alice", "machine": machine, "port": 8098, "login": "robot", "password": SECRET}
    gone = {**mine, "machine": "127.0.0.1", "port": 9}
    # Enroot would look up a registry without its port.
    done = site.run(enroot_credentials=[{**mine, "machine": address}])
    assert f"write machine: {machine}, port: 8098" in " ".join(done.stdout.split())
    asked: dict[str, Any] = {"enroot_credentials": [mine, gone], "enroot_credentials_check": True}
    site.cluster.exec("ctl", f"systemd-run -q --unit {unit} python3 -c '{REGISTRY}'")
    try:
        knock = f'python3 -c \'import socket; socket.create_connection(("{address}".split(":")[0], 8098))\''
        site.cluster.wait_until(
            lambda: site.cluster.exec("ctl", knock, check=False).returncode == 0, "the registry does not answer"
        )
        done = site.run("-v", **asked, enroot_allow_http=True)
    finally:
        site.cluster.exec("ctl", f"systemctl stop {unit}", check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert (
        f"login: enroot_credentials: {address}, login robot of user alice: refused: it answers with HTTP status 403"
        in said
    )
    assert "remedy: put a valid token into the vault" in said
    assert "127.0.0.1:9, login robot of user alice: not tested" in said
    assert SECRET not in done.stdout + done.stderr
    assert site.cluster.exec("gpu1", "ls /etc/enroot /var/lib/enroot /usr/bin/enroot", check=False).stdout == ""


@pytest.mark.scenario
def test_credentials_are_private_and_in_no_output(site: Site) -> None:
    foreseen = site.run("--check", "--diff", "-v")
    done = site.run("--diff", "-vvv")
    again = site.run("-v")
    for run in (foreseen, done, again):
        assert run.returncode == 0, run.stdout
        assert SECRET not in run.stdout + run.stderr
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}
    for node in NODES:
        path = "/etc/enroot/users/alice/.credentials"
        assert site.cluster.exec(node, f"stat -c '%U %a' {path}").stdout == "alice 600\n"
        assert f"machine nvcr.io login $oauthtoken password {SECRET}" in site.cluster.exec(node, f"cat {path}").stdout
        elsewhere = f"journalctl --no-pager | grep -c {SECRET}; grep -rl {SECRET} /var/log /etc /tmp /var/lib/enroot"
        assert site.cluster.exec(node, elsewhere, check=False).stdout.split() == ["0", path]
        assert "Permission denied" in site.cluster.exec(node, f"cat {path}", user="bob", check=False).stderr


@pytest.mark.scenario
def test_every_user_has_own_directories_on_disk(site: Site) -> None:
    paths = {}
    for user in ("alice", "bob"):
        shown = site.cluster.exec("gpu1", "enroot", user=user)
        settings = dict(line.split("=", 1) for line in shown.stdout.splitlines())
        number = site.cluster.exec("gpu1", f"id -u {user}").stdout.strip()
        for kind in ("runtime", "cache", "data"):
            assert settings[f"ENROOT_{kind.upper()}_PATH"] == f"/var/lib/enroot/{kind}/user-{number}"
        assert settings["ENROOT_TEMP_PATH"] == f"/var/lib/enroot/tmp/user-{number}"
        assert settings["ENROOT_MAX_CONNECTIONS"] == "4"
        paths[user] = settings
        mode = site.cluster.exec("gpu1", f"stat -c '%U %a' {settings['ENROOT_CACHE_PATH']}").stdout
        assert mode == f"{user} 700\n"
    config = paths["alice"]["ENROOT_CONFIG_PATH"]
    assert config == f"{paths['alice']['ENROOT_CACHE_PATH']}/.config"
    assert SECRET in site.cluster.exec("gpu1", f"cat {config}/.credentials", user="alice").stdout
    assert paths["bob"]["ENROOT_CONFIG_PATH"] == "/shared/home/bob/.config/enroot"


# Attacks in the parent directories of all users, which the node must refuse.
PLANTED = {
    "a directory": "mkdir -m 777 {place}",
    "a link": "ln -s /home {place}",
    "a file": "touch {place}",
    "another name for it": "mv {parent} {parent}.gone",
}


@pytest.mark.parametrize("node", NODES)
def test_user_cannot_create_the_directory_of_another_user(site: Site, node: str) -> None:
    alice = site.cluster.exec(node, "id -u alice").stdout.strip()
    for kind in ("runtime", "cache", "data", "tmp"):
        parent = f"/var/lib/enroot/{kind}"
        assert site.cluster.exec(node, f"stat -c '%U %a' {parent}").stdout == "root 755\n"
        site.cluster.exec(node, f"rm -rf {parent}/user-{alice}")
        for name, command in PLANTED.items():
            tried = command.format(place=f"{parent}/user-{alice}", parent=parent)
            done = site.cluster.exec(node, tried, user="bob", check=False)
            assert (done.returncode, "Permission denied" in done.stderr) == (1, True), name
    site.cluster.exec(node, "enroot", user="alice")
    assert site.cluster.exec(node, f"stat -c '%U %a' /var/lib/enroot/data/user-{alice}").stdout == "alice 700\n"


def test_foreign_directory_is_set_aside_before_the_job(site: Site) -> None:
    alice = site.cluster.exec("gpu1", "id -u alice").stdout.strip()
    theirs = f"/var/lib/enroot/data/user-{alice}"
    site.cluster.exec("gpu1", f"rm -rf {theirs}; mkdir -m 777 {theirs}; chown bob {theirs}")
    site.cluster.exec("gpu1", f"SLURM_JOB_UID={alice} /usr/local/lib/busbar/enroot_prolog")
    shown = site.cluster.exec("gpu1", "enroot", user="alice")
    assert f"ENROOT_DATA_PATH={theirs}" in shown.stdout
    assert shown.stderr == ""
    assert site.cluster.exec("gpu1", "find /var/lib/enroot/data/.set-aside-*/ -user bob").stdout.strip()


def test_flood_of_requests_does_not_block_other_users(site: Site) -> None:
    flood = "import socket\nfor _ in range(400): socket.socket(socket.AF_UNIX).connect('/run/busbar-enroot.sock')"
    site.cluster.exec("login", f'python3 -c "{flood}"', user="bob", check=False)
    site.cluster.exec("login", "rm -rf /var/lib/enroot/*/user-*")
    shown = site.cluster.exec("login", "enroot", user="alice")
    assert "refused-for-the-reason-above" not in shown.stdout
    assert site.cluster.exec("login", "systemctl is-active busbar-enroot.socket").stdout == "active\n"


def test_directories_are_created_again_after_a_boot(site: Site) -> None:
    boot = "systemd-tmpfiles --create --remove --boot /etc/tmpfiles.d/busbar-enroot.conf"
    site.cluster.exec("gpu1", "mkdir -p /var/lib/enroot/cache/.set-aside-x")
    site.cluster.exec("gpu1", boot)
    assert (
        site.cluster.exec(
            "gpu1", "ls -A /var/lib/enroot/data /var/lib/enroot/cache | grep set-aside", check=False
        ).stdout
        == ""
    )
    alice = site.cluster.exec("gpu1", "id -u alice").stdout.strip()
    site.cluster.exec("gpu1", f"SLURM_JOB_UID={alice} /usr/local/lib/busbar/enroot_prolog")
    for kind in ("runtime", "cache", "data", "tmp"):
        place = f"/var/lib/enroot/{kind}"
        assert (
            site.cluster.exec("gpu1", f"stat -c '%U %a' {place} {place}/user-{alice}").stdout == "root 755\nalice 700\n"
        )


def test_only_selected_hooks_are_installed(site: Site) -> None:
    # Without its program, the GPU hook would abort each container of a CUDA image.
    show = "cd /etc/enroot/hooks.d && find -L . -name '*.sh' -perm -111"
    ours = ["./49-busbar-mount-points.sh", "./50-slurm-pmi.sh"]
    assert sorted(site.cluster.exec("gpu1", show).stdout.split()) == ours
    cli = "/usr/local/bin/nvidia-container-cli"
    site.cluster.exec("gpu1", f"install -m 755 /bin/true {cli}")
    done = site.run()
    site.cluster.exec("gpu1", f"rm {cli}")
    assert done.returncode == 0, done.stdout
    assert sorted(site.cluster.exec("gpu1", show).stdout.split()) == [*ours, "./98-nvidia.sh"]
    assert sorted(site.cluster.exec("login", show).stdout.split()) == ours


def test_container_with_mount_points_of_the_hook_can_be_exported(site: Site) -> None:
    """Runs the commands that Enroot runs before mksquashfs (runtime::export of 4.1.2) with the find of the host."""
    place, pmix = "$HOME/busbar-test-container", "/var/lib/slurm/slurmd/pmix.1.0"
    find = f'find {place} -path "{place}/dev/*" -o -perm 0000 -prune \\( -empty -o -type d \\)'
    plain = f"rm -rf {place}; mkdir -p {place}/var/lib/slurm/slurmd; mkdir -m 0 {place}{pmix}; {find}"
    without = site.cluster.exec("gpu1", plain, user="alice", check=False)
    hook = f"ENROOT_ROOTFS={place} PMIX_SERVER_TMPDIR={pmix} /etc/enroot/hooks.d/49-busbar-mount-points.sh"
    ours = f"rm -rf {place}; mkdir {place}; {hook}; mkdir -m 0 -p {place}{pmix}; {find}"
    done = site.cluster.exec("gpu1", ours, user="alice", check=False)
    site.cluster.exec("gpu1", f"rm -rf {place}", user="alice")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # find exits with 1 in findutils 4.10 and with 0 in 4.9 if a directory is unreadable.
    assert (without.returncode, "Permission denied" in without.stderr) in {(0, False), (1, True)}


def test_full_disk_is_reported_and_removed_options_are_undone(site: Site) -> None:
    done = site.run(enroot_free_mb=10**9, enroot_credentials=[], enroot_hooks=["99-mellanox.sh"])
    assert done.returncode == 0, done.stdout
    shown = site.cluster.exec("gpu1", "enroot", user="alice")
    assert "MiB are free in /var/lib/enroot, an image may not fit" in shown.stderr
    assert "ENROOT_CONFIG_PATH" not in shown.stdout
    assert site.cluster.exec("gpu1", f"grep -rl {SECRET} /etc/enroot", check=False).stdout == ""
    listed = site.cluster.exec("gpu1", "cd /etc/enroot/hooks.d && find -L . -name '*.sh' -perm -111").stdout.split()
    assert sorted(listed) == ["./49-busbar-mount-points.sh", "./99-mellanox.sh"]
