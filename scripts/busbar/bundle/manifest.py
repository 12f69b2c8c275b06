"""Writes and verifies the signed manifest of a bundle, which lists each file with size, hash, source and licence."""

from __future__ import annotations

import dataclasses
import json
import re
import time
import zipfile
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Any

from busbar.bundle.fetch import digest_of
from busbar.errors import UsageError
from busbar.image.bundle import signature
from busbar.sandbox.host import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from busbar.bundle.plan import Plan

FORMAT = 1
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
KEY = "site_bundle_key"
NAMESPACE = "busbar-site-bundle"
SIGNER = "busbar"
FINGERPRINT = re.compile(r"SHA256:\S+")


def write_manifest(
    folder: Path, plan: Plan, files: Mapping[str, Mapping[str, str]], key: Path, version: str
) -> dict[str, Any]:
    """Write and sign the manifest, and return it.

    Args:
        folder: the bundle.
        plan: the packages and files of the hosts.
        files: source URL and licence, where known, of each file by its path below the folder.
        key: signing key, or the public key of one in ssh-agent.
        version: version of busbar.

    Raises:
        UsageError: the key cannot sign.
    """
    manifest = {
        "format": FORMAT,
        "busbar": version,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "fingerprint": plan.fingerprint,
        "plan": dataclasses.asdict(plan),
        "files": {
            path: {"size": (folder / path).stat().st_size, "sha256": digest_of(folder / path), **files[path]}
            for path in sorted(files)
        },
    }
    text = json.dumps(manifest, indent=1) + "\n"
    signed = signature(text, key, NAMESPACE)
    for name, content in ((SIGNATURE, signed), (MANIFEST, text)):
        fresh = folder / f".{name}.new"
        fresh.write_text(content, encoding="utf-8")
        fresh.replace(folder / name)
    return manifest


def read_manifest(folder: Path, signer: Path) -> dict[str, Any]:
    """Return the manifest of a bundle after its signature was verified.

    Args:
        folder: the bundle.
        signer: the expected public key.

    Raises:
        UsageError: the bundle is not signed, is signed by another key, or was changed.
    """
    if not signer.is_file():
        message = (
            f"{signer}: file not found. Copy the public key of the host that created the bundle to this path,"
            " separately from the bundle, or set --signer"
        )
        raise UsageError(message)
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        kind, _, rest = signer.read_text(encoding="utf-8").strip().partition(" ")
    except (OSError, UnicodeDecodeError) as exc:
        message = f"{folder}: is not a bundle ({exc})"
        raise UsageError(message) from exc
    if not (folder / SIGNATURE).is_file():
        message = f"{folder}: is not signed ({SIGNATURE} is missing). Use a bundle of a host that you trust"
        raise UsageError(message)
    allowed = folder.parent / f".{folder.name}.signers"
    try:
        allowed.write_text(f"{SIGNER} {kind} {rest.split()[0] if rest else ''}\n", encoding="utf-8")
        sig = ("-n", NAMESPACE, "-s", str(folder / SIGNATURE))
        done = run("ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", SIGNER, *sig, check=False, stdin=text)
    finally:
        allowed.unlink(missing_ok=True)
    if done.returncode:
        own = run("ssh-keygen", "-Y", "check-novalidate", *sig, check=False, stdin=text)
        found = FINGERPRINT.search(own.stdout)
        if own.returncode or not found:
            message = f"{folder}: its manifest was changed after it was signed. Copy the bundle again"
            raise UsageError(message)
        expected = FINGERPRINT.search(run("ssh-keygen", "-l", "-f", str(signer), check=False).stdout)
        message = (
            f"{folder}: is signed with another key (found {found[0]}, expected {expected[0] if expected else signer})."
            f" If the signing key was replaced intentionally, copy its public key to {signer}"
        )
        raise UsageError(message)
    manifest: dict[str, Any] = json.loads(text)
    if manifest.get("format") != FORMAT:
        problem = f"has format {manifest.get('format')} (expected {FORMAT})"
        message = f"{folder}: {problem}: use the version of busbar that created the bundle"
        raise UsageError(message)
    return manifest


def damaged_files(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each file that is missing or differs from the manifest."""
    for path, about in manifest["files"].items():
        place = folder / path
        if not place.is_file():
            yield f"{path}: is missing"
        elif place.stat().st_size != about["size"]:
            yield f"{path}: is damaged (found {place.stat().st_size} B, expected {about['size']} B)"
        elif digest_of(place) != about["sha256"]:
            yield f"{path}: is damaged (its SHA-256 differs from the manifest)"


def wheel_licence(path: Path) -> str:
    """Return the licence in the metadata of a wheel, or an empty text."""
    try:
        with zipfile.ZipFile(path) as wheel:
            name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = HeaderParser().parsestr(wheel.read(name).decode("utf-8", "replace"))
    except (OSError, StopIteration, zipfile.BadZipFile):
        return ""
    classifiers = [each for each in metadata.get_all("Classifier") or [] if each.startswith("License ::")]
    said = metadata["License-Expression"] or metadata["License"] or ""
    return said if said and "\n" not in said else ", ".join(each.rpartition(":: ")[2] for each in classifiers)
