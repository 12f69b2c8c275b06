"""Tests of custom certificates: valid ones are used, and problems are reported with a remedy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.lookup.tls_certificate import judge
from ansible_collections.busbar.cluster.plugins.plugin_utils.access import tls_certificate as tls
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

NOW = int(time.time())
DAY = 86400


def _site(place: Path, *, names: tuple[str, ...] = ("gpu1", "10.0.0.11"), now: int = NOW) -> dict[str, Any]:
    """Return files as a site's own authority would create them, with an RSA key."""
    authority = tls.make_authority("site", now)
    key = rsa.generate_private_key(65537, 2048)
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    texts = {
        "certificate": tls.sign_host(line.decode(), authority, names=names, now=now, days=30),
        "key": private.decode(),
        "ca": tls.authority_certificate(authority),
    }
    for kind, text in texts.items():
        (place / kind).write_text(text)
        (place / kind).chmod(0o600)
    return {kind: str(place / kind) for kind in texts}


def _problems(files: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = judge("gpu1", files, ["10.0.0.11"], NOW)["problems"]
    assert all(each["hosts"] == ["gpu1"] for each in found)
    return [(each["key"].removeprefix("tls_custom_certificate."), each["problem"], each["remedy"]) for each in found]


def test_valid_files_are_used_unchanged(tmp_path: Path) -> None:
    files = _site(tmp_path)
    found = judge("gpu1", files, ["10.0.0.11", "GPU1"], NOW)
    assert found["problems"] == []
    assert found["certificate"] == Path(files["certificate"]).read_text()
    assert (found["trusted"], found["key"]) == (Path(files["ca"]).read_text(), Path(files["key"]).read_text())
    assert found["not_after"] == NOW + 30 * DAY
    assert found["trusted_not_after"] == tls.first_end(found["trusted"]) > found["not_after"]


def test_unset_or_missing_files_are_reported(tmp_path: Path) -> None:
    files = _site(tmp_path)
    ((kind, problem, remedy),) = _problems(files | {"ca": ""})
    assert (kind, problem) == ("ca", "is not set")
    assert "clear tls_custom_certificate" in remedy
    assert _problems(files | {"cert": "/x"}) == [("cert", "is unknown", "use certificate, key, ca")]
    (tmp_path / "key").unlink()
    ((kind, problem, remedy),) = _problems(files)
    assert (kind, problem) == ("key", f"file {tmp_path / 'key'} does not exist")
    assert remedy.startswith("copy its private key to this path on the provisioning host")


def test_key_readable_by_others_is_reported(tmp_path: Path) -> None:
    files = _site(tmp_path)
    (tmp_path / "key").chmod(0o644)
    ((kind, problem, remedy),) = _problems(files)
    assert (kind, "mode 0644" in problem, "chmod 0600" in remedy) == ("key", True, True)


def test_key_of_another_certificate_is_reported(tmp_path: Path) -> None:
    files = _site(tmp_path)
    (tmp_path / "other").mkdir()
    other = _site(tmp_path / "other")
    assert [each[:2] for each in _problems(files | {"key": other["key"]})] == [
        ("key", "does not match the certificate")
    ]
    assert [each[:2] for each in _problems(files | {"ca": other["ca"]})] == [("ca", "did not sign the certificate")]


@pytest.mark.parametrize(("kind", "what"), [("certificate", "certificate"), ("ca", "certificate"), ("key", "key")])
def test_text_that_is_not_pem_is_reported(tmp_path: Path, kind: str, what: str) -> None:
    files = _site(tmp_path)
    Path(files[kind]).write_text("nothing")
    ((found, problem, remedy),) = _problems(files)
    assert (found, what in problem, "PEM" in remedy) == (kind, True, True)


def test_expired_certificate_and_other_host_are_reported(tmp_path: Path) -> None:
    ((kind, problem, remedy),) = _problems(_site(tmp_path, now=NOW - 60 * DAY))
    assert (kind, "is valid only from" in problem, "renew it" in remedy) == ("certificate", True, True)
    ((kind, problem, remedy),) = _problems(_site(tmp_path, names=("gpu2", "10.0.0.12")))
    assert (kind, problem) == ("certificate", "does not cover 10.0.0.11")
    assert "subjectAltName" in remedy
