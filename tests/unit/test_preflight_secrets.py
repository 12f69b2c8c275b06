"""The preflight looks at every secret that a role makes, and asks for as many bytes."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[2]
# Private keys of the authorities of SSH and TLS: texts that are longer than these bytes, made by lookups of their own.
AUTHORITIES = {"ssh_ca": 128, "tls_ca": 128}
LOOKUP = re.compile(r"lookup\('busbar\.cluster\.secret', '([^']+)'(?:, bytes=(\d+))?")


def test_all_secrets_are_known() -> None:
    files = [*TOP.glob("roles/*/defaults/main.yml"), *TOP.glob("roles/*/vars/*.yml"), *TOP.glob("group_vars/all/*.yml")]
    used = {name: int(size or 32) for path in files for name, size in LOOKUP.findall(path.read_text())}
    declared = yaml.safe_load((TOP / "roles/preflight/defaults/main.yml").read_text())["preflight_secrets"]
    assert declared == used | AUTHORITIES
