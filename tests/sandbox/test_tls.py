"""Tests of TLS and passwords of the monitoring: all targets are scraped, nobody else has access, no secret leaks."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access import tls_certificate as tls
from conftest import recap
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("tls")

ON = ("-e", "monitoring_tls=true")
TAGS = "tls,node_exporter,prometheus,alertmanager"
JOBS = {"node", "prometheus", "alertmanager"}


class Door:
    """Client that connects to daemons of the sandbox, with or without certificate and password."""

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Load the certificate of ctl, which scrapes, and the password."""
        self.sandbox = sandbox
        self.ca = sandbox.exec("ctl", "cat /etc/busbar/tls/ca.crt").stdout
        self.pair = folder / "host.crt", folder / "host.key"
        for path in self.pair:
            path.write_text(sandbox.exec("ctl", f"cat /etc/busbar/tls/{path.name}").stdout)
        self.password = (sandbox.state / "secrets" / "monitoring.password").read_text().strip()

    def address(self, node: str) -> str:
        """Return the address on which a node listens."""
        return self.sandbox.exec("ctl", f"getent ahostsv4 {node} | awk 'NR==1 {{print $1}}'").stdout.strip()

    def ask(
        self, node: str, port: int, path: str, *, certificate: bool = True, password: str = ""
    ) -> tuple[int, bytes]:
        """Return status and text of an HTTPS response."""
        context = ssl.create_default_context(cadata=self.ca)
        if certificate:
            context.load_cert_chain(*self.pair)
        connection = http.client.HTTPSConnection(self.address(node), port, timeout=10, context=context)
        pair = base64.b64encode(f"prometheus:{password}".encode()).decode()
        connection.request("GET", path, headers={"Authorization": f"Basic {pair}"} if password else {})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def prometheus(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the data of a Prometheus response, requested without a certificate like a browser."""
        status, text = self.ask("ctl", 9090, path, certificate=False, password=self.password)
        assert status == http.client.OK, text
        return json.loads(text)["data"]


def monitoring(sandbox: Cluster, *arguments: str) -> str:
    """Run the TLS tasks of the monitoring and return the output."""
    done = sandbox.playbook("monitoring.yml", "--tags", TAGS, *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def door(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Enable TLS everywhere; it is disabled again at the end, with all targets scraped."""
    monitoring(sandbox, *ON)
    yield Door(sandbox, tmp_path_factory.mktemp("door"))
    monitoring(sandbox)
    plain = Prometheus(sandbox.name)
    plain.wait(lambda: not _not_up(plain.targets(), "http"), "not all targets are up without TLS", 60)


def _not_up(targets: list[dict[str, Any]], scheme: str) -> list[tuple[str, str, str]]:
    """Return our targets that are not scraped with this scheme; reports an error if there is no target."""
    ours = [each for each in targets if each["labels"]["job"] in JOBS]
    return [
        (each["labels"]["instance"], each["scrapeUrl"], each["lastError"])
        for each in ours
        if each["health"] != "up" or not each["scrapeUrl"].startswith(f"{scheme}://")
    ] or ([] if ours else [("none", "", "")])


@pytest.mark.scenario
def test_all_targets_are_up_over_https(sandbox: Cluster, door: Door) -> None:
    def wrong() -> list[tuple[str, str, str]]:
        return _not_up(door.prometheus("/api/v1/targets?state=active")["activeTargets"], "https")

    sandbox.wait_until(lambda: not wrong(), "targets are not up", 60)
    jobs = {each["labels"]["job"] for each in door.prometheus("/api/v1/targets?state=active")["activeTargets"]}
    assert jobs >= JOBS


def test_exporter_requires_certificate_and_password(door: Door) -> None:
    assert door.ask("gpu1", 9100, "/metrics", password=door.password)[0] == http.client.OK
    assert door.ask("gpu1", 9100, "/metrics")[0] == http.client.UNAUTHORIZED
    assert door.ask("gpu1", 9100, "/metrics", password="wrong")[0] == http.client.UNAUTHORIZED  # noqa: S106
    with pytest.raises((ssl.SSLError, ConnectionError)):
        door.ask("gpu1", 9100, "/metrics", certificate=False, password=door.password)
    plain = http.client.HTTPConnection(door.address("gpu1"), 9100, timeout=10)
    plain.request("GET", "/metrics")
    answer = plain.getresponse()
    assert (answer.status, b"node_" in answer.read()) == (http.client.BAD_REQUEST, False)


def test_prometheus_requires_the_password(door: Door) -> None:
    for path in ("/", "/api/v1/query?query=up", "/metrics"):
        assert door.ask("ctl", 9090, path, certificate=False)[0] == http.client.UNAUTHORIZED, path


def test_users_cannot_read_passwords_hashes_or_keys(sandbox: Cluster, door: Door) -> None:
    for node in ("ctl", "gpu1"):
        for text in (door.password, "basic_auth_users", "PRIVATE KEY-----"):
            places = "/etc/prometheus /etc/systemd /etc/busbar /etc/default /var/lib/prometheus /var/lib/busbar /tmp"
            found = sandbox.exec(node, f"grep -rsl -e '{text}' {places}", user="alice", check=False)
            assert found.stdout == "", node
        running = sandbox.exec(
            node, "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr -c '[:print:]' ' '", check=False
        )
        assert door.password not in running.stdout
        assert door.password not in sandbox.exec(node, "journalctl -q --since -15min -o cat").stdout


def test_expiry_of_each_certificate_is_a_metric(sandbox: Cluster, door: Door) -> None:
    # The path label excludes the certificate of the host's SSH key, which has the same metric name.
    path = "%7Bpath%3D%22/etc/busbar/tls/host.crt%22%7D"
    query = f"/api/v1/query?query=busbar_certificate_not_after_timestamp_seconds{path}"
    sandbox.wait_until(lambda: len(door.prometheus(query)["result"]) == len(sandbox.compute) + 2, "not all", 30)
    for each in door.prometheus(query)["result"]:
        assert float(each["value"][1]) > time.time() + 300 * 86400, each
    ends = door.prometheus(query.replace("host.crt", "ca.crt"))["result"]
    assert len(ends) == len(sandbox.compute) + 2
    assert all(float(each["value"][1]) > time.time() + 19 * 365 * 86400 for each in ends)


def test_second_run_changes_nothing_and_shows_no_secret(sandbox: Cluster, door: Door) -> None:
    said = monitoring(sandbox, *ON, "--limit", "ctl,gpu1", "--diff", "-v")
    assert {counts["changed"] for counts in recap(said).values()} == {0}
    assert door.password not in said


def test_expiring_certificate_is_renewed_without_restarts(sandbox: Cluster, door: Door) -> None:
    look = "cat /etc/busbar/tls/host.crt; systemctl show -p MainPID prometheus-node-exporter"
    before, key = sandbox.exec("gpu1", look).stdout, sandbox.exec("gpu1", "cat /etc/busbar/tls/host.key").stdout
    arguments = ("--tags", "tls", "--limit", "gpu1", *ON, "-e", "tls_days=500", "-e", "tls_renew_days=400")
    done = sandbox.playbook("monitoring.yml", *arguments)
    assert done.returncode == 0, done.stdout
    after = sandbox.exec("gpu1", look).stdout
    assert after.splitlines()[-1] == before.splitlines()[-1]
    assert tls.end_of(after) > tls.end_of(before) + 100 * 86400
    assert sandbox.exec("gpu1", "cat /etc/busbar/tls/host.key").stdout == key
    context = ssl.create_default_context(cadata=door.ca)
    context.load_cert_chain(*door.pair)
    connection = http.client.HTTPSConnection(door.address("gpu1"), 9100, timeout=10, context=context)
    connection.connect()
    served = connection.sock.getpeercert(binary_form=True)
    assert served
    assert ssl.DER_cert_to_PEM_cert(served).strip() in after


def test_missing_custom_certificate_files_are_refused(sandbox: Cluster, tmp_path: Path) -> None:
    own = {kind: str(tmp_path / kind) for kind in ("certificate", "key", "ca")}
    arguments = ("--tags", "tls", "--limit", "gpu1", *ON, "-e", json.dumps({"tls_custom_certificate": own}))
    done = sandbox.playbook("monitoring.yml", *arguments)
    assert done.returncode == 2, done.stdout
    assert f"gpu1: tls_custom_certificate.key: file {tmp_path / 'key'} does not exist" in done.stdout
    assert "remedy: copy its private key to this path on the provisioning host" in done.stdout
    assert recap(done.stdout)["gpu1"]["changed"] == 0


def test_ca_and_password_are_rotated(sandbox: Cluster, door: Door, tmp_path: Path) -> None:
    done = sandbox.playbook("rotate_secrets.yml", "-e", json.dumps({"rotate_secrets": ["monitoring", "tls"]}), *ON)
    assert done.returncode == 0, done.stdout
    for node in ("ctl", "gpu1"):
        assert sandbox.exec(node, "grep -c BEGIN /etc/busbar/tls/ca.crt").stdout.strip() == "1"
    left = sorted(path.name for path in (sandbox.state / "secrets").glob("*_*") if "previous" in path.name)
    assert left == []
    after = Door(sandbox, tmp_path)
    assert {after.ca, after.password}.isdisjoint({door.ca, door.password})
    with pytest.raises(ssl.SSLError):
        door.ask("gpu1", 9100, "/metrics", password=after.password)
    assert after.ask("gpu1", 9100, "/metrics", password=door.password)[0] == http.client.UNAUTHORIZED
    assert after.ask("gpu1", 9100, "/metrics", password=after.password)[0] == http.client.OK

    def wrong() -> list[tuple[str, str, str]]:
        return _not_up(after.prometheus("/api/v1/targets?state=active")["activeTargets"], "https")

    sandbox.wait_until(lambda: not wrong(), "targets are not up", 60)
    again = monitoring(sandbox, *ON)
    assert {counts["changed"] for counts in recap(again).values()} == {0}
