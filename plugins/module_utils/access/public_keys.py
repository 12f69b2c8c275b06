"""Validate SSH public keys."""

from __future__ import annotations

import base64
import re

__all__ = ["KEY_TYPES", "checked_key", "key_fault"]

KEY_TYPES = (
    *("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"),
)
# Each field of the key data has a length prefix; the first field is the type, followed by at least one number.
_LENGTH, _LEAST_FIELDS = 4, 2
# Options before a key in authorized_keys; quoted values may contain commas and spaces.
_OPTIONS = re.compile(r'(?:[^\s"]|"(?:\\"|[^"])*")+\s+')


def key_fault(line: str) -> str:
    """Return why a line of authorized_keys is invalid, or ''; the error does not include the line."""
    options = _OPTIONS.match(line)
    has_options = options is not None and not line.startswith(KEY_TYPES)
    try:
        checked_key(line[options.end() :] if options is not None and has_options else line)
    except ValueError as exc:
        return str(exc)
    return ""


def _fields(blob: bytes) -> list[bytes]:
    """Return the fields of key data, or none if the data is truncated."""
    fields = []
    while blob:
        end = _LENGTH + int.from_bytes(blob[:_LENGTH], "big")
        if end > len(blob):
            return []
        fields.append(blob[_LENGTH:end])
        blob = blob[end:]
    return fields


def checked_key(line: str) -> str:
    """Return a public key on one line.

    Raises:
        ValueError: it is not a public key; the message does not include its text.
    """
    if "PRIVATE KEY" in line:
        message = "this is a private key; use the public key (.pub) instead"
        raise ValueError(message)
    words = line.split()
    kind = words[0] if words else ""
    try:
        fields = _fields(base64.b64decode(words[1], validate=True) if words[1:] else b"")
    except ValueError:
        fields = []
    if kind not in KEY_TYPES or len(fields) < _LEAST_FIELDS or fields[0].decode("ascii", "replace") != kind:
        message = f"not an SSH public key: write TYPE DATA COMMENT on one line, such as {KEY_TYPES[0]} AAAA… me@laptop"
        raise ValueError(message)
    if not line.isprintable():
        message = "the key contains non-printable characters"
        raise ValueError(message)
    return " ".join(words)
