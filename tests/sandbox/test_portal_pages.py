"""Tests of the portal's page of jobs and cluster: content, load on Slurm, and behaviour without Slurm."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from portal_browser import picture
from portal_host import PASSWORDS
from portal_session import Session
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from conftest import Cluster
    from selenium import webdriver

pytestmark = pytest.mark.proves("jupyterhub")

OK, REFUSED = 200, 2
PROGRAMS = "/usr/local/libexec/busbar-portal"
HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
BUSY = "python3 -c 'import time; hold = bytearray(400_000_000)\nwhile time.process_time() < 6: pass'"


@pytest.fixture(scope="module")
def alice(portal: Cluster) -> Session:
    session = Session(portal)
    assert session.login("alice", PASSWORDS["alice"]).status == OK
    return session


def submitted(portal: Cluster, *words: str, user: str = "alice") -> str:
    return portal.exec("login", f"cd /tmp && sbatch --parsable {shlex.join(words)}", user=user).stdout.strip()


def row(page: str, table: str, job: str) -> list[str]:
    """Return the cells of a job's row in a table of the page, or none if it does not exist."""
    found = re.search(rf'<table[^>]* id="{table}">(.*?)</table>', page, re.DOTALL)
    for line in re.findall(r"<tr>(.*?)</tr>", found[1] if found else "", re.DOTALL):
        cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.DOTALL)]
        if cells and cells[0] == job:
            return cells
    return []


def drawn(browser: webdriver.Chrome, word: str) -> bool:
    """Reload the page and return whether its queue contains a word."""
    browser.refresh()
    found = re.search(r'id="queue">(.*?)</table>', browser.page_source, re.DOTALL)
    return found is not None and word in found[1]


def test_ended_job_shows_its_resource_usage(portal: Cluster, alice: Session) -> None:
    busy = submitted(portal, "--mem=512M", "--gres=gpu:1", "--wrap", BUSY)
    never = submitted(portal, "--begin=now+1hour", "--wrap", "true")
    portal.wait_until(lambda: bool(row(alice.ask("/hub/jobs").text, "queue", never)), "it is not in the queue", 60)
    assert row(alice.ask("/hub/jobs").text, "queue", never)[3].startswith("waits for its begin time")
    portal.exec("ctl", f"scancel {never}")
    # The portal queries the accounting at most once a minute for each user.
    portal.wait_until(lambda: bool(row(alice.ask("/hub/jobs").text, "ended", busy)), "it is not shown", 150)
    _, _, partition, how, _, took, gpus, cpu, memory, gpu = row(alice.ask("/hub/jobs").text, "ended", busy)
    assert (partition, how, gpus, gpu) == ("batch", "completed", "1", "\N{EN DASH}")
    hours, minutes, seconds = map(int, took.split(":"))
    # The job used six seconds of one CPU, regardless of its duration on a shared machine.
    share = 100 * 6 / (3600 * hours + 60 * minutes + seconds)
    assert 0.9 * share <= int(cpu.split()[0]) <= 1.5 * share + 5, (took, cpu)
    assert 70 <= int(memory.split()[0]) <= 100


def test_many_page_views_cause_few_slurm_queries(portal: Cluster, alice: Session) -> None:
    bob = Session(portal)
    assert bob.login("bob", PASSWORDS["bob"]).status == OK

    def asked() -> int:
        said = portal.exec("ctl", "sdiag").stdout
        return sum(int(count) for count in re.findall(r"REQUEST_JOB_(?:USER_)?INFO[A-Z_]* .*count:(\d+)", said))

    before = asked()
    pages = [one.ask("/hub/jobs") for _ in range(40) for one in (alice, bob)]
    assert {page.status for page in pages} == {OK}
    assert asked() - before < 8, "each page asks Slurm"


def test_accounting_is_queried_only_as_the_user(portal: Cluster, alice: Session) -> None:  # noqa: ARG001 - provides the login
    def as_hub(user: str, words: str = "", request: str = "{}") -> subprocess.CompletedProcess[str]:
        sudo = f"sudo -n -u {user} {PROGRAMS}/history {words}"
        return portal.exec("login", f"runuser -u jupyterhub -- {sudo} <<<'{request}'", check=False)

    for user, words in (("root", ""), ("alice", "--user=bob")):
        done = as_hub(user, words)
        assert (done.returncode, done.stdout) == (1, ""), done
    done = as_hub("daemon")
    assert (done.returncode, "this user may not use the portal" in done.stderr) == (REFUSED, True), done
    done = as_hub("alice", request='{"user": "bob", "days": 9999}')
    jobs = json.loads(done.stdout)["jobs"]
    assert {portal.exec("ctl", f"sacct -nXP -j {job['raw']} -o user").stdout.strip() for job in jobs[:5]} == {"alice"}


def test_last_validation_is_shown(
    portal: Cluster, alice: Session, again: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert "No result of a validation is available" in alice.ask("/hub/jobs").text
    words = json.dumps({"validation_stages": ["node"], "validation_max_bytes": "1M", "validation_floor_gbs": 0.0001})
    done = again("-e", words, name="validate")
    try:
        assert "busbar_validation_verdict" in portal.exec("login", "cat /var/lib/busbar/validation.prom").stdout, done
        verdict = "PASS" if done.returncode == 0 else "FAIL|INCONCLUSIVE"
        page = alice.ask("/hub/jobs").text
        assert re.search(
            rf"Last validation: <strong>(?:{verdict})</strong>, \d+ of [1-9]\d* tests passed, began 20", page
        )
        portal.exec("login", "echo x >/var/lib/busbar/validation.prom")
        assert "cannot be read: the metrics contain no validation verdict" in alice.ask("/hub/jobs").text
    finally:
        portal.exec("login", "rm -f /var/lib/busbar/validation.prom")


def test_page_is_reachable_in_a_browser_and_escapes_job_names(portal: Cluster, chromium: webdriver.Chrome) -> None:
    jobs = [
        submitted(portal, f"--job-name={HOSTILE}", "--gres=gpu:1", "--wrap", "sleep 300"),
        submitted(portal, "--job-name=resnet50", "--begin=now+2hours", "--wrap", "true"),
    ]
    try:
        chromium.get(f"{Session(portal).base}/hub/login?next=%2Fhub%2Fhome")
        chromium.find_element(By.NAME, "username").send_keys("alice")
        chromium.find_element(By.NAME, "password").send_keys(PASSWORDS["alice"] + Keys.ENTER)
        chromium.find_element(By.ID, "busbar-jobs").click()
        portal.wait_until(lambda: all(drawn(chromium, job) for job in jobs), "no such jobs", 60)
        assert HOSTILE in chromium.find_element(By.ID, "queue").text
        assert chromium.title == "My jobs and the cluster"
        assert "of 4 sim" in chromium.find_element(By.ID, "cluster").text
        portal.exec("ctl", f"scontrol update jobid={jobs[0]} name=finetune")
        portal.wait_until(lambda: drawn(chromium, "finetune"), "not renamed", 60)
        picture(chromium, "portal_jobs")
    finally:
        portal.exec("ctl", f"scancel {' '.join(jobs)}")


def test_unavailable_slurm_is_reported(portal: Cluster, alice: Session) -> None:
    portal.exec("ctl", "systemctl stop slurmctld")
    try:
        portal.wait_until(
            lambda: alice.ask("/hub/jobs").text.count("Slurm does not answer: ") >= 2, "the page does not say so", 120
        )
    finally:
        portal.exec("ctl", "systemctl start slurmctld")
    portal.wait_until(lambda: 'id="cluster"' in alice.ask("/hub/jobs").text, "the page stays without Slurm", 120)
