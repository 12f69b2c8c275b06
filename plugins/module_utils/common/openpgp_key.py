"""Read OpenPGP public keys and extract one from a file, without gpg, which nodes may not have.

Format: RFC 4880 (version 4 keys) and RFC 9580 (version 6 keys).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["armour", "extract_key", "fingerprints", "normal_fingerprint"]

PUBLIC_KEY = 6
BLOCK = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL
)
CRC24_START, CRC24_POLYNOMIAL = 0xB704CE, 0x1864CFB
LINE_LENGTH = 64
NOT_A_KEY = "it contains no OpenPGP public key"


def normal_fingerprint(text: str) -> str:
    """Return a fingerprint in upper case with its spaces removed.

    Raises:
        ValueError: the text does not have 40 (version 6 keys: 64) hexadecimal digits.
    """
    found = re.sub(r"\s", "", text).upper()
    if not re.fullmatch(r"[0-9A-F]{40}|[0-9A-F]{64}", found):
        message = f"{text!r} is not a fingerprint (expected 40 hexadecimal digits)"
        raise ValueError(message)
    return found


def crc24(data: bytes) -> int:
    """Return the CRC-24 checksum of armoured data."""
    value = CRC24_START
    for octet in data:
        value ^= octet << 16
        for _ in range(8):
            value <<= 1
            if value & 0x1000000:
                value ^= CRC24_POLYNOMIAL
    return value


def armour(data: bytes) -> str:
    """Return binary key material as armoured text, as apt and rpm read it."""
    text = base64.b64encode(data).decode()
    lines = [text[start : start + LINE_LENGTH] for start in range(0, len(text), LINE_LENGTH)]
    lines.append("=" + base64.b64encode(crc24(data).to_bytes(3, "big")).decode())
    body = "\n".join(lines)
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{body}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def dearmour(data: bytes) -> bytes:
    """Return the binary form of armoured or binary key material.

    Raises:
        ValueError: the data is neither.
    """
    if data[:1] and data[0] & 0x80:
        return data
    binary = b""
    for block in BLOCK.findall(data):
        lines = [line.strip() for line in block.splitlines()]
        start = lines.index(b"") + 1 if b"" in lines else 0
        text = b"".join(line for line in lines[start:] if not line.startswith(b"="))
        try:
            binary += base64.b64decode(text, validate=True)
        except binascii.Error as exc:
            message = f"its ASCII armour is damaged ({exc})"
            raise ValueError(message) from exc
    if not binary:
        raise ValueError(NOT_A_KEY)
    return binary


def body_length(data: bytes, place: int, *, new_format: bool, kind: int) -> tuple[int, int]:
    """Return length and start of the body of a packet; `place` is the offset after its first octet."""
    if not new_format:
        width = (1, 2, 4, 0)[kind]
        if width == 0:
            return len(data) - place, place
        return int.from_bytes(data[place : place + width], "big"), place + width
    first = data[place]
    if first < 192:  # noqa: PLR2004 - limits of RFC 4880, section 4.2.2
        return first, place + 1
    if first < 224:  # noqa: PLR2004
        return ((first - 192) << 8) + data[place + 1] + 192, place + 2
    if first == 255:  # noqa: PLR2004
        return int.from_bytes(data[place + 1 : place + 5], "big"), place + 5
    message = "it contains a packet of indefinite length"
    raise ValueError(message)


def packets(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the tag, the body and the complete bytes of each packet.

    Raises:
        ValueError: the data is not a sequence of complete packets.
    """
    place = 0
    while place < len(data):
        start, head = place, data[place]
        if not head & 0x80:
            raise ValueError(NOT_A_KEY)
        new_format = bool(head & 0x40)
        tag = head & 0x3F if new_format else (head >> 2) & 0x0F
        try:
            length, place = body_length(data, place + 1, new_format=new_format, kind=head & 0x03)
        except IndexError as exc:
            raise ValueError(NOT_A_KEY) from exc
        if place + length > len(data):
            message = "it is truncated in the middle of a key"
            raise ValueError(message)
        yield tag, data[place : place + length], data[start : place + length]
        place += length


def fingerprint(body: bytes) -> str:
    """Return the fingerprint of a key from the body of its packet; '' for an unknown version."""
    version = body[0] if body else 0
    if version == 4:  # noqa: PLR2004
        return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
    if version == 6:  # noqa: PLR2004
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    return ""


def keys(data: bytes) -> list[tuple[str, bytes]]:
    """Return the fingerprint and packets of each primary key, including subkeys, user ids and signatures."""
    found: list[tuple[str, bytes]] = []
    for tag, body, whole in packets(dearmour(data)):
        if tag == PUBLIC_KEY:
            found.append((fingerprint(body), whole))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + whole)
    if not found:
        raise ValueError(NOT_A_KEY)
    return found


def fingerprints(data: bytes) -> list[str]:
    """Return the fingerprints of the primary keys in a file.

    Raises:
        ValueError: the file contains no key.
    """
    return [name for name, _ in keys(data)]


def extract_key(data: bytes, wanted: str) -> str | None:
    """Return only the key with that fingerprint, armoured; None if the file contains only other keys.

    Raises:
        ValueError: the file contains no key.
    """
    return next((armour(whole) for name, whole in keys(data) if name == wanted), None)
