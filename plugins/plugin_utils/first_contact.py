"""Read the host keys of a machine before the first connection, and add them to known_hosts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

__all__ = ["fingerprint", "scan_keys", "trust_keys"]

TIMEOUT_S = 15
_FIELDS = 3


def fingerprint(key: str) -> str:
    """Return the fingerprint of a public key, as printed by `ssh-keygen -lf`; '' for an invalid key."""
    try:
        blob = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return ""
    return f"SHA256:{base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip('=')}"


def scan_keys(address: str, port: int) -> list[str]:
    """Return the host keys that ssh-keyscan finds, each as type and key; empty if the host does not answer."""
    command = ["ssh-keyscan", "-T", str(TIMEOUT_S), "-p", str(port), "-t", "ed25519,ecdsa,rsa", "--", address]
    try:
        output = subprocess.run(command, check=False, capture_output=True, text=True, timeout=3 * TIMEOUT_S).stdout  # noqa: S603 - fixed arguments
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.split() for line in output.splitlines() if not line.startswith("#")]
    return [" ".join(words[1:]) for words in lines if len(words) == _FIELDS]


def trust_keys(path: Path, names: Sequence[str], port: int, keys: Collection[str]) -> None:
    """Replace the keys of a host in a known_hosts file; lines with a marker (@) and comments are kept.

    Raises:
        OSError: if the file cannot be written.
    """
    known_as = [name if port == 22 else f"[{name}]:{port}" for name in names]  # noqa: PLR2004 - the SSH port
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in old if line[:1] in "#@" or not set(line.split(" ")[0].split(",")) & set(known_as)]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in [*kept, *(f"{','.join(known_as)} {key}" for key in keys)])
    os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)  # noqa: PTH101
    os.replace(name, path)  # noqa: PTH105
