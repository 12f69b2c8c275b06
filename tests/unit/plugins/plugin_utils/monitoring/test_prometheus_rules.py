"""Prometheus' files of rules."""

from __future__ import annotations

import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.prometheus_rules import rule_files

SHIPPED = {"gpu": "groups: []\n"}
GROUPS = [{"name": "site", "rules": [{"record": "a", "expr": "vector(1)"}]}]


def test_what_is_shipped_is_written_as_it_is_and_the_sites_own_as_data() -> None:
    shipped, own = rule_files(SHIPPED, {"site": GROUPS})
    assert shipped == {"path": "/etc/prometheus/rules/busbar_gpu.yml", "content": "groups: []\n"}
    assert own["path"] == "/etc/prometheus/rules/busbar_site.yml"
    assert yaml.safe_load(own["content"]) == {"groups": GROUPS}


def test_a_site_replaces_what_is_shipped() -> None:
    (own,) = rule_files(SHIPPED, {"gpu": GROUPS})
    assert yaml.safe_load(own["content"]) == {"groups": GROUPS}
