"""Tests of faults during package installation while a user's job runs: reported with host and cause, then healed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from fault_results import note
from faulted import Fault, Work, is_said, prove, prove_rest, provision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("hosts")

# The tags of one role that installs packages; all roles do it in the same way.
NAMES = ("base", "-t", "hosts", "--limit", "gpu2")
LACKS = "dpkg --purge --force-depends tzdata >/dev/null 2>&1"
NO_LISTS = "rm -rf /var/lib/apt/lists/*_* /var/lib/apt/periodic; rm -f /var/cache/apt/archives/tzdata*"
# A proxy of the site between the node and the mirrors.
PROXY = """
import http.server, sys, urllib.request
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if sys.argv[1] == "500":
            return self.send_error(500)
        with urllib.request.urlopen(self.path) as answer:
            content = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path.endswith(".deb") else content)
        self.close_connection = True
http.server.ThreadingHTTPServer(("127.0.0.1", 8099), Proxy).serve_forever()
"""
APT_PROXY = "/etc/apt/apt.conf.d/99fault"
WITH_PROXY = (
    f"cat >/run/proxy.py <<'END'\n{PROXY}\nEND\n{LACKS}; {NO_LISTS}"
    f"; echo 'Acquire::http::Proxy \"http://127.0.0.1:8099\";' >{APT_PROXY}; systemd-run -q --unit fault-proxy"
)
WITHOUT_PROXY = f"systemctl stop fault-proxy; rm -f {APT_PROXY} /run/proxy.py"
# dpkg runs it at each step; the node loses power at the first step of the configuration.
POWER = "/root/power"
LOSE_POWER = (
    f"printf '#!/bin/sh\\nwhile read -r line; do case $line in *half-configured*) pkill -9 -x dpkg;; esac; done\\n'"
    f" >{POWER}; chmod +x {POWER}; {LACKS}; apt-get -qq update"
    f"; apt-get -qq install -y -o DPkg::Options::=--status-logger={POWER} tzdata >/dev/null 2>&1; rm {POWER}"
    f"; LC_ALL=C apt-get -qq check 2>&1 | grep -q 'dpkg was interrupted'"
)
DEBCONF = "/var/cache/debconf/config.dat"
KEEPER = f"import fcntl,time; s=open('{DEBCONF}','r+'); fcntl.flock(s, fcntl.LOCK_EX); time.sleep(900)"
# The next run with access to the mirrors heals all three at once.
FETCHES = [
    Fault(
        "a resolver that does not answer",
        says="gpu2: …tzdata…Temporary failure resolving…remedy: check that the host resolves",
        heals="correct /etc/resolv.conf",
        node="gpu2",
        breaks=f"{LACKS}; {NO_LISTS}; cp /etc/resolv.conf /root/resolv.conf"
        "; echo nameserver 192.0.2.53 >/etc/resolv.conf",
        mends="cat /root/resolv.conf >/etc/resolv.conf; rm /root/resolv.conf",
        run=NAMES,
    ),
    Fault(
        "a mirror that answers 500",
        says="gpu2: …tzdata…500 Internal Server Error…remedy: check that the host resolves",
        heals="choose another mirror",
        node="gpu2",
        breaks=f"{WITH_PROXY} python3 /run/proxy.py 500",
        mends=WITHOUT_PROXY,
        run=NAMES,
    ),
    Fault(
        "a mirror that cuts a package in mid-file",
        says="gpu2: …tzdata…Failed to fetch …tzdata_…remedy: check that the host resolves",
        heals="choose another mirror",
        node="gpu2",
        breaks=f"{WITH_PROXY} python3 /run/proxy.py cut",
        mends=WITHOUT_PROXY,
        run=NAMES,
    ),
]
SCRIPT_FAILS = Fault(
    "a package whose post-install script fails",
    says="gpu2: …tzdata…config.dat is locked by another process…post-installation script…partly installed",
    heals="end what the message names",
    node="gpu2",
    breaks=f'apt-get -qq update; {LACKS}; systemd-run -q --unit fault-keeper python3 -c "{KEEPER}"',
    mends="systemctl stop fault-keeper",
    run=NAMES,
    again=NAMES,
)
INSTALLED = "dpkg-query -W -f '${db:Status-Status}' tzdata"


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


@pytest.mark.parametrize("fault", FETCHES, ids=lambda fault: fault.name)
def test_failed_download_is_reported_and_nothing_is_lost(sandbox: Cluster, work: Work, fault: Fault) -> None:
    prove(sandbox, work, fault)
    # Nothing was installed, not even partially.
    assert sandbox.exec("gpu2", INSTALLED, check=False).stdout in {"", "not-installed"}
    assert sandbox.exec("gpu2", "dpkg --audit").stdout == ""


def test_one_run_heals_all_failed_downloads(sandbox: Cluster, work: Work) -> None:
    healed = provision(sandbox, *NAMES)
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert sandbox.exec("gpu2", INSTALLED).stdout == "installed"
    work.is_whole()


@pytest.mark.fault(
    "a node that lost its power in mid-install",
    says="hosts : install | Install packages changed=1",
    heals="nothing",
)
def test_interrupted_installation_is_finished_by_the_next_run(sandbox: Cluster, work: Work) -> None:
    sandbox.exec("gpu2", LOSE_POWER, timeout=300)
    assert sandbox.exec("gpu2", INSTALLED).stdout != "installed"
    began = time.monotonic()
    healed = provision(sandbox, *NAMES)
    output = healed.stdout + healed.stderr
    assert healed.returncode == 0, output
    assert is_said("hosts : install | Install packages changed=1", output), output
    assert sandbox.exec("gpu2", INSTALLED).stdout == "installed"
    assert sandbox.exec("gpu2", "dpkg --audit").stdout == ""
    work.is_whole()
    note("runs", "a node that lost its power in mid-install", {"healed_s": round(time.monotonic() - began)})


def test_failing_maintainer_script_is_reported_and_healed_by_the_next_run(sandbox: Cluster, work: Work) -> None:
    prove(sandbox, work, SCRIPT_FAILS)
    assert sandbox.exec("gpu2", INSTALLED).stdout == "installed"


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *NAMES)
    work.is_whole()
