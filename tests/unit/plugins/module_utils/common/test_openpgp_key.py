"""Tests of OpenPGP fingerprints computed without gpg."""

from __future__ import annotations

import base64
import hashlib

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.openpgp_key import (
    armour,
    extract_key,
    fingerprints,
    normal_fingerprint,
)

# Created with gpg for this test; the fingerprint is also from gpg.
KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----
Comment: a line that says nothing

mDMEawE+vhYJKwYBBAHaRw8BAQdAQ+PlHeKzrBeBNs4JGzjywVtyMagST7G85l5x
OKUUC+W0HmJ1c2JhciB0ZXN0cyA8dGVzdHNAbG9jYWxob3N0PoiQBBMWCAA4FiEE
ExFAjohhHlwuwSdtBqV8X9FX1YYFAmsBPr4CGwMFCwkIBwIGFQoJCAsCBBYCAwEC
HgECF4AACgkQBqV8X9FX1YaQKAEAgqRT0nbmKkt3OWNKggYywg6273bJH21rG773
VYxyCnkA/1OPLCvpCKJM6u3E8XbF3coiOJigv5ZBLjV2/Ufa0zEK
=KRV3
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "1311408E88611E5C2EC1276D06A57C5FD157D586"
BINARY = base64.b64decode("".join(KEY.splitlines()[3:8]))
# Packets of a key in the new header format, with each length encoding.
OTHER = b"\x04" + bytes(range(50))
OTHER_FINGERPRINT = hashlib.sha1(b"\x99\x00\x33" + OTHER, usedforsecurity=False).hexdigest().upper()
LONG = b"\xc6\xff\x00\x00\x00\x33" + OTHER + b"\xcd\xc0\x08" + b"n" * 200


def test_armoured_and_binary_fingerprints_match_gpg() -> None:
    assert fingerprints(KEY.encode()) == fingerprints(BINARY) == [FINGERPRINT]


def test_windows_line_ends_are_accepted() -> None:
    assert fingerprints(KEY.replace("\n", "\r\n").encode()) == [FINGERPRINT]


def test_armoured_output_matches_gpg() -> None:
    assert armour(BINARY) == KEY.replace("Comment: a line that says nothing\n", "")


@pytest.mark.parametrize("data", [BINARY + LONG, LONG + BINARY, KEY.encode() + armour(LONG).encode()])
def test_only_the_requested_key_is_extracted(data: bytes) -> None:
    assert sorted(fingerprints(data)) == sorted([FINGERPRINT, OTHER_FINGERPRINT])
    assert extract_key(data, FINGERPRINT) == armour(BINARY)
    assert extract_key(data, OTHER_FINGERPRINT) == armour(LONG)
    assert extract_key(data, "A" * 40) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no OpenPGP public key"),
        (b"<html>Sign in to the proxy</html>", "no OpenPGP public key"),
        (BINARY[:60], "truncated"),
        (KEY.replace("mDME", "m*ME").encode(), "armour is damaged"),
        (b"\xc6\xe1" + bytes(9), "indefinite length"),
        (b"\xc6", "no OpenPGP public key"),
    ],
)
def test_invalid_key_is_reported(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fingerprints(data)


def test_fingerprint_with_spaces_is_accepted() -> None:
    assert normal_fingerprint("1311 408e 8861 1e5c 2ec1  276d 06a5 7c5f d157 d586") == FINGERPRINT


@pytest.mark.parametrize("text", ["3bf863cc", "", FINGERPRINT + "0", "G" * 40])
def test_short_key_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="40 hexadecimal digits"):
        normal_fingerprint(text)
