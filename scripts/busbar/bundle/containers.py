"""Runs the package manager of a system in a container of that system."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.common.openpgp_key import extract_key, fingerprints

from busbar.bundle.fetch import File, bundle_path, read_url, write
from busbar.errors import UsageError
from busbar.sandbox import host, image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Paths in the container: the working folder, and the files of the bundle.
WORK, FILES = "/work", "/bundle"


def image_file(reference: str) -> str:
    """Return the path of an image in a bundle."""
    return f"images/{re.sub(r'[^A-Za-z0-9._-]+', '_', reference)}.tar"


def image_reference(name: str, system: Mapping[str, Any]) -> str:
    """Return the name of the container image of a system."""
    return str(system.get("image") or image.image_name(name))


def ensure_system(name: str, system: Mapping[str, Any], bundle: Path) -> str:
    """Return the container image of a system; load it from the bundle, or build or pull it, if it is missing.

    Raises:
        UsageError: the image cannot be loaded, built or pulled.
    """
    reference = image_reference(name, system)
    if host.podman("image", "exists", reference, check=False).returncode:
        if (bundle / image_file(reference)).exists():
            host.podman("load", "--quiet", f"--input={bundle / image_file(reference)}")
        elif system.get("image"):
            host.podman("pull", "--quiet", reference)
        else:
            host.check_host()
            image.ensure_image(name)
    return reference


def run_in(  # noqa: PLR0913 - keywords
    system: Mapping[str, Any],
    name: str,
    script: str,
    work: Path,
    *,
    files: Path,
    online: bool,
    words: Sequence[str] = (),
) -> str:
    """Run a shell script in a container and return its output.

    Args:
        system: the system.
        name: its name.
        script: the script; the folders are WORK and, read-only, FILES.
        work: folder for WORK.
        files: folder for FILES.
        online: whether the container has a network.
        words: arguments of the script.

    Raises:
        UsageError: the script failed; contains the errors of the package manager.
    """
    done = subprocess.run(
        [
            *("podman", f"--runtime={host.choose_runtime()}", "run", "--rm", "--interactive"),
            f"--network={'host' if online else 'none'}",
            *(f"--volume={work}:{WORK}", f"--volume={files}:{FILES}:ro"),
            *host.ulimits(),
            *(ensure_system(name, system, files.parent), "/bin/sh", "-s", "--", *words),
        ],
        check=False,
        capture_output=True,
        text=True,
        input=script,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines()
        errors = [
            line for line in lines if line.startswith(("E:", "W:", "Err:", "Error")) or "depends:" in line.lower()
        ]
        message = f"{name}: {' '.join(' '.join(errors or lines[-5:]).split()) or 'the container failed'}"
        raise UsageError(message)
    return done.stdout


def install_key(repository: Mapping[str, Any], work: Path, files: Path, *, online: bool) -> list[File]:
    """Write the signing key of a repository to WORK, and return the path of its copy in the bundle.

    Raises:
        UsageError: the key cannot be read, or has another fingerprint.
    """
    key, data = trusted_key(repository, None if online else files)
    (work / f"{repository['name']}.asc").write_text(key, encoding="utf-8")
    if not data:
        return []
    path = bundle_path(repository["key_url"])
    if online:
        write(files / path, data)
    return [File(repository["key_url"], path)]


def trusted_key(repository: Mapping[str, Any], files: Path | None) -> tuple[str, bytes]:
    """Return the signing key of a repository and, if it was downloaded, the original file.

    Args:
        repository: with `name`, `key_url` or `key_file`, and `fingerprint`.
        files: the files of a bundle instead of the internet.

    Raises:
        UsageError: the key cannot be read, or has another fingerprint.
    """
    url, given = str(repository["key_url"]), str(repository.get("key_file") or "")
    if given:
        data = Path(given).read_bytes()
    elif files:
        path = files / bundle_path(url)
        if not path.is_file():
            message = f"the bundle lacks the signing key of repository {repository['name']} ({url})"
            raise UsageError(message)
        data = path.read_bytes()
    else:
        data = read_url(url)
    wanted = str(repository["fingerprint"]).replace(" ", "").upper()
    try:
        key, found = extract_key(data, wanted), ", ".join(fingerprints(data))
    except ValueError as exc:
        message = f"{given or url}: is not a signing key: {exc}"
        raise UsageError(message) from exc
    if key is None:
        message = (
            f"repository {repository['name']}: the signing key has changed (found {found}, expected {wanted}). Ask the"
            " vendor for the new fingerprint, and declare it if it matches"
        )
        raise UsageError(message)
    return key, b"" if given else data
