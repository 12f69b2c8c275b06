"""Creates, signs and publishes a bundle: the roles, Ansible, and the public part of the inventory.

A published folder has `bundle.signed`, a JSON manifest followed by a signature of `ssh-keygen -Y sign`, and the archive
that it names by its SHA-256. Replacing the manifest publishes a new bundle atomically.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError
from busbar.paths import collections_root
from busbar.sandbox.host import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FORMAT = 1
NAMESPACE = "busbar-bundle"
KEY = "bundle_signing_key"
SIGNED = "bundle.signed"
MARK = "-----BEGIN SSH SIGNATURE-----"
COLLECTION = "collections/ansible_collections/busbar/cluster"
PARTS = ("meta", "playbooks", "plugins", "roles")
# Ansible, its dependencies, and those of the roles' filters. Compiled extensions are omitted; the pure Python code of
# these packages replaces them.
PYTHON_PACKAGES = ("ansible-core", "jinja2", "MarkupSafe", "PyYAML", "packaging", "ClusterShell")
# Collections of the Ansible package that the roles of playbooks/pull.yml use; names differ between releases.
COLLECTIONS = (
    "ansible/posix/meta/runtime.yml",
    "ansible/posix/plugins/module_utils/mount.py",
    "ansible/posix/plugins/modules/mount.py",
    "ansible/posix/plugins/modules/seboolean.py",
    "community/general/meta/runtime.yml",
    "community/general/plugins/filter/keep_keys.py",
    "community/general/plugins/plugin_utils/*keys_filter.py",
)
EXCLUDED = ("__pycache__", ".so", ".pyc", ".pyi")
# Minimum Python by minor version of ansible-core, from its package metadata.
PYTHON = {"2.19": (3, 11), "2.20": (3, 12), "2.21": (3, 12)}


@dataclasses.dataclass(frozen=True)
class Bundle:
    """A published bundle."""

    serial: int
    sha256: str
    size: int


def make_key(secrets: Path, name: str = KEY) -> Path:
    """Return the path of the key that signs a cluster's bundles; create the key at first use."""
    key = secrets / name
    if not key.exists():
        secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bundles of the cluster", "-f", str(key))
    return key


def signature(text: str, key: Path, namespace: str) -> str:
    """Return the signature of a text with an SSH key, or the public key of one in ssh-agent.

    Raises:
        UsageError: the key cannot sign.
    """
    signed = run("ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", str(key), stdin=text).stdout
    if MARK not in signed:
        message = f"{key}: ssh-keygen created no signature: use an SSH private key, or a key in ssh-agent"
        raise UsageError(message)
    return signed


def archive(inventory: Mapping[str, Any], top: Path | None = None) -> bytes:
    """Return the archive of a bundle; equal inputs give equal bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name, content in sorted(
            _files(inventory, top or collections_root() / "ansible_collections/busbar/cluster")
        ):
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o644, len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _files(inventory: Mapping[str, Any], top: Path) -> Iterator[tuple[str, bytes]]:
    yield "inventory.json", (json.dumps(inventory, indent=1, sort_keys=True) + "\n").encode()
    # Without this file Ansible would use an ansible.cfg that exists on the node.
    yield "ansible.cfg", b"[defaults]\n"
    for part in PARTS:
        for path in _below(top / part):
            yield f"{COLLECTION}/{part}/{path}", (top / part / path).read_bytes()
    for name in PYTHON_PACKAGES:
        installed = importlib.metadata.distribution(name)
        for file in installed.files or []:
            if ".." not in file.parts and "__pycache__" not in file.parts and file.suffix not in EXCLUDED:
                yield f"python/{file}", Path(str(installed.locate_file(file))).read_bytes()
    collections = _collections()
    for pattern in COLLECTIONS:
        for path in collections.glob(pattern):
            yield f"collections/ansible_collections/{path.relative_to(collections)}", path.read_bytes()


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; links are followed."""
    for base, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(each for each in folders if each not in EXCLUDED)
        for name in sorted(names):
            if not name.endswith(EXCLUDED):
                yield (Path(base) / name).relative_to(folder)


def _collections() -> Path:
    """Return the folder of the collections in the Ansible package."""
    found = importlib.util.find_spec("ansible_collections.community.general")
    if found is None or not found.submodule_search_locations:
        message = "community.general: the collection is not installed, but a bundle requires it: run scripts/setup"
        raise UsageError(message)
    return Path(next(iter(found.submodule_search_locations))).parents[1]


def published_serial(folder: Path) -> int:
    """Return the serial number of the bundle in a folder, or 0 without a bundle.

    Raises:
        UsageError: the bundle cannot be read.
    """
    path = folder / SIGNED
    if not path.exists():
        return 0
    try:
        return int(json.loads(path.read_text(encoding="utf-8").partition(MARK)[0])["serial"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        message = f"{path}: is not a readable bundle ({exc}): remove the file"
        raise UsageError(message) from exc


def publish(content: bytes, cluster: str, key: Path, folder: Path, serial: int | None = None) -> Bundle:
    """Sign an archive and publish it in a folder, replacing the current bundle.

    Args:
        content: the archive.
        cluster: name of the cluster whose nodes accept it.
        key: the signing key: a private key, or the public key of one in ssh-agent.
        folder: the published folder.
        serial: serial number, higher than the last one; by default the time in seconds since 1970.

    Raises:
        UsageError: signing failed, or the folder cannot be written.
    """
    serial = serial or max(int(time.time()), published_serial(folder) + 1)
    digest = hashlib.sha256(content).hexdigest()
    manifest = {
        "format": FORMAT,
        "cluster": cluster,
        "serial": serial,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sha256": digest,
        "size": len(content),
        "python": PYTHON.get(ansible_version(), sys.version_info[:2]),
    }
    text = json.dumps(manifest, indent=1) + "\n"
    signed = signature(text, key, NAMESPACE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        former = set(folder.glob("bundle-*.tar.gz"))
        _write(folder / f"bundle-{digest}.tar.gz", content)
        _write(folder / SIGNED, (text + signed).encode())
    except OSError as exc:
        message = f"{exc.filename or folder}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    # Keep the previous archive for nodes that have just read its manifest.
    kept = sorted(former, key=lambda path: path.stat().st_mtime)[-1:]
    for path in former - {*kept, folder / f"bundle-{digest}.tar.gz"}:
        path.unlink()
    return Bundle(serial, digest, len(content))


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    fresh.replace(path)


def ansible_version() -> str:
    """Return the minor version of the bundled Ansible."""
    from ansible.release import __version__  # noqa: PLC0415 - slow import, used only here

    return ".".join(str(__version__).split(".")[:2])
