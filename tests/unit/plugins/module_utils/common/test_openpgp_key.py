"""The fingerprints of OpenPGP keys, computed without gpg."""

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

# Made with gpg for this test; gpg gives the fingerprint.
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
# Packets of a key in the newer form of their heads, with each width of a length.
OTHER = b"\x04" + bytes(range(50))
OTHER_FINGERPRINT = hashlib.sha1(b"\x99\x00\x33" + OTHER, usedforsecurity=False).hexdigest().upper()
LONG = b"\xc6\xff\x00\x00\x00\x33" + OTHER + b"\xcd\xc0\x08" + b"n" * 200


def test_armoured_and_binary_give_what_gpg_gives() -> None:
    assert fingerprints(KEY.encode()) == fingerprints(BINARY) == [FINGERPRINT]


def test_windows_line_ends_do_not_matter() -> None:
    assert fingerprints(KEY.replace("\n", "\r\n").encode()) == [FINGERPRINT]


def test_written_anew_it_is_what_gpg_writes() -> None:
    assert armour(BINARY) == KEY.replace("Comment: a line that says nothing\n", "")


@pytest.mark.parametrize("data", [BINARY + LONG, LONG + BINARY, KEY.encode() + armour(LONG).encode()])
def test_only_the_wanted_key_is_taken_of_many(data: bytes) -> None:
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
def test_an_invalid_key_is_reported(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fingerprints(data)


def test_fingerprints_are_taken_with_spaces() -> None:
    assert normal_fingerprint("1311 408e 8861 1e5c 2ec1  276d 06a5 7c5f d157 d586") == FINGERPRINT


@pytest.mark.parametrize("text", ["3bf863cc", "", FINGERPRINT + "0", "G" * 40])
def test_short_ids_are_no_fingerprints(text: str) -> None:
    with pytest.raises(ValueError, match="40 hexadecimal digits"):
        normal_fingerprint(text)
