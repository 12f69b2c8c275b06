"""Tests of site bundles: their content, verification and serving."""

from __future__ import annotations

import argparse
import functools
import hashlib
import http.client
import http.server
import json
import platform
import re
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.common.openpgp_key import fingerprints
from busbar.bundle import apt, containers, create, dnf, fetch, manifest, plan
from busbar.bundle.fetch import File
from busbar.cli import main
from busbar.commands.bundle import Handler
from busbar.errors import UsageError
from busbar.run.site import Site, add_run_options
from busbar.sandbox import image

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[3]
TABLES = [TOP / "playbooks/vars" / name for name in ("later_packages.yml", "bundle_packages.yml")]
INSTALLS = re.compile(r"busbar\.cluster\.(?:packages|upstream_release):|builtin\.(?:get_url|pip):")
FACTS = {
    "distribution": "Debian",
    "distribution_major_version": "13",
    "distribution_version": "13",
    "os_family": "Debian",
    "architecture": "x86_64",
}
NVIDIA = dict.fromkeys(("url", "suite", "key_url", "key_file", "fingerprint"), "") | {"priority": 0}
DECLARED = {"cluster": "trial", "nvidia": NVIDIA, "doca": "", "key_files": {}, "grafana": {}, "slurm": {}}


def task_texts() -> Iterator[tuple[str, str]]:
    """Yield the tasks of roles as text."""
    for path in sorted((TOP / "roles").glob("*/tasks/*.yml")):
        for task in re.split(r"^(?= *- name: )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            yield path.parts[-3], task


def test_each_role_that_installs_packages_is_in_the_table() -> None:
    listed = set(re.findall(r"role(?:=|: )'?(\w+)", "".join(path.read_text() for path in TABLES)))
    installing = {role for role, task in task_texts() if INSTALLS.search(task) and "absent:" not in task}
    assert installing - listed == set()
    assert {"slurm", "mariadb", "enroot", "jupyterhub", "grafana"} <= installing


def test_each_download_of_a_role_can_use_the_bundle() -> None:
    kinds = ("builtin.get_url:", "cluster.upstream_release:", "cluster.package_repository:", "builtin.pip:")
    tasks = [task for _, task in task_texts() if any(kind in task for kind in kinds)]
    missing = [
        task.splitlines()[0]
        for task in tasks
        if "__site_bundled" not in task and "site_bundle" not in task and "distribution: true" not in task
    ]
    assert (missing, len(tasks) > 10) == ([], True)


def planned(*entries: dict[str, Any], hosts: int = 1, **declared: Any) -> plan.Plan:  # noqa: ANN401 - YAML values
    names = [f"gpu{number}" for number in range(hosts)]
    wanted = dict.fromkeys(names, entries)
    return plan.plan_from(
        wanted,
        dict.fromkeys(names, DECLARED | declared),
        dict.fromkeys(names, "debian13"),
        dict.fromkeys(names, FACTS),
    )


def test_hosts_with_equal_packages_are_one_class_and_an_added_one_keeps_the_fingerprint() -> None:
    entry = {"names": ["munge"], "packages": [{"name": "libnccl2", "version": "*+cuda13.1"}]}
    two, three = planned(entry, hosts=2), planned(entry, hosts=3)
    assert [(own.hosts, own.packages) for own in two.classes] == [
        (["gpu0", "gpu1"], [["libnccl2", "*+cuda13.1"], ["munge", ""]])
    ]
    assert two.fingerprint == three.fingerprint
    assert two.fingerprint != planned({"names": ["munge", "lmod"]}, hosts=2).fingerprint


def test_driver_is_pinned_with_its_repository() -> None:
    hardware = {"gpu": {"model": "H100", "generation": "hopper", "count": 8, "nvswitch": 3}}
    driver = {"hardware": hardware, "settings": {"source": "nvidia", "branch": "590"}, "locked": {}}
    own = planned({"names": ["linux-headers-amd64"], "repository": "cuda", "driver": driver}).classes[0]
    assert ["nvidia-kernel-open-dkms", "590*"] in own.packages
    assert ["nvidia-*", "590*"] in own.pins
    assert own.repositories[0]["fingerprint"] == "02182E60104FCDC26EAE1B8597A5D4CB8793F200"


def test_downloads_have_hashes_and_exclude_files_of_the_provisioning_host() -> None:
    found = planned(
        {"downloads": [{"url": "https://a.example/x.tar.gz", "sha256": "AB"}, {"source": "/srv/own.tar.gz"}]},
        {"downloads": [{"file": "y.deb", "sha256": "cd"}], "base": "https://b.example/v1/"},
    )
    assert found.downloads == {"https://a.example/x.tar.gz": "ab", "https://b.example/v1/y.deb": "cd"}


def test_slurm_repository_with_a_custom_suite_is_refused() -> None:
    with pytest.raises(UsageError, match=r"gpu0: slurm_repository\.suite is not supported"):
        planned({"names": ["munge"]}, slurm={"suite": "testing"})


SITE = """
all:
  vars:
    cluster_name: everything
    fail2ban_enabled: true
    firewall_enabled: true
    security_updates_enabled: true
    backup_enabled: true
    journal_remote_enabled: true
    identity_source: ldap_server
    enroot_enabled: true
    pyxis_enabled: true
    charliecloud_enabled: true
    miniforge_enabled: true
    miniforge_version: 25.3.0-1
    miniforge_checksums: {x86_64: aa, aarch64: aa}
    apptainer_enabled: true
    apptainer_version: 1.4.0
    apptainer_files: [{name: apptainer, version: "1.4.0", file: apptainer_1.4.0.deb, sha256: cc}]
    grafana_source: repository
    grafana_repository_url: https://apt.grafana.com
    grafana_repository_fingerprint: "0000000000000000000000000000000000000000"
    scratch_devices: [/dev/nvme0n1]
    gpudirect_gdrcopy: true
    rdma_source: doca
    nvidia_repository_fingerprints: {doca: "0000000000000000000000000000000000000000"}
    validation_image: docker://nvcr.io#nvidia/pytorch:25.10-py3
    storage_mounts_entries: [{type: cephfs, src: ":/", path: /ceph}]
    home_quota_default: 10G
    user_profiling: true
    ansible_connection: ssh
    ansible_become: true
  children:
    slurm_controller: {hosts: {ctl: {}}}
    slurm_database: {hosts: {ctl: {}}}
    slurm_login: {hosts: {login: {}}}
    monitoring: {hosts: {ctl: {}}}
    portal: {hosts: {ctl: {}}}
    pxe_server: {hosts: {ctl: {}}}
    nfs_server: {hosts: {ctl: {}}, vars: {nfs_server_exports: [{path: /shared}]}}
    nfs_client: {hosts: {login: {}}, children: {slurm_compute: {}}}
    slurm_compute: {hosts: {gpu1: {hardware: dgx_h100}, el1: {hardware: dgx_h100}, ub1: {hardware: dgx_h100}}}
"""


def test_ansible_evaluates_the_table_on_each_system_without_contacting_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (tmp_path / "hosts.yml").write_text(SITE)
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    site = Site(parser.parse_args(["-i", str(tmp_path / "hosts.yml")]))
    assigned = plan.assigned_systems(site, ["debian13", "rocky9=el1", "ubuntu2404=ub1"])
    found = plan.make_plan(site, assigned)
    packages = {own.hosts[0]: {name for name, _ in own.packages} for own in found.classes}
    sources = {own.hosts[0]: [each["name"] for each in own.repositories] for own in found.classes}
    every = {"chrony", "sudo", "munge", "nftables"}
    nvidia = {"nvidia-fabricmanager", "datacenter-gpu-manager-exporter", "libnvidia-container1", "doca-ofed"}
    assert all(every <= names for names in packages.values())
    assert all(nvidia <= packages[host] for host in ("gpu1", "el1", "ub1"))
    server = {
        "slurmctld",
        "mariadb-server",
        "slapd",
        "prometheus",
        "restic",
        "quota",
        "nginx",
        "libslurm-dev",
        "grafana",
    }
    assert server <= packages["ctl"]
    assert {"sackd", "lmod", "charliecloud-runtime", "ceph-common"} <= packages["login"]
    assert {"linux-headers-amd64", "linux-perf", "nfs-common", "xfsprogs", "cuda-toolkit-13-1"} <= packages["gpu1"]
    assert {"@nvidia-driver:580-open", "kmod-nvidia-open-dkms", "slurm-slurmd", "kernel-devel"} <= packages["el1"]
    assert {"nvidia-dkms-580-open", "linux-tools-generic", "linux-headers-generic"} <= packages["ub1"]
    assert sources["gpu1"] == ["cuda", "doca", "libnvidia-container"]
    assert (sources["ctl"], sources["login"]) == (["grafana"], [])
    names = {url.rpartition("/")[2] for url in found.downloads}
    assert {"apptainer_1.4.0.deb", "musl-1.2.5.tar.gz", "v0.24.0.tar.gz"} <= names
    assert found.requirements == [["requirements-hub.txt", "debian13"], ["requirements-notebook.txt", "debian13"]]
    assert found.images == ["docker://nvcr.io#nvidia/pytorch:25.10-py3"]


@pytest.mark.parametrize("url", ["https://a.example/../../etc/passwd", "https://a.example/%2e%2e/x", "https:///x"])
def test_url_outside_the_folder_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the URL of a file"):
        fetch.bundle_path(url)


def test_path_of_a_file_is_the_decoded_url() -> None:
    assert fetch.bundle_path("http://a.example/pool/x_1%2b2_amd64.deb") == "a.example/pool/x_1+2_amd64.deb"


# Output of `apt-get update --print-uris` in Debian's image.
SOURCES = """\
'http://security.example/debian-security/dists/trixie-security/InRelease' security.example_InRelease 0
'http://security.example/debian-security/dists/trixie-security/main/binary-amd64/Packages.xz' x_Packages 0
'http://a.example/debian/dists/trixie/InRelease' a.example_debian_dists_trixie_InRelease 0
"""
APT = """\
== indexes
main/binary-amd64/Packages {base}/debian/dists/trixie/main/binary-amd64/Packages
== packages
'{base}/debian/pool/main/m/munge/munge_0.5.16-1%2b1_amd64.deb' munge_0.5.16-1+1_amd64.deb 107056 SHA256:2E26
"""


@pytest.mark.parametrize("online", [True, False])
def test_downloads_come_from_apt(online: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    digest = "a" * 64
    release = f"SHA256:\n {digest}  77 main/binary-amd64/Packages.xz\n {digest} 99 main/binary-amd64/Packages.gz\n"

    def run_in(_: object, __: str, script: str, *___: object, **____: object) -> str:
        if "--print-uris" in script and "indextargets" not in script:
            return SOURCES
        (tmp_path / "lists").mkdir()
        (tmp_path / "lists/a.example_debian_dists_trixie_InRelease").write_text(release)
        return APT.format(base="http://a.example" if online else "copy:/bundle/a.example")

    if not online:
        fetch.write(tmp_path / "files/a.example/debian/dists/trixie/InRelease", release.encode())
        monkeypatch.setattr(apt, "run_in", lambda *a, **b: run_in(*a, **b).replace("a.example_", "bundle_a.example_"))
    else:
        monkeypatch.setattr(apt, "run_in", run_in)
    own = planned({"packages": [{"name": "munge", "version": "0.5.16"}]}).classes[0]
    found = apt.resolve_apt(own, plan.systems()["debian13"], tmp_path, tmp_path / "files", online=online)
    base = "a.example/debian"
    assert {file.path: (file.size, file.digest) for file in found} == {
        f"{base}/dists/trixie/InRelease": (0, ""),
        f"{base}/dists/trixie/main/binary-amd64/Packages.xz": (77, f"sha256:{digest}"),
        f"{base}/pool/main/m/munge/munge_0.5.16-1+1_amd64.deb": (107056, "sha256:2e26"),
    }
    assert "Package: munge\nPin: version 0.5.16-*" in (tmp_path / "preferences/bundle.pref").read_text()
    sources = (tmp_path / "sources/bundle.sources").read_text()
    assert re.findall(r"^Suites: (.*)", sources, re.MULTILINE) == ["trixie-security", "trixie"]
    assert sources.count("Components: main contrib non-free non-free-firmware\n") == 2


@pytest.mark.parametrize("name", [name for name, system in plan.systems().items() if "image" not in system])
def test_debian_systems_use_the_image_of_the_sandbox(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def podman(*words: str, **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr("busbar.sandbox.host.podman", podman)
    monkeypatch.setattr(image, "podman", podman)
    reference = containers.ensure_system(name, plan.systems()[name], tmp_path)
    assert image.ensure_image(name) == (reference, False)
    assert asked == [("image", "exists", reference)] * 2


def test_downloads_come_from_dnf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = '<data type="primary"><checksum type="sha256">ab</checksum><location href="repodata/p.xml"/></data>'
    index = f'<repomd xmlns="http://linux.duke.edu/metadata/repo">{entry}</repomd>'
    monkeypatch.setattr(dnf, "read_url", lambda _: index.encode())
    monkeypatch.setattr(dnf, "run_in", lambda *_, **__: "https://b.example/Packages/m/munge-0.5.13-1.rpm\nnoise\n")
    own = planned({"names": ["munge"]}).classes[0]
    own.packages.append(["@nvidia-driver:580-open", ""])
    found = {
        file.path: file for file in dnf.resolve_dnf(own, plan.systems()["rocky9"], tmp_path, tmp_path, online=True)
    }
    assert found["dl.rockylinux.org/pub/rocky/9/BaseOS/x86_64/os/repodata/p.xml"].digest == "sha256:ab"
    assert {"b.example/Packages/m/munge-0.5.13-1.rpm", "dl.rockylinux.org/pub/rocky/RPM-GPG-KEY-Rocky-9"} < set(found)


def test_changed_signing_key_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    key = next((TOP / "tests").rglob("*.asc"), None)
    if key is None:
        key = Path("/usr/share/keyrings/debian-archive-trixie-stable.gpg")
    own = fingerprints(key.read_bytes())[0]
    monkeypatch.setattr(containers, "read_url", lambda _: key.read_bytes())
    repository = {"name": "cuda", "key_url": "https://a.example/key", "fingerprint": own}
    assert containers.trusted_key(repository, None)[0].startswith("-----BEGIN PGP")
    with pytest.raises(
        UsageError, match=rf"cuda: the signing key has changed \(found .*{own}.*, expected {'0' * 40}\)"
    ):
        containers.trusted_key(repository | {"fingerprint": "0" * 40}, None)


class Ranges(http.server.SimpleHTTPRequestHandler):
    """A server of one file that supports ranges."""

    content = bytes(range(256)) * 40
    begins: list[int] = []  # noqa: RUF012 - of one test

    def do_GET(self) -> None:  # noqa: D102
        begin = int(re.sub(r"\D", "", self.headers.get("Range") or "0"))
        self.begins.append(begin)
        body = self.content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:  # noqa: ANN401, D102
        pass


@pytest.fixture
def archive() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    Ranges.begins = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_interrupted_download_continues_and_a_complete_file_is_not_downloaded_again(
    archive: str, tmp_path: Path
) -> None:
    digest = hashlib.sha256(Ranges.content).hexdigest()
    file = File(f"{archive}/x.deb", "a/x.deb", len(Ranges.content), f"sha256:{digest}")
    fetch.write(tmp_path / "a/x.deb.part.part", b"")
    (tmp_path / "a/x.deb.part").write_bytes(Ranges.content[:1000])
    lines: list[str] = []
    fetch.download([file], tmp_path, lines.append)
    fetch.download([file], tmp_path, lines.append)
    assert (tmp_path / "a/x.deb").read_bytes() == Ranges.content
    assert Ranges.begins == [1000]
    assert lines == ["downloaded 1 of 1 files, 9 kB of 10 kB"]


def test_wrong_hash_is_refused(archive: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x\.deb: has unexpected content \(found sha256:\w+, 10240 B, expected"):
        fetch.download([File(f"{archive}/x.deb", "x.deb", 10240, "sha256:00")], tmp_path, print)
    assert not (tmp_path / "x.deb").exists()


def test_unreachable_archive_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:9/x: cannot be downloaded \(.*refused"):
        fetch.download([File("http://127.0.0.1:9/x", "x")], tmp_path, print)


def test_too_little_disk_space_is_refused_before_the_download(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not enough disk space \(found 600 MB, expected 3\.5 GB\)"):
        create.refuse_small_disk(tmp_path, 3_000_000_000, free=600_000_000)


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """Return a signed bundle with one file."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    folder = tmp_path / "bundle"
    fetch.write(folder / "files/a.example/x.deb", b"content")
    files = {"files/a.example/x.deb": {"url": "https://a.example/x.deb", "licence": "MIT"}}
    manifest.write_manifest(folder, planned({"names": ["munge"]}), files, tmp_path / "key", "1.0")
    return folder


def verify(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    code = main(["bundle", "verify", str(folder), "--signer", str(folder.parent / "key.pub"), *more])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_complete_bundle_is_accepted(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads((signed / "manifest.json").read_text())["files"]["files/a.example/x.deb"]["licence"] == "MIT"
    code, shown = verify(signed, capsys)
    assert (code, "bundle of trial" in shown) == (0, True)


def test_damaged_or_missing_file_is_reported(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (signed / "files/a.example/x.deb").write_bytes(b"CONTENT")
    code, shown = verify(signed, capsys)
    assert (code, "x.deb: is damaged (its SHA-256 differs" in shown) == (2, True)
    (signed / "files/a.example/x.deb").write_bytes(b"cont")
    assert "x.deb: is damaged (found 4 B, expected 7 B)" in verify(signed, capsys)[1]
    (signed / "files/a.example/x.deb").unlink()
    assert "x.deb: is missing" in verify(signed, capsys)[1]


def test_outdated_bundle_is_refused(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = verify(signed, capsys, "--max-age", "-1")
    assert (code, "is outdated (created 0 days ago, expected at most -1)" in shown) == (2, True)


def test_changed_manifest_is_refused(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = signed / "manifest.json"
    path.write_text(path.read_text().replace("MIT", "GPL"))
    assert "its manifest was changed after it was signed" in verify(signed, capsys)[1]


def test_missing_signature_is_refused(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (signed / "manifest.json.sig").unlink()
    assert "is not signed (manifest.json.sig is missing)" in verify(signed, capsys)[1]


def test_other_signing_key_is_refused(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("key", "key.pub"):
        (signed.parent / name).unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(signed.parent / "key")], check=True)
    code, shown = verify(signed, capsys)
    assert code == 2
    assert re.search(r"is signed with another key \(found SHA256:\S+, expected SHA256:\S+\)", shown)


def test_missing_public_key_is_refused(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (signed.parent / "key.pub").unlink()
    assert "Copy the public key of the host that created the bundle" in verify(signed, capsys)[1]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--system", "slackware"], "unknown system slackware (known: debian12, debian13,"),
        (["--system", "debian13=slurm_login"], "matches no host in the inventory"),
        (["--system", "debian13=gpu1"], "ctl: the system of the host is unknown"),
        ([], "ctl, gpu1: the system of the host is unknown"),
    ],
)
def test_hosts_without_a_system_are_refused(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"ctl": {}, "gpu1": {}}}}))
    code = main(["bundle", "create", "-i", str(tmp_path / "hosts.yml"), *words, str(tmp_path / "bundle")])
    assert (code, problem in capsys.readouterr().err) == (2, True)


def test_serve_offers_only_files(signed: Path) -> None:
    handler = functools.partial(Handler, directory=str(signed))
    (signed / "files/a.example/y+1.deb").write_bytes(b"plus")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = {}
        for method, path in (
            ("GET", "/files/a.example/x.deb"),
            ("HEAD", "/files/a.example/x.deb"),
            ("GET", "/files/a.example/y%2b1.deb"),
            ("GET", "/files/a.example/"),
            ("GET", "/../key"),
            ("GET", "/%2e%2e/key"),
            ("PUT", "/files/a.example/x.deb"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request(method, path)
            answer = connection.getresponse()
            found[method, path] = (answer.status, answer.read() if answer.status == 200 else b"")
            connection.close()
        server.shutdown()
    assert list(found.values()) == [
        (200, b"content"),
        (200, b""),
        (200, b"plus"),
        (404, b""),
        (404, b""),
        (404, b""),
        (501, b""),
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["FOLDER/none"], "is not a bundle (manifest.json is missing)"),
        (["FOLDER", "--listen", "8000"], "is not an address with a port"),
        (["FOLDER", "--listen", "127.0.0.1:99999"], "--listen 127.0.0.1:99999:"),
    ],
)
def test_serve_refuses(words: list[str], problem: str, signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["bundle", "serve", *(word.replace("FOLDER", str(signed)) for word in words)])
    assert (code, problem in capsys.readouterr().err) == (2, True)
