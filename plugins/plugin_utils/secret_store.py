"""Generate secrets once and store them as files on the provisioning host."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

ENCODINGS = ("urlsafe", "hex")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LARGEST = 1 << 20


class SecretError(ValueError):
    """A secret cannot be used; the message contains the file and the remedy."""


def make_secret(size: int, encoding: str = "urlsafe") -> str:
    """Return a new secret of `size` random bytes as a string."""
    return secrets.token_hex(size) if encoding == "hex" else secrets.token_urlsafe(size)


def encoded_length(size: int, encoding: str = "urlsafe") -> int:
    """Return the number of characters that encode `size` random bytes."""
    return 2 * size if encoding == "hex" else (4 * size + 2) // 3


def get_secret(directory: Path, name: str, size: int, encoding: str = "urlsafe", *, create: bool = True) -> str:
    """Return the secret `name` in `directory`, and generate it if it does not exist.

    Concurrent processes all get the same secret.

    Args:
        directory: the secrets directory; created with mode 0700 if missing.
        name: a plain file name.
        size: number of random bytes.
        encoding: one of ENCODINGS.
        create: if false, a missing secret is generated for this call only and not written.

    Raises:
        SecretError: if the secret cannot be read, written or trusted.
    """
    if not _NAME.fullmatch(name):
        message = f"secret name {name!r} is not a plain file name: use letters, digits, '.', '_' and '-'"
        raise SecretError(message)
    if encoding not in ENCODINGS or size < 1:
        message = f"secret {name}: needs at least one byte and an encoding of {', '.join(ENCODINGS)}"
        raise SecretError(message)
    path = directory / name
    minimum = encoded_length(size, encoding)
    try:
        return read_secret(path, minimum)
    except FileNotFoundError:
        fresh = make_secret(size, encoding)
    if not create:
        return fresh
    store_secret(path, fresh)
    try:
        return read_secret(path, minimum)
    except FileNotFoundError as exc:
        message = f"secret {path} cannot be created: the path is a dangling link, remove it"
        raise SecretError(message) from exc


def read_secret(path: Path, minimum: int) -> str:
    """Return the secret in `path`, without leading and trailing whitespace.

    Raises:
        FileNotFoundError: if the file does not exist.
        SecretError: if it is not a private regular file of at least `minimum` characters.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_unsafe(os.fstat(descriptor), path)
            content = os.read(descriptor, _LARGEST)
        finally:
            os.close(descriptor)
        text = content.decode().strip()
    except FileNotFoundError:
        raise
    except OSError as exc:
        message = (
            f"secret {path} cannot be read ({exc.strerror}): chown the file to the user who runs busbar, mode 0600"
        )
        raise SecretError(message) from exc
    except UnicodeDecodeError as exc:
        message = f"secret {path} is not text: write text to it, or remove the file to generate a new secret"
        raise SecretError(message) from exc
    if len(text) < minimum:
        message = (
            f"secret {path} has {len(text)} characters (minimum {minimum}): "
            "restore it from a backup, or remove the file to generate a new secret"
        )
        raise SecretError(message)
    return text


def store_secret(path: Path, text: str) -> None:
    """Write `text` to `path` atomically with mode 0600; an existing secret is kept.

    Raises:
        SecretError: if the directory cannot be created or written.
    """
    temporary = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        # Unlike rename, link does not replace a file that another process has created.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
            _keep_entry(path.parent)
    except OSError as exc:
        message = f"secret {path} cannot be written ({exc.strerror}): make {path.parent} a writable directory"
        raise SecretError(message) from exc
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _keep_entry(directory: Path) -> None:
    """Sync a directory, so that the new secret survives a power loss, because hosts may already use it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_unsafe(status: os.stat_result, path: Path) -> None:
    """Raise SecretError unless the file is regular and accessible only to its owner."""
    if not stat.S_ISREG(status.st_mode):
        message = f"secret {path} is not a regular file: move it away to generate a new secret"
        raise SecretError(message)
    if status.st_uid != os.geteuid():
        message = (
            f"secret {path} is owned by UID {status.st_uid}, who can read and replace it (expected UID "
            f"{os.geteuid()}): run as the owner, or chown the file if you trust its content"
        )
        raise SecretError(message)
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        message = (
            f"secret {path} is accessible to other users (mode {mode:04o}): chmod 0600, and replace it if it was read"
        )
        raise SecretError(message)
