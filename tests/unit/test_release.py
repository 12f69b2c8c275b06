"""Tests of scripts/build: a collection and a wheel that need no checkout."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from busbar.cli import COMMANDS
from packaging.requirements import Requirement
from report_samples import small

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[2]
SITE_PACKAGES = Path(yaml.__file__).parents[1]
OWN = "ansible_collections/busbar/cluster/"
# Not part of the collection: the files of a site, and tests and tools of development.
FOREIGN = {"tests", "inventory", "group_vars", "secrets", "reports", "molecule", "scripts", ".venv", ".git", ".cache"}
INVENTORY = """\
all:
  children:
    slurm_controller: {hosts: {ctl: {ansible_host: 192.0.2.1}}}
    slurm_database: {hosts: {ctl: }}
    slurm_login: {hosts: {ctl: }}
    slurm_compute:
      hosts: {"gpu[1:2]": }
      vars: {hardware: dgx_h100, munge_kee: "none"}
    monitoring: {hosts: {ctl: }}
"""


class Built(NamedTuple):
    """The collection and the wheel."""

    collection: Path
    wheel: Path


class Release(NamedTuple):
    """Two releases of the same commit, and the releaser's public key in the format that users save."""

    first: Path
    second: Path
    signers: Path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Build the release in two clones, one after the other, each with another umask, time zone and temporary folder."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / "key"], check=True)
    (folder / "signers").write_text(f"release@busbar {(folder / 'key.pub').read_text()}")
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", TOP, folder / "one"], check=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, check=True, capture_output=True, cwd=TOP).stdout
    existing = b"\0".join(name for name in listed.split(b"\0") if name and os.path.lexists(TOP / os.fsdecode(name)))
    copy = ["tar", "--create", "--null", "--no-recursion", "--files-from=-"]
    packed = subprocess.run(copy, check=True, capture_output=True, input=existing, cwd=TOP).stdout
    subprocess.run(["tar", "--extract", "--directory", folder / "one"], check=True, input=packed)
    commit = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "--allow-empty"]
    subprocess.run(["git", "add", "--all"], check=True, cwd=folder / "one")
    subprocess.run([*commit, "--no-verify", "--message", "release"], check=True, cwd=folder / "one")
    subprocess.run(["git", "clone", "--quiet", folder / "one", folder / "two"], check=True, umask=0o077)
    for name, zone, umask in (("one", "UTC", 0o022), ("two", "Asia/Tokyo", 0o077)):
        (folder / f"tmp-{name}").mkdir()
        environment = os.environ | {"TZ": zone, "TMPDIR": str(folder / f"tmp-{name}")}
        build = [str(folder / name / "scripts/build"), "--sign", str(folder / "key"), str(folder / f"dist-{name}")]
        subprocess.run(build, check=True, capture_output=True, env=environment, umask=umask)
    return Release(folder / "dist-one", folder / "dist-two", folder / "signers")


@pytest.fixture(scope="module")
def built(release: Release) -> Built:
    (collection,) = release.first.glob("busbar-cluster-*.tar.gz")
    (wheel,) = release.first.glob("busbar-*.whl")
    return Built(collection, wheel)


def members(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return archive.getmembers()


def files(built: Built) -> set[str]:
    return {each.name for each in members(built.collection) if each.isfile()}


def tracked() -> set[str]:
    """Return the files of the collection in this checkout by their paths in it, as a build collects them."""
    collection = TOP / ".collections" / OWN
    linked = [path for path in collection.iterdir() if path.is_symlink()]
    names = [str(path.resolve().relative_to(TOP)) for path in linked]
    run = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *names]
    listed = subprocess.run(run, check=True, capture_output=True, text=True, cwd=TOP).stdout.split("\0")
    own = {"requirements.txt", *(str(path.relative_to(collection)) for path in (collection / "meta").iterdir())}
    return {name for name in listed if name and (TOP / name).exists()} | own


def test_collection_contains_its_files_and_no_others(built: Built) -> None:
    exceptions = {f"tests/sanity/ignore-{release}.txt" for release in ("2.19", "2.20", "2.21")}
    assert files(built) == tracked() | {"MANIFEST.json", "FILES.json"} | exceptions
    assert not {each.split("/", 1)[0] for each in files(built) - exceptions} & FOREIGN
    assert {f"roles/{path.name}/meta/argument_specs.yml" for path in TOP.glob("roles/*")} <= files(built)
    assert not [each.name for each in members(built.collection) if not (each.isfile() or each.isdir())], "links"


def collection_info(collection: Path) -> dict[str, Any]:
    """Return the collection_info of a built collection's manifest."""
    with tarfile.open(collection) as archive:
        manifest = archive.extractfile("MANIFEST.json")
        assert manifest is not None
        info: dict[str, Any] = json.load(manifest)["collection_info"]
        return info


def test_collection_meets_the_rules_of_ansible_galaxy(tmp_path: Path) -> None:
    """The rules are those of galaxy_importer/schema.py (0.4.44); scripts/build has an option for the address."""
    address = "https://git.example.org/busbar"
    # A relative folder is relative to the working directory of the caller.
    subprocess.run([TOP / "scripts/build", "--repository", address, "."], check=True, capture_output=True, cwd=tmp_path)
    (built,) = tmp_path.glob("busbar-cluster-*.tar.gz")
    said = collection_info(built)
    assert said["repository"] == address
    for key in ("namespace", "name", "version", "authors", "license", "readme", "tags", "description"):
        assert said[key], key
    assert all(re.fullmatch(r"[a-z][a-z0-9_]+", said[key]) for key in ("namespace", "name"))
    assert all(re.fullmatch(r"[a-z0-9]+", tag) for tag in said["tags"])
    assert set(said["tags"]) & {"application", "cloud", "infrastructure", "linux", "monitoring", "storage", "tools"}


def test_metadata_of_the_collection_is_correct(built: Built) -> None:
    said = collection_info(built.collection)
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert said["version"] == project["version"]
    assert said["license"] == [project["license"]]
    assert said["description"] == project["description"]
    assert {name: said[name] for name in ("repository", "documentation", "homepage", "issues")} == dict.fromkeys(
        ("repository", "documentation", "homepage", "issues")
    )


def test_imports_of_plugins_are_required_packages() -> None:
    """The collection requires them for an execution environment, and the wheel does too."""
    asked = {line for line in (TOP / ".collections" / OWN / "requirements.txt").read_text().split("\n") if line}
    asked = {line for line in asked if not line.startswith("#")}
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert asked <= {*project["dependencies"], *project["optional-dependencies"]["ansible"]}
    nodes_only = {"prometheus_client"}
    text = "\n".join(path.read_text() for path in TOP.glob("plugins/**/*.py"))
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE))
    distributions = importlib.metadata.packages_distributions()
    known = {distributions.get(name, [""])[0] for name in imported - nodes_only}
    of_ansible = {"", "ansible", "ansible-core", "Jinja2", "MarkupSafe", "PyYAML"}
    older_than_ansible = {"typing_extensions"}  # on Python 3.10 and older, where Ansible does not run
    assert known - of_ansible - older_than_ansible == {re.split(r"[<>=]", line)[0] for line in asked}


def test_wheel_contains_the_collection_and_the_command(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    own = {name.removeprefix(OWN) for name in names if name.startswith(OWN)}
    assert own - {"galaxy.yml"} == tracked()
    run = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "scripts/busbar"]
    listed = subprocess.run(run, check=True, capture_output=True, text=True, cwd=TOP).stdout.split("\0")
    command = {name.removeprefix("scripts/") for name in listed if name and (TOP / name).exists()}
    assert {name for name in names if name.startswith("busbar/")} == command


def test_collection_installs_offline_and_reports_errors_of_a_foreign_inventory(built: Built, tmp_path: Path) -> None:
    """Variables of the checkout's inventory are absent; the collection has a default for each option."""
    programs = Path(sys.executable).parent
    install = [str(programs / "ansible-galaxy"), "collection", "install", str(built.collection)]
    subprocess.run(
        [*install, "-p", str(tmp_path / "own"), "--offline", "--force"], check=True, capture_output=True, cwd=tmp_path
    )
    assert (tmp_path / "own" / OWN / "MANIFEST.json").is_file()
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [programs / "ansible-playbook", "-i", "hosts.yml", "busbar.cluster.site"],
        env=environment | {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "own"), "ANSIBLE_NOCOLOR": "1"},
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 2
    assert "no node was contacted" in said
    assert "munge_kee: is not an option of any role (set for group slurm_compute in hosts.yml:8)" in said
    assert "did you mean munge_key?" in said
    assert "undefined" not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.yml", "own"]


def distributions_of(wanted: list[str], found: set[str]) -> set[str]:
    """Return the distributions that requirements install on this Python, with their dependencies."""
    for requirement in map(Requirement, wanted):
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in found:
            found.add(requirement.name)
            distributions_of(importlib.metadata.requires(requirement.name) or [], found)
    return found


@pytest.fixture(scope="module")
def plain(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the wheel and the dependencies of `pip install busbar` (no Ansible)."""
    folder = tmp_path_factory.mktemp("plain")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    for name in distributions_of(project["dependencies"], set()):
        for file in importlib.metadata.files(name) or []:
            top = packages / file.parts[0]
            if ".." not in file.parts and not top.exists():
                top.symlink_to(SITE_PACKAGES / file.parts[0])
    with zipfile.ZipFile(built.wheel) as archive:
        archive.extractall(packages)  # noqa: S202 - our own
    return folder / "bin/python"


def ran(python: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run busbar in an environment."""
    code = "from busbar.cli import main; raise SystemExit(main())"
    return subprocess.run([python, "-c", code, *words], check=False, capture_output=True, text=True, cwd=cwd)


def test_the_wheel_needs_no_ansible(plain: Path, tmp_path: Path) -> None:
    absent = subprocess.run([plain, "-c", "import ansible"], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert "No module named 'ansible'" in absent.stderr
    shown = ran(plain, "--help", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert set(COMMANDS) <= set(shown.stdout.split())
    recorded = TOP / "tests/fixtures/nccl/all_reduce_2x8.txt"
    judged = ran(plain, "judge", str(recorded), "--hardware", "dgx_h100", "--nodes", "2", cwd=tmp_path)
    assert judged.returncode == 1, judged.stderr
    assert judged.stdout.startswith("FAIL: ")
    listed = ran(plain, "hardware", "list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "dgx_h100" in listed.stdout


@pytest.mark.parametrize(
    "words",
    [
        "provision",
        "validate --detach",
        "ssh bootstrap",
        "ssh timer",
        "inventory describe gpu1",
        "health gpu1",
        "node list",
        "user list",
        "doctor",
        "backup verify",
        "secrets audit",
        "image bundle published",
    ],
)
def test_command_that_needs_ansible_reports_it(words: str, plain: Path, tmp_path: Path) -> None:
    done = ran(plain, *words.split(), cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"busbar {words.split(maxsplit=1)[0]} needs Ansible: ")
    assert "pip install 'busbar[ansible]'" in line
    assert "Python 3.11" in line
    assert list(tmp_path.iterdir()) == []


def test_report_is_signed_with_the_users_key_without_a_site(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "one").mkdir()
    tests = [test | {"output": None} for test in small()["tests"]]
    (tmp_path / "one/report.json").write_text(json.dumps(small() | {"tests": tests}))
    done = ran(plain, "report", "sign", "one", cwd=tmp_path)
    assert done.returncode == 2
    assert "cryptography" in done.stderr
    assert "--key FILE" in done.stderr


def verified(folder: Path, signers: Path) -> bool:
    """Return whether downloaded files pass the commands of docs/first-site.md."""
    page = (TOP / "docs/first-site.md").read_text()
    (command,) = re.findall(r"^\$ (ssh-keygen -Y verify .*) &&\n *(sha256sum .*)$", page, re.MULTILINE)
    shell = " && ".join(command).replace("busbar-signers", str(signers))
    return not subprocess.run(["bash", "-c", shell], check=False, capture_output=True, cwd=folder).returncode


def test_two_builds_of_a_commit_are_identical(release: Release) -> None:
    names = {path.name for path in release.first.iterdir()}
    files = [path.read_bytes() for path in sorted(release.first.iterdir())]
    assert [path.read_bytes() for path in sorted(release.second.iterdir())] == files
    version = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["version"]
    artifacts = {f"busbar-{version}{end}" for end in (".tar.gz", "-py3-none-any.whl", ".cdx.json")}
    assert names == artifacts | {f"busbar-cluster-{version}.tar.gz", "SHA256SUMS", "SHA256SUMS.sig"}


def test_sbom_lists_the_locked_packages(release: Release) -> None:
    (path,) = release.first.glob("*.cdx.json")
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "busbar")
    locked = set(re.findall(r"^([\w.-]+==[^ ;]+)", (TOP / "requirements.txt").read_text(), re.MULTILINE))
    assert locked <= {f"{each['name']}=={each['version']}" for each in bill["components"]}


def test_verification_detects_a_changed_artifact_and_another_key(release: Release, tmp_path: Path) -> None:
    assert verified(release.first, release.signers)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    (tmp_path / "signers").write_text(f"release@busbar {(tmp_path / 'other.pub').read_text()}")
    assert not verified(release.first, tmp_path / "signers")
    for name in [path.name for path in release.second.iterdir() if path.suffix != ".sig"]:
        content = (release.second / name).read_bytes()
        (release.second / name).write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
        assert not verified(release.second, release.signers), name
        (release.second / name).write_bytes(content)
    assert verified(release.second, release.signers)
    next(release.second.glob("*.whl")).unlink()
    assert verified(release.second, release.signers), "a user who downloads only the collection"


def test_a_release_needs_a_key_and_a_commit(release: Release, tmp_path: Path) -> None:
    clone = release.first.parent / "two"
    build = [str(clone / "scripts/build"), "--sign"]
    (tmp_path / "text").write_text("no key\n")
    done = subprocess.run([*build, str(tmp_path / "text"), str(tmp_path)], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"--sign {tmp_path}/text: is not an SSH key" in done.stderr
    (clone / "README.md").write_text("changed\n")
    done = subprocess.run(
        [*build, str(release.first.parent / "key"), str(tmp_path / "out")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert " M README.md" in done.stderr
    assert not (tmp_path / "out").exists()
