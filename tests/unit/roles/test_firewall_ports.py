"""The ports that roles declare for the firewall."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.lookup.port_declarations import LookupModule
from ansible_collections.busbar.cluster.roles.firewall.checks import SOURCES
from busbar.paths import collection

ROLES = collection() / "roles"
DECLARED = sorted(path.parents[1].name for path in ROLES.glob("*/meta/ports.yml"))
# Defaults for options that are not the role's own: Ansible's, or another role's.
DERIVED = {"ssh_port": "ansible_port | default(22)"}


def services(role: str) -> list[dict[str, Any]]:
    loaded = yaml.safe_load((ROLES / role / "meta/ports.yml").read_text())
    assert isinstance(loaded, list)
    return loaded


def test_every_declaration_is_read() -> None:
    read = LookupModule().run([])
    assert [entry["role"] for entry in read] == DECLARED
    assert all(yaml.safe_load(Path(entry["path"]).read_text()) for entry in read)


@pytest.mark.parametrize("role", DECLARED)
def test_declaration_has_service_condition_ports_and_sources(role: str) -> None:
    for service in services(role):
        assert set(service) - {"protocol"} == {"service", "when", "ports", "from"}
        assert service.get("protocol", "tcp") in ("tcp", "udp")
        assert service["ports"]
        assert set(service["from"]) <= {*SOURCES, "monitoring", "portal", "slurm_compute", "slurm_database"}


@pytest.mark.parametrize("role", DECLARED)
def test_defaults_in_declarations_match_the_role(role: str) -> None:
    defaults = yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())
    text = (ROLES / role / "meta/ports.yml").read_text()
    for option, default in re.findall(rf"\b({role}_\w+) \| default\(((?:[^()]|\([^()]*\))*)\)", text):
        if option in DERIVED:
            assert default == DERIVED[option]
        elif not (isinstance(defaults.get(option), str) and "{{" in defaults[option]) and option in defaults:
            assert yaml.safe_load(default) == defaults[option] or default == "[]", option


def test_every_port_that_a_role_offers_is_declared() -> None:
    """Checks options that name a port of a service that other hosts connect to."""
    within = {"dcgm_port", "jupyterhub_proxy_port", "jupyterhub_proxy_api_port"}
    declared = {
        option
        for role in DECLARED
        for service in services(role)
        for option in re.findall(r"\w+_port\b", str(service["ports"]))
    }
    offered = {
        option
        for path in ROLES.glob("*/defaults/main.yml")
        for option in yaml.safe_load(path.read_text()) or {}
        if option.endswith("_port")
    }
    assert offered - within <= declared
