"""Tests of host certificates: verification with openssl and Python's TLS, and renewal."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access import tls_certificate as tls

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_760_000_000
DAY = 86400
NAMES = ["gpu1", "gpu1.cluster.example", "10.0.0.11", "fd00::11"]


@pytest.fixture(scope="module", name="authority")
def _authority() -> str:
    return tls.make_authority("alpha", NOW)


@pytest.fixture(scope="module", name="key")
def _key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a private key as created on a host, with its public key next to it."""
    path = tmp_path_factory.mktemp("key") / "host.key"
    make = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "256", "-m", "PEM", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(make, check=True)
    return path


@pytest.fixture(scope="module", name="public")
def _public(key: Path) -> str:
    return key.with_suffix(".key.pub").read_text()


def _reason(certificate: str, public: str, authority: str, **other: object) -> str:
    asked = {"names": NAMES, "now": NOW, "days": 365, "renew_days": 90} | other
    return tls.renewal_reason(certificate, public, authority, **asked)  # type: ignore[arg-type]


def test_openssl_accepts_the_certificate_for_both_purposes_and_all_names(
    authority: str, public: str, tmp_path: Path
) -> None:
    certificate = tls.sign_host(public, authority, names=NAMES, now=NOW, days=365)
    (tmp_path / "ca").write_text(tls.authority_certificate(authority))
    (tmp_path / "host").write_text(certificate)
    for check in ("sslserver", "sslclient"):
        for name in (["-verify_hostname", NAMES[0]], ["-verify_hostname", NAMES[1]], ["-verify_ip", NAMES[2]]):
            command = ["openssl", "verify", "-x509_strict", "-attime", str(NOW), "-purpose", check, *name]
            done = subprocess.run(
                [*command, "-CAfile", str(tmp_path / "ca"), str(tmp_path / "host")],
                check=False,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    assert tls.end_of(certificate) == NOW + 365 * DAY
    trusted = tls.authority_certificate(authority)
    assert tls.first_end(trusted + certificate) == tls.first_end(certificate + trusted) == NOW + 365 * DAY
    assert tls.first_end(trusted) > NOW + 19 * 365 * DAY


def test_certificate_works_with_a_tls_peer_of_the_same_authority(key: Path, public: str, tmp_path: Path) -> None:
    """Use a key as created on a host, in the same format."""
    import time  # noqa: PLC0415 - only this test uses the real time

    now = int(time.time())
    authority = tls.make_authority("beta", now)
    (tmp_path / "crt").write_text(tls.sign_host(public, authority, names=["localhost"], now=now, days=1))
    (tmp_path / "ca").write_text(tls.authority_certificate(authority))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca"))
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(tmp_path / "ca"))
    for side in (server, client):
        side.load_cert_chain(tmp_path / "crt", key)
    ours, theirs = socket.socketpair()
    answers: list[bytes] = []

    def serve() -> None:
        with server.wrap_socket(theirs, server_side=True) as stream:
            answers.append(stream.recv(5))

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(ours, server_hostname="localhost") as stream:
        stream.sendall(b"hello")
        thread.join(timeout=10)
    assert answers == [b"hello"]


def test_valid_certificate_is_kept(authority: str, public: str) -> None:
    certificate = tls.sign_host(public, authority, names=NAMES, now=NOW, days=365)
    assert _reason(certificate, public, authority) == ""
    assert _reason(certificate, public, authority, now=NOW + 274 * DAY) == ""


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"now": NOW + 276 * DAY}, "it expires soon"),
        ({"now": NOW + 400 * DAY}, "it expires soon"),
        ({"names": [*NAMES, "10.0.0.12"]}, "its names differ"),
        ({"names": NAMES[:2]}, "its names differ"),
        ({"now": NOW - 2 * DAY}, "it is not valid yet"),
    ],
)
def test_reason_for_renewal(authority: str, public: str, changed: dict[str, object], reason: str) -> None:
    certificate = tls.sign_host(public, authority, names=NAMES, now=NOW, days=365)
    assert _reason(certificate, public, authority, **changed) == reason


def test_other_key_or_authority_is_a_reason_for_renewal(authority: str, public: str) -> None:
    certificate = tls.sign_host(public, authority, names=NAMES, now=NOW, days=365)
    assert _reason("", public, authority) == "it does not exist"
    assert _reason(certificate, tls.placeholder_key(), authority) == "it is for another key"
    assert "another authority" in _reason(certificate, public, tls.make_authority("alpha", NOW))
    assert "cannot be read" in _reason("-----BEGIN CERTIFICATE-----", public, authority)


def test_certificate_ends_with_its_authority_without_early_renewal(authority: str, public: str) -> None:
    late = tls.end_of(tls.authority_certificate(authority)) - 30 * DAY
    certificate = tls.sign_host(public, authority, names=NAMES, now=late, days=365)
    assert tls.end_of(certificate) == late + 30 * DAY
    assert _reason(certificate, public, authority, now=late) == ""
    with pytest.raises(ValueError, match="rename the secret tls_ca to tls_ca_previous"):
        tls.sign_host(public, authority, names=NAMES, now=late + 31 * DAY, days=365)


def test_long_name_is_complete_in_the_subject_alternative_names(authority: str, public: str) -> None:
    name = f"{'n' * 60}.cluster.example"
    certificate = tls.sign_host(public, authority, names=[name], now=NOW, days=1)
    assert _reason(certificate, public, authority, names=[name], days=1, renew_days=0) == ""


@pytest.mark.parametrize("text", ["", "ssh-ed25519 AAAA", "no key"])
def test_invalid_key_is_refused(authority: str, text: str) -> None:
    with pytest.raises(ValueError, match="the host's public key is"):
        tls.sign_host(text, authority, names=NAMES, now=NOW, days=1)


def test_authority_with_mismatched_key_and_certificate_is_refused(authority: str) -> None:
    other = tls.make_authority("alpha", NOW)
    mixed = authority.partition("-----BEGIN CERT")[0] + tls.authority_certificate(other)
    with pytest.raises(ValueError, match="contains a certificate that does not match the private key"):
        tls.read_authority(mixed)
    with pytest.raises(ValueError, match="does not contain an unencrypted private key"):
        tls.read_authority(tls.authority_certificate(other))
