"""Tests of valid receivers and routes, and of rejected ones with a remedy."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.placeholders import placeholder
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.alert_routes import (
    routing_problems,
    site_routing_problems,
)

MAIL = {"to": "oncall@site.lan", "from": "alerts@site.lan", "smarthost": "mail.site.lan:587"}
SLACK = "https://hooks.slack.com/services/T02ABCDEF/B03ABCDEF/abcdefghijklmnop"
HOOK = {"url": "https://tickets.site.lan/alerts", "token": "s3cr3t-t0ken"}


def declared(text: str) -> dict[str, Any]:
    """Return the options of a site, with defaults for the others."""
    defaults: dict[str, Any] = {
        "receivers": {},
        "routes": {},
        "extra_routes": [],
        "email": {},
        "watchdog": {},
        "mute": {},
        "extra": {},
        "time_intervals": [],
        "inhibit_rules": [],
        "group_by": ["cluster", "alertname"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "4h",
        "retention": "5d",
    }
    return defaults | (yaml.safe_load(text) or {})


def told(text: str) -> list[str]:
    """Return the problems of a declaration as 'key: problem'."""
    found = routing_problems(declared(text), "mon1")
    assert all(item["remedy"] and item["hosts"] == ["mon1"] for item in found)
    return [f"{item['key']}: {item['problem']}" for item in found]


def receiver(target: dict[str, Any]) -> str:
    return yaml.safe_dump({"receivers": {"ops": [target]}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "routes: {critical: none, warning: [none]}",
        "receivers: {ops: none}\nroutes: {critical: ops}",
        receiver({"email": MAIL}),
        receiver({"email": {**MAIL, "to": ["Ops <ops@site.lan>", "b@site.lan"], "username": "u", "password": "p"}}),
        receiver({"slack": {"url": SLACK, "channel": "#alerts"}}),
        receiver({"slack": {"url": "http://127.0.0.1:8080/slack"}}),
        receiver({"webhook": HOOK}),
        receiver({"webhook": {"url": "http://[fd00::1]:9/x", "username": "u", "password": "p", "ca_file": "/ca"}}),
        "watchdog: {url: 'https://deadman.site.lan/x', interval: 30s}",
        "extra: {receivers: [{name: pager}]}\nroutes: {critical: pager}",
        "receivers: {a: none}\nextra_routes: [{matchers: ['team=~\"a|b\"'], receivers: a, group_wait: 0s}]",
        "time_intervals: [{name: n, time_intervals: [{weekdays: [sunday]}]}]\nmute: {info: n}",
        "group_by: ['...']",
    ],
)
def test_valid_or_empty_routing_is_accepted(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("receivers: {ops: []}", "alertmanager_receivers.ops: has no target"),
        ("receivers: {ops: }", "alertmanager_receivers.ops: has no target"),
        ("receivers: {ops: {email: {}}}", "alertmanager_receivers.ops: is not a list of targets"),
        ("receivers: [ops]", "alertmanager_receivers: is not a mapping"),
        ("receivers: {none: [{webhook: {url: 'http://a/'}}]}", "alertmanager_receivers.none: has a duplicate name"),
        ("receivers: {ops: [email]}", "alertmanager_receivers.ops[0]: must have exactly one target"),
        ("receivers: {ops: [{slak: {}}]}", "alertmanager_receivers.ops[0]: slak is not a known kind of target"),
        ("receivers: {ops: [{slack: }]}", "alertmanager_receivers.ops[0].slack: has no settings"),
        ("receivers: {ops: [{slack: {}}]}", "alertmanager_receivers.ops[0].slack.url: is empty"),
        ("routes: {critical: opz}\nreceivers: {ops: none}", "routes.critical: receiver opz does not exist"),
        ("routes: {critical: []}", "alertmanager_routes.critical: names no receiver"),
        ("routes: {critcal: none}", "alertmanager_routes.critcal: is not a severity"),
        ("extra_routes: [{matchers: [], receivers: none}]", "extra_routes[0].matchers: has no matchers"),
        ("extra_routes: [{matchers: [team], receivers: none}]", "extra_routes[0].matchers: has no matchers"),
        ("extra_routes: [{matchers: ['a=b'], receivers: x}]", "extra_routes[0].receivers: receiver x does not exist"),
        (
            "extra_routes: [{matchers: ['a=b'], receivers: none, recever: none}]",
            "extra_routes[0].recever: is not a known key",
        ),
        (
            "extra_routes: [{matchers: ['a=b'], receivers: none, group_wait: x}]",
            "[0].group_wait: 'x' is not a duration",
        ),
        ("mute: {info: nights}", "alertmanager_mute.info: interval nights does not exist"),
        ("time_intervals: [{name: n}]", "alertmanager_time_intervals[0]: has no name"),
        ("repeat_interval: 4 hours", "alertmanager_repeat_interval: '4 hours' is not a duration"),
        ("group_interval: 0s", "alertmanager_group_interval: '0s' is not greater than zero"),
        ("retention: long", "alertmanager_retention: 'long' is not a duration"),
        ("group_by: [alert name]", "alertmanager_group_by: 'alert name' is not a label"),
        ("watchdog: {url: 'https://example.com/x'}", "alertmanager_watchdog.url: is in a domain reserved for examples"),
        ("watchdog: {url: 'http://a/', interval: x}", "alertmanager_watchdog.interval: 'x' is not a duration"),
        (
            "extra: {receivers: [{name: p, pagerduty_configs: [{routing_key: CHANGEME}]}]}",
            "routing_key: is a placeholder",
        ),
    ],
)
def test_invalid_input_is_named_with_its_key(text: str, words: str) -> None:
    assert len(told(text)) == 1, told(text)
    assert words in told(text)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"smarthost": None}, "email.smarthost: is missing, so no mail can be sent"),
        ({"smarthost": "mail.site.lan"}, "email.smarthost: 'mail.site.lan' is not host:port"),
        ({"smarthost": "mail.site.lan:70000"}, "email.smarthost: 'mail.site.lan:70000' is not host:port"),
        ({"smarthost": "smtp.example.com:587"}, "email.smarthost: is in a domain reserved for examples"),
        ({"to": "oncall@example.com"}, "email.to: is in a domain reserved for examples"),
        ({"to": ["a@site.lan", "<address>"]}, "email.to: "),
        ({"to": []}, "email.to: is empty"),
        ({"to": "nobody"}, "email.to: 'nobody' is not an e-mail address"),
        ({"from": ""}, "email.from: is empty"),
        ({"username": "u"}, "email.password: is missing, but username is set"),
        ({"username": "u", "password": "CHANGEME"}, "email.password: is a placeholder"),
        ({"smart_host": "a:1"}, "email.smart_host: is not a known key"),
    ],
)
def test_invalid_mail_settings_are_refused(change: dict[str, Any], words: str) -> None:
    said = told(receiver({"email": MAIL | change}))
    assert len(said) == 1, said
    assert words in said[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "tickets.site.lan/x"}, "url: is not an HTTP URL"),
        ({"url": "ftp://tickets.site.lan"}, "url: is not an HTTP URL"),
        ({"url": "http://"}, "url: is not an HTTP URL"),
        ({"url": "http://host:port/"}, "url: is not an HTTP URL"),
        ({"url": "https://<host>/x"}, "url: contains an unfilled placeholder"),
        ({**HOOK, "username": "u", "password": "p"}, "webhook: has both token and username"),
        ({"url": HOOK["url"], "token": ""}, "token: is empty"),
        ({"url": HOOK["url"], "password": "p"}, "username: is missing, but password is set"),
    ],
)
def test_invalid_webhooks_are_refused(settings: dict[str, Any], words: str) -> None:
    said = told(receiver({"webhook": settings}))
    assert len(said) == 1, said
    assert words in said[0]


def test_messages_contain_no_secret() -> None:
    secrets = ("hunter2-xyz", "T02ABCDEF")
    broken = [
        {"email": {**MAIL, "password": secrets[0]}},
        {"slack": {"url": SLACK.replace("https://", "")}},
        {"webhook": {"url": "ftp://host/" + secrets[0], "token": secrets[0], "username": "u"}},
    ]
    found = routing_problems(declared(yaml.safe_dump({"receivers": {"ops": broken}})), "mon1")
    assert len(found) >= 4
    assert not [item for item in found if any(secret in str(item) for secret in secrets)]


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            "",
            "  ",
            "CHANGEME",
            "change-me",
            "<your token>",
            "xxx",
            "TODO",
            "your-token-here",
            "replace_me",
            "...",
        ),
        *("a@example.com", "a@mail.example.org", "smtp.example.net:25", "https://alerts.example/x", "host.invalid:1"),
        *("https://hooks.slack.com/services/XXX/YYY/ZZZ", "https://hooks.slack.com/services/", "${SLACK_URL}"),
        *("https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24, "{{ slack_url }}", "https://x/CHANGE_ME"),
    ],
)
def test_placeholders(value: str | None) -> None:
    assert placeholder(value)


@pytest.mark.parametrize(
    "value",
    [
        SLACK,
        "oncall@site.lan",
        "mail:25",
        "#alerts",
        "exampled.com:25",
        "hunter2",
        "ops@my-example.com",
        "localhost:25",
        5,
    ],
)
def test_values_that_are_not_placeholders(value: object) -> None:
    assert placeholder(value) == ""


def test_preflight_checks_the_declarations_of_hosts() -> None:
    variables: dict[str, dict[str, Any]] = {
        "mon1": {"alertmanager_routes": {"critical": "x"}, "alertmanager_extra_routes": [5], "other": 1},
        "gpu1": {"alertmanager_routes": 5},
    }
    found = site_routing_problems(["mon1"], variables)
    wanted = ["alertmanager_routes.critical", "alertmanager_extra_routes[0]"]
    assert [(item["hosts"], item["key"]) for item in found] == [(["mon1"], key) for key in wanted]
