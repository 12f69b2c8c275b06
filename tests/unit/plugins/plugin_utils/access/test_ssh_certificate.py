"""Tests of SSH host certificates: signing, renewal, and verification with ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.ssh_certificate import (
    certificate_end,
    make_authority,
    public_line,
    renewal_reason,
    sign_host_key,
)
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000
DAY = 86400
AUTHORITY, OTHER = make_authority(), make_authority()
HOST, OTHER_HOST = public_line(make_authority()) + " root@gpu1", public_line(make_authority())
NAMES = ["gpu1", "gpu1.cluster.example", "10.0.0.11"]
ECDSA = (
    generate_private_key(SECP256R1())
    .public_key()
    .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    .decode()
)


def _sign(**changes: Any) -> str:  # noqa: ANN401 - fields of several types
    fields: dict[str, Any] = {"identity": "c:gpu1", "principals": NAMES, "now": NOW, "days": 730, **changes}
    return sign_host_key(fields.pop("key", HOST), fields.pop("authority", AUTHORITY), **fields)


def _reason(certificate: str, **changes: Any) -> str:  # noqa: ANN401 - fields of several types
    fields: dict[str, Any] = {"principals": NAMES, "now": NOW, "renew_days": 365, "days": 730, **changes}
    return renewal_reason(certificate, HOST, AUTHORITY, **fields)


@pytest.mark.parametrize(
    ("certificate", "changes", "reason"),
    [
        (_sign(), {}, ""),
        (_sign() + "\n", {}, ""),
        (_sign(), {"principals": NAMES[::-1]}, ""),
        (_sign(), {"now": NOW + 364 * DAY}, ""),
        (_sign(), {"now": NOW + 366 * DAY}, "it expires soon"),
        (_sign(), {"now": NOW + 3 * 365 * DAY}, "it expires soon"),
        (_sign(), {"now": NOW - 2 * DAY}, "it is not valid yet"),
        (_sign(), {"days": 90, "renew_days": 30}, "its validity is too long"),
        (_sign(days=90), {"days": 90, "renew_days": 30, "now": NOW + 59 * DAY}, ""),
        (_sign(days=90), {"days": 90, "renew_days": 30, "now": NOW + 61 * DAY}, "it expires soon"),
        (_sign(), {"principals": NAMES[:1]}, "its names differ"),
        (_sign(key=OTHER_HOST), {}, "it is for another key"),
        (_sign(authority=OTHER), {}, "another authority signed it"),
        ("", {}, "it does not exist"),
        pytest.param(HOST, {}, "it is a plain key", id="plain"),
        ("nonsense", {}, "it cannot be read"),
        (_sign().replace("AAAA", "AAAB", 1), {}, "it cannot be read"),
    ],
)
def test_renewal(certificate: str, changes: dict[str, Any], reason: str) -> None:
    assert _reason(certificate, **changes) == reason


def test_forged_signature_is_refused() -> None:
    certificate = _sign()
    kind, body = certificate.split()
    forged = f"{kind} {body[:-12]}{'B' if body[-12] != 'B' else 'C'}{body[-11:]}"
    assert _reason(forged) == "it cannot be read"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": ECDSA}, "not of type ed25519"),
        ({"key": "nonsense"}, "public key is not in OpenSSH format"),
        ({"authority": "nonsense"}, "private key is not in OpenSSH format"),
    ],
)
def test_invalid_keys_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _sign(**changes)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")
def test_certificate_is_accepted_by_openssh(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text(AUTHORITY)
    (tmp_path / "ca").chmod(0o600)
    (tmp_path / "cert.pub").write_text(_sign())
    derived = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(tmp_path / "ca")], check=True, capture_output=True, text=True
    )
    assert derived.stdout.split()[:2] == public_line(AUTHORITY).split()
    shown = subprocess.run(
        ["ssh-keygen", "-L", "-f", str(tmp_path / "cert.pub")], check=True, capture_output=True, text=True
    ).stdout
    assert "host certificate" in shown
    assert all(name in shown for name in NAMES)


def test_certificate_end_is_read() -> None:
    assert certificate_end(_sign(days=90)) == NOW + 90 * DAY
    for text, reason in (("nonsense", "cannot be read"), (HOST, "is a plain key")):
        with pytest.raises(ValueError, match=reason):
            certificate_end(text)
