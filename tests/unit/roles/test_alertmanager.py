"""Tests of Alertmanager's configuration and flags as the role writes them, and of refused options."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from role_files import named, rendered, value

SLACK = "https://hooks.slack.com/services/T02ABCDEF/B03ABCDEF/abcdefghijklmnop"
HOOK = {"url": "https://tickets.site.lan/alerts", "token": "s3cr3t-t0ken"}
GIVEN: dict[str, Any] = {
    "alertmanager_address": "127.0.0.1",
    "alertmanager_cluster_address": "10.0.0.10",
    "__alertmanager_cluster_tls": {},
    "__site_monitoring_tls_groups": [],
    "alertmanager_inhibit_defaults": False,
    "__site_monitoring_web_config": {},
}


def options(text: str) -> dict[str, Any]:
    """Return the variables of a site that declares options of the role, as YAML without its prefix."""
    return GIVEN | named("alertmanager", yaml.safe_load(text) or {}, ("family",))


def config(text: str) -> dict[str, Any]:
    """Return alertmanager.yml of a declaration."""
    return dict(yaml.safe_load(rendered("alertmanager", "etc/prometheus/alertmanager.yml.j2", **options(text))))


def flags(text: str = "") -> list[str]:
    """Return the flags of a declaration."""
    unit = "etc/systemd/system/prometheus-alertmanager.service.d/busbar.conf.j2"
    found = rendered("alertmanager", unit, **options(text))
    return found.partition("ExecStart=\nExecStart=")[2].partition("\nRestart=")[0].replace("\\\n", "").split()


def routes(text: str) -> list[tuple[str, str, bool]]:
    """Return the routes of a declaration as (first matcher, receiver, continue)."""
    return [
        ((each.get("matchers") or [""])[0], each["receiver"], each.get("continue", False))
        for each in config(text)["route"]["routes"]
    ]


def test_without_a_declaration_alerts_go_to_no_receiver() -> None:
    assert {name for _, name, _ in routes("")} == {"none"}
    assert config("")["receivers"] == [{"name": "none"}]
    assert value("alertmanager", "__alertmanager_unheard", **options("")) == ["critical", "warning"]
    heard = options("routes: {critical: none, warning: none}")
    assert value("alertmanager", "__alertmanager_unheard", **heard) == []


def test_every_receiver_of_a_severity_is_notified_and_unknown_severities_go_to_warnings() -> None:
    text = "receivers: {a: none, b: none}\nroutes: {critical: [a, b], warning: b}"
    assert routes(text) == [
        ('alertname="Watchdog"', "none", False),
        ('severity="critical"', "a", True),
        ('severity="critical"', "b", False),
        ('severity="warning"', "b", False),
        ('severity="info"', "none", False),
        ("", "b", False),
    ]


def test_extra_routes_come_first_and_stop_unless_they_set_continue() -> None:
    text = "receivers: {a: none, b: none}\nextra_routes: [{matchers: ['x=1'], receivers: [a, b]%s}]"
    assert routes(text % "")[1:3] == [("x=1", "a", True), ("x=1", "b", False)]
    assert routes(text % ", continue: true")[1:3] == [("x=1", "a", True), ("x=1", "b", True)]


def test_targets_follow_the_schema_of_alertmanager() -> None:
    text = yaml.safe_dump(
        {
            "email": {"from": "a@site.lan", "smarthost": "mail:25", "username": "u", "password": "p"},
            "receivers": {
                "ops": [{"email": {"to": ["x@site.lan", "y@site.lan"]}}, {"slack": {"url": SLACK}}, {"webhook": HOOK}]
            },
        }
    )
    _, ops = config(text)["receivers"]
    mail, slack, webhook = (ops[f"{kind}_configs"][0] for kind in ("email", "slack", "webhook"))
    assert (mail["to"], mail["auth_password"], mail["require_tls"]) == ("x@site.lan, y@site.lan", "p", True)
    assert mail["headers"] == {"Subject": '{{ template "busbar.subject" . }}'}
    assert (slack["api_url"], slack["send_resolved"]) == (SLACK, True)
    assert webhook["http_config"] == {"authorization": {"type": "Bearer", "credentials": HOOK["token"]}}


def test_values_may_have_any_character() -> None:
    text = yaml.safe_dump({"receivers": {"a": [{"slack": {"url": SLACK, "channel": "#\U0001f525"}}]}})
    assert config(text)["receivers"][1]["slack_configs"][0]["channel"] == "#\U0001f525"


def test_dead_mans_switch_is_notified_at_each_interval() -> None:
    found = config("watchdog: {url: 'http://deadman.lan/', interval: 1m}")
    first = found["route"]["routes"][0]
    assert (first["receiver"], first["group_interval"], first["repeat_interval"]) == ("busbar_watchdog", "1m", "48s")
    assert found["receivers"][-1]["webhook_configs"][0]["url"] == "http://deadman.lan/"


def test_extra_configuration_is_merged() -> None:
    route = "route: {group_wait: 1s, routes: [{receiver: p}]}"
    text = f"extra: {{global: {{resolve_timeout: 1m}}, receivers: [{{name: p}}], {route}}}"
    found = config(text)
    assert found["global"] == {"resolve_timeout": "1m"}
    assert {each["name"] for each in found["receivers"]} == {"none", "p"}
    assert (found["route"]["group_wait"], found["route"]["routes"][0]) == ("1s", {"receiver": "p"})


def test_inhibit_rules_of_busbar_and_of_the_site_are_combined() -> None:
    found = config("inhibit_defaults: true\ninhibit_rules: [{source_matchers: ['a=b']}]")["inhibit_rules"]
    assert found[-1] == {"source_matchers": ["a=b"]}
    assert len(found) > 10


def test_one_host_has_no_cluster_and_several_hosts_are_peers() -> None:
    assert flags()[0] == "/usr/bin/prometheus-alertmanager"
    assert "--cluster.listen-address=" in flags()
    assert {"--data.retention=432000s", "--web.listen-address=127.0.0.1:9093"} <= {*flags("peers: []")}
    several = flags("{peers: [mon2, 'fd00::3'], cluster_tls: {tls_client_config: {}}}")
    assert {
        "--cluster.listen-address=10.0.0.10:9094",
        "--cluster.peer=mon2:9094",
        "--cluster.peer=[fd00::3]:9094",
        "--cluster.tls-config=/etc/prometheus/alertmanager_cluster_tls.yml",
    } <= {*several}
    assert not [flag for flag in flags("{cluster_tls: {tls_client_config: {}}}") if "tls-config" in flag]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source: url", "alertmanager_archives: has no url for x86_64"),
        ("family: RedHat", "alertmanager_source: this distribution does not package it"),
        ("external_url: 'https://alerts.example.com'", "alertmanager_external_url: "),
        ("{peers: [mon2], cluster_address: 127.0.0.1}", "alertmanager_cluster_address: cannot be reached"),
        ("arguments: ['a\n\n  b']", "alertmanager_arguments: 'a\\nb' contains a line break"),
        ("routes: {critical: opz}", "alertmanager_routes.critical: receiver opz does not exist"),
        (
            "extra_routes: [{matchers: ['a=b'], receivers: x}]",
            "alertmanager_extra_routes[0].receivers: receiver x does not exist",
        ),
    ],
)
def test_refused(text: str, words: str) -> None:
    (problem,) = value("alertmanager", "__alertmanager_problems", **options(text))
    assert words in f"{problem['key']}: {problem['problem']}"
    assert problem["hosts"] == ["gpu7"]
    assert problem["remedy"]


def test_defaults_are_valid() -> None:
    assert value("alertmanager", "__alertmanager_problems", **GIVEN) == []
