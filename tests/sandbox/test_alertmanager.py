"""Tests of Alertmanager: useful messages by mail, Slack and webhook; receivers that reach nobody are refused."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from alert_delivery import RECEIVERS, SECRETS, Sink
from conftest import recap
from prometheus_api import login

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("alertmanager")

CONFIG = "/etc/prometheus/alertmanager.yml"
RUNBOOK = "df -h /mnt/x; du -xh /mnt/x | sort -h | tail"


def alerting(sandbox: Cluster, variables: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the monitoring playbook for Alertmanager only."""
    return sandbox.playbook("monitoring.yml", "--tags", "alertmanager", "-e", json.dumps(variables), *arguments)


def pid(sandbox: Cluster) -> str:
    return sandbox.exec("ctl", "systemctl show --value -p MainPID prometheus-alertmanager").stdout.strip()


def config(sandbox: Cluster) -> str:
    return sandbox.exec("ctl", f"cat {CONFIG}").stdout


def fire(sandbox: Cluster, name: str, severity: str, annotations: dict[str, str], *, ended: bool = False) -> None:
    """Send an alert to Alertmanager as Prometheus does."""
    labels = {"alertname": name, "severity": severity, "node": "gpu2", "cluster": "test"}
    now = dt.datetime.now(dt.UTC).isoformat()
    alert = {"labels": labels, "annotations": annotations, **({"endsAt": now} if ended else {})}
    program = (
        "import sys, urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:9093/api/v2/alerts',"
        "sys.argv[1].encode(), {'Content-Type': 'application/json', **__import__('json').loads(sys.argv[2])}))"
    )
    sandbox.exec("ctl", f"python3 -c \"{program}\" '{json.dumps([alert])}' '{json.dumps(login(sandbox.name))}'")


@pytest.fixture(scope="module")
def sink(sandbox: Cluster) -> Iterator[Sink]:
    """Configure receivers that point to the sink, check the verbose output for secrets, restore all at the end."""
    before = pid(sandbox)
    sink = Sink(sandbox)
    done = alerting(sandbox, RECEIVERS, "-vvv", "--diff")
    assert done.returncode == 0, done.stdout
    assert pid(sandbox) == before, "a new configuration needs no restart"
    assert not [secret for secret in SECRETS if secret in done.stdout]
    yield sink
    done = alerting(sandbox, {})
    sink.stop()
    assert done.returncode == 0, done.stdout
    assert "alerts of severity critical and warning have no receiver" in " ".join(done.stdout.split())


@pytest.mark.core
def test_only_the_daemon_reads_the_secrets(sandbox: Cluster, sink: Sink) -> None:
    del sink
    assert all(secret in config(sandbox) for secret in SECRETS)
    assert sandbox.exec("ctl", f"stat -c '%U %G %a' {CONFIG}").stdout.split() == ["root", "prometheus", "640"]
    denied = sandbox.exec("ctl", f"cat {CONFIG}", user="alice", check=False)
    assert "Permission denied" in denied.stderr
    flags = sandbox.exec("ctl", "systemctl cat prometheus-alertmanager").stdout
    assert not [secret for secret in SECRETS if secret in flags]
    assert sandbox.exec("ctl", "ls /var/lib/busbar | grep alertmanager", check=False).stdout == ""


def test_second_run_would_change_nothing(sandbox: Cluster, sink: Sink) -> None:
    del sink
    done = alerting(sandbox, RECEIVERS, "--check", "--diff")
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


@pytest.mark.core
def test_notification_contains_problem_and_remedy(sandbox: Cluster, sink: Sink) -> None:
    words = {"summary": "gpu2: /mnt/x is full", "description": "98 % of 10 GiB <b>", "runbook": RUNBOOK}
    fire(sandbox, "FilesystemFull", "critical", words)
    fire(sandbox, "LinkSlow", "warning", {"summary": "gpu2: slow"})
    fire(sandbox, "JustSo", "info", {})
    sink.wait_for(
        lambda: len(sink.messages("mail")) == 1 and ("LinkSlow", "gpu2") in sink.alerts("/tickets"), "nobody is told"
    )
    slack = [each for each in sink.messages() if each["path"].startswith("/slack")]
    assert [each["refusal"] for each in sink.messages() if each["refusal"]] == []
    # On a busy machine, Prometheus also sends alerts of the sandbox itself.
    fired = {(name, "gpu2") for name in ("FilesystemFull", "LinkSlow", "JustSo")}
    assert fired & set(sink.alerts("/locked")) == {("FilesystemFull", "gpu2")}
    assert fired & set(sink.alerts("/tickets")) == {("FilesystemFull", "gpu2"), ("LinkSlow", "gpu2")}
    mail = sink.messages("mail")[0]
    assert (mail["sender"], mail["to"]) == ("alerts@site.lan", ["oncall@site.lan", "lead@site.lan"])
    assert mail["subject"] == slack[0]["body"]["attachments"][0]["title"] == "[CRITICAL] test: FilesystemFull gpu2"
    for text in (mail["text"], slack[0]["body"]["attachments"][0]["text"]):
        assert all(word in text for word in words.values()), text
    assert "98 % of 10 GiB &lt;b&gt;" in mail["html"]
    assert (slack[0]["body"]["channel"], slack[0]["body"]["attachments"][0]["color"]) == ("#gpu", "danger")

    fire(sandbox, "FilesystemFull", "critical", words, ended=True)
    sink.wait_for(
        lambda: len(sink.messages("mail")) == 2 and bool(sink.alerts("/locked", "resolved")), "nobody hears of the end"
    )
    assert sink.messages("mail")[1]["subject"] == "[RESOLVED] test: FilesystemFull gpu2"


def test_watchdog_is_sent_repeatedly_to_its_own_webhook(sandbox: Cluster, sink: Sink) -> None:
    fire(sandbox, "Watchdog", "none", {})

    def calls() -> int:
        return sum(each["path"] == "/watchdog" for each in sink.messages())

    sink.wait_for(lambda: calls() >= 2, "the watchdog is not told each interval")
    assert ("Watchdog", "gpu2") not in {**sink.alerts("/tickets"), **sink.alerts("/locked")}


def test_receivers_that_reach_nobody_are_refused_before_any_change(sandbox: Cluster) -> None:
    before = config(sandbox)
    bad = {
        "alertmanager_receivers": {
            "oncall": [{"email": {"to": "oncall@example.com", "from": "a@site.lan"}}],
            "empty": [],
            "chat": [{"slack": {"url": "https://hooks.slack.com/services/XXX/YYY/ZZZ"}}],
        },
        "alertmanager_routes": {"critical": "oncal", "warning": "none"},
        "alertmanager_repeat_interval": "4 hours",
    }
    words = (
        "ctl: alertmanager_receivers.oncall[0].email.to: is in a domain reserved for examples",
        "ctl: alertmanager_receivers.oncall[0].email.smarthost: is missing",
        "ctl: alertmanager_receivers.empty: has no target",
        "ctl: alertmanager_receivers.chat[0].slack.url: is the placeholder of Slack's documentation",
        "ctl: alertmanager_routes.critical: receiver oncal does not exist remedy: did you mean oncall?",
        "ctl: alertmanager_repeat_interval: '4 hours' is not a duration",
    )
    site = ("-e", json.dumps(bad), "--tags", "preflight")
    for done in (alerting(sandbox, bad), sandbox.playbook("preflight.yml", *site)):
        said = " ".join(done.stdout.split())
        assert done.returncode != 0
        assert [each for each in words if each not in said] == [], done.stdout
    assert config(sandbox) == before


def test_configuration_refused_by_amtool_is_not_installed(sandbox: Cluster) -> None:
    before, process = config(sandbox), pid(sandbox)
    done = alerting(sandbox, {"alertmanager_extra": {"global": {"no_such_key": 1}}})
    assert done.returncode != 0
    assert (config(sandbox), pid(sandbox)) == (before, process)


def test_upstream_archive_replaces_the_package_and_can_be_undone(sandbox: Cluster) -> None:
    make = (
        "mkdir -p /run/am/alertmanager-0.28 && cd /run/am && cp /usr/bin/amtool alertmanager-0.28 && "
        "cp /usr/bin/prometheus-alertmanager alertmanager-0.28/alertmanager && "
        "tar cf release.tar alertmanager-0.28 && sha256sum release.tar"
    )
    archive = {"url": "http://127.0.0.1:8598/release.tar", "sha256": sandbox.exec("ctl", make).stdout.split()[0]}
    machine = sandbox.exec("ctl", "uname -m").stdout.strip()
    serve = "python3 -m http.server 8598 --bind 127.0.0.1 --directory /run/am"
    sandbox.exec("ctl", f"systemd-run --quiet --collect --unit busbar-test-archive {serve}")
    try:
        done = alerting(sandbox, {"alertmanager_source": "url", "alertmanager_archives": {machine: archive}})
        assert done.returncode == 0, done.stdout
        runs = sandbox.exec("ctl", f"readlink /proc/{pid(sandbox)}/exe").stdout.strip()
        assert runs == f"/opt/busbar/alertmanager-{archive['sha256'][:12]}/alertmanager"
    finally:
        back = alerting(sandbox, {})
        sandbox.exec("ctl", "systemctl stop busbar-test-archive; rm -rf /run/am /opt/busbar/alertmanager-*")
    assert back.returncode == 0, back.stdout
    assert (
        sandbox.exec("ctl", f"readlink /proc/{pid(sandbox)}/exe").stdout.strip() == "/usr/bin/prometheus-alertmanager"
    )
