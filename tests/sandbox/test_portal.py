"""Tests of the portal: real JupyterHub, proxy and nginx; notebooks as real jobs; attacks by users."""

from __future__ import annotations

import errno
import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from portal_browser import picture
from portal_host import DISABLED, PASSWORDS
from portal_session import Session
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from conftest import Cluster

pytestmark = pytest.mark.proves("jupyterhub")

OK, CREATED, BAD_REQUEST, FORBIDDEN, NOT_FOUND = 200, 201, 400, 403, 404
GRANTED, REFUSED = 6, 1  # ENXIO: no driver behind a simulated GPU; EPERM: the job may not use it
SEEN = """
import glob, os
for path in sorted(glob.glob('/dev/nvidia[0-9]')):
    try:
        open(path)
    except OSError as exc:
        print(path[-1], exc.errno)
print(os.environ['CUDA_VISIBLE_DEVICES'])
"""
KNOCK = """
import socket, ssl, sys
context = ssl._create_unverified_context()
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
try:
    with context.wrap_socket(plain) as channel:
        channel.sendall(b"GET /user/alice/api HTTP/1.0\\r\\n\\r\\n")
        print(channel.recv(100) or "refused")
except (ssl.SSLError, ConnectionError):
    print("refused")
"""
PLAIN = """
import http.client, socket
connection = http.client.HTTPConnection("login", 8000)
connection.request("GET", "/hub/login")
answer = connection.getresponse()
print(answer.status, answer.getheader("Location"))
for port in (8011, 8012):
    print(socket.socket().connect_ex(("login", port)))
"""
TRAIN = """
import os
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(os.path.expanduser('~/runs/first'))
weight = 4.0
for step in range(10):
    weight -= 0.2 * weight
    value = Summary(value=[Summary.Value(tag='loss', simple_value=weight * weight)])
    writer.add_event(Event(step=step, wall_time=step, summary=value))
writer.close()
print('trained', round(weight, 3))
"""


@pytest.fixture(scope="module")
def alice(portal: Cluster) -> Session:
    """Return a session of alice with a running notebook with one GPU."""
    session = Session(portal)
    assert session.login("alice", PASSWORDS["alice"]).status == OK
    answer = session.spawn("alice", gpus=1)
    assert answer.status == OK, answer
    assert session.ready("alice"), portal.exec("login", "journalctl -u busbar-portal-hub -n 50").stdout
    session.open("alice")
    return session


def queue(sandbox: Cluster) -> list[str]:
    """Return the notebooks in the queue: user, state, resources."""
    return sandbox.exec("ctl", "squeue -h --name=busbar-notebook -o '%u %T %b'").stdout.splitlines()


def node_of(sandbox: Cluster, user: str) -> str:
    return sandbox.exec("ctl", f"squeue -h --name=busbar-notebook --user={user} -o %N").stdout.strip()


@pytest.mark.scenario
def test_wrong_password_is_refused(portal: Cluster) -> None:
    for user, password in (("alice", "guessed"), ("nobody-here", "guessed"), ("root", "root"), ("slurm", "")):
        answer = Session(portal).login(user, password)
        assert (answer.status, "Invalid username or password" in answer.text) == (FORBIDDEN, True), (user, answer)


@pytest.mark.scenario
def test_notebook_is_a_job_with_exactly_one_gpu(portal: Cluster, alice: Session) -> None:
    assert queue(portal) == ["alice RUNNING gres/gpu:1"]
    first, second, visible = alice.run("alice", SEEN).splitlines()
    assert {first.split()[1], second.split()[1]} == {str(GRANTED), str(REFUSED)}
    granted = next(line.split()[0] for line in (first, second) if line.endswith(f" {GRANTED}"))
    assert visible == granted
    assert (
        alice.run("alice", "import getpass, os; print(getpass.getuser(), os.getcwd())") == "alice /shared/home/alice\n"
    )


def test_tensorboard_shows_the_steps_of_a_training(portal: Cluster, alice: Session) -> None:
    assert alice.run("alice", TRAIN) == "trained 0.429\n"
    answer = alice.ask("/user/alice/tensorboard/")
    assert (answer.status, "TensorBoard" in answer.text) == (OK, True), answer
    points = "/user/alice/tensorboard/data/plugin/scalars/scalars?run=first&tag=loss"
    portal.wait_until(lambda: alice.ask(points).status == OK, "TensorBoard has not read the run", 60)
    curve = json.loads(alice.ask(points).text)
    assert [step for _, step, _ in curve] == list(range(10))
    values = [value for _, _, value in curve]
    assert values == sorted(values, reverse=True)
    assert (values[-1] < 0.2, values[0] > 10) == (True, True)


@pytest.mark.scenario
def test_notebook_refuses_other_users(portal: Cluster, alice: Session) -> None:
    bob = Session(portal)
    assert bob.login("bob", PASSWORDS["bob"]).status == OK
    for path in ("/user/alice/lab", "/user/alice/api/contents", "/user/alice/tensorboard/", "/hub/api/users/alice"):
        answer = bob.ask(path)
        assert answer.status in (FORBIDDEN, NOT_FOUND), (path, answer)
    assert Session(portal).ask("/user/alice/api/contents").status == FORBIDDEN
    node = node_of(portal, "alice")
    listening = "ss -Hlntup | grep -F -f <(pgrep -u alice | sed 's/.*/pid=&,/') | awk '{print $5}'"
    with alice.kernel("alice") as kernel:
        assert kernel.run("print('ready')") == "ready\n"
        opened = portal.exec(node, listening).stdout.split()
        # The debugger would open a port on which every client can run code. The second request is answered after the
        # first.
        attach = {"seq": 1, "type": "request", "command": "initialize", "arguments": {"clientID": "test"}}
        kernel.send("debug_request", attach, "control")
        asked = kernel.send("kernel_info_request", {}, "control")
        assert any(one["msg_type"] == "kernel_info_reply" for one in kernel.answers(asked))
        assert sorted(portal.exec(node, listening).stdout.split()) == sorted(opened)
    # A kernel receives the output of its subprocesses on a loopback port, authenticated by a key.
    reachable = [one for one in opened if not one.startswith("127.0.0.1:")]
    assert (len(reachable), len(opened)) == (1, 2), opened
    port = reachable[0].split(":")[-1]
    assert 61000 <= int(port) <= 61999
    page = alice.ask("/user/alice/lab").text
    disabled = re.search(r'"disabledExtensions":\s*\[([^]]*)\]', page)
    assert disabled, page[:2000]
    assert {name.strip(' "') for name in disabled[1].split(",")} == DISABLED
    # Without the proxy, the notebook only accepts clients with a certificate of the hub or the proxy.
    tried = portal.exec(node, f"python3 -c '{KNOCK}' {port}", user="bob", check=False)
    assert (tried.returncode, tried.stdout) == (0, "refused\n"), tried
    folders = portal.exec(node, "find /tmp -maxdepth 1 -name 'notebook.*' -user alice").stdout.split()
    assert folders
    for folder in folders:
        listed = portal.exec(node, f"ls {folder}; cat {folder}/key.pem", user="bob", check=False)
        assert (listed.stdout, listed.stderr.count("Permission denied")) == ("", 2), listed


@pytest.mark.scenario
def test_token_of_a_notebook_cannot_change_the_hub(portal: Cluster, alice: Session) -> None:
    token = alice.run("alice", "import os; print(os.environ['JUPYTERHUB_API_TOKEN'])").strip()
    ask = (
        "import json, os, ssl, urllib.request, urllib.error\n"
        "context = ssl.create_default_context(cafile=os.environ['JUPYTERHUB_SSL_CLIENT_CA'])\n"
        "context.check_hostname = False\n"
        "context.load_cert_chain(os.environ['JUPYTERHUB_SSL_CERTFILE'], os.environ['JUPYTERHUB_SSL_KEYFILE'])\n"
        "def post(path, body):\n"
        "    request = urllib.request.Request(os.environ['JUPYTERHUB_API_URL'] + path, json.dumps(body).encode(),\n"
        f"        {{'Authorization': 'token {token}', 'Content-Type': 'application/json'}})\n"
        "    try:\n"
        "        return urllib.request.urlopen(request, context=context).status\n"
        "    except urllib.error.HTTPError as exc:\n"
        "        return exc.code\n"
        "attack = {'exec_prefix': 'touch /tmp/owned;', 'batch_cancel_cmd': 'touch /tmp/owned', 'job_id': '1'}\n"
        "tried = [('/batchspawner', attack), ('/busbar/notebook', attack), ('/busbar/notebook', {'port': 61001}),\n"
        "         ('/users/bob/server', {})]\n"
        "print(*(post(*one) for one in tried))\n"
    )
    assert alice.run("alice", ask) == f"{NOT_FOUND} {FORBIDDEN} {FORBIDDEN} {FORBIDDEN}\n"
    assert portal.exec("login", "ls /tmp/owned", check=False).returncode != 0


@pytest.mark.scenario
def test_hub_may_only_run_five_commands_with_valid_requests(portal: Cluster, alice: Session) -> None:  # noqa: ARG001
    def as_hub(command: str, request: str = "{}") -> subprocess.CompletedProcess[str]:
        return portal.exec("login", f"runuser -u jupyterhub -- sudo -n {command} <<<'{request}'", check=False)

    programs = "/usr/local/libexec/busbar-portal"
    for command in (
        "true",
        "-u alice id",
        f"-u root {programs}/submit",
        f"-u alice {programs}/submit more",
        f"-u alice {programs}/query",
        f"-u alice {programs}/login",
    ):
        done = as_hub(command)
        assert done.returncode == 1, (command, done)
        assert "a password is required" in done.stderr or "not allowed" in done.stderr, (command, done.stderr)
    bad = {
        "choice": '{"choice": {"partition": "batch --wrap=id", "environment": "default"}}',
        "unknown": '{"choice": {"environment": "default", "nodelist": "gpu1"}}',
        "job": '{"job": "1 2"}',
    }
    noted = portal.exec("login", "journalctl -t sudo --since -5min | grep -c 'USER=slurm.*query'", check=False).stdout
    assert noted == "0\n", "each look at the queue is noted"
    for request, program in ((bad["choice"], "submit"), (bad["unknown"], "submit"), (bad["job"], "cancel")):
        done = as_hub(f"-u alice {programs}/{program}", request)
        assert (done.returncode, done.stdout) == (2, ""), done
    # A job that is not a notebook is not cancelled, although it belongs to alice.
    job = portal.exec("login", "cd /tmp && sbatch --parsable --wrap 'sleep 300'", user="alice").stdout.strip()
    as_hub(f"-u alice {programs}/cancel", json.dumps({"job": job}))
    assert portal.exec("ctl", f"squeue -h -j {job} -o %T").stdout.strip() in ("RUNNING", "PENDING", "CONFIGURING")
    portal.exec("ctl", f"scancel {job}")
    running = portal.exec("login", "systemctl show -P User busbar-portal-hub busbar-portal-proxy busbar-portal-nginx")
    assert running.stdout.split() == ["jupyterhub", "jupyterhub", "www-data"]


@pytest.mark.scenario
def test_notebook_survives_restart_of_hub_and_proxy(portal: Cluster, alice: Session) -> None:
    started = json.loads(alice.ask("/user/alice/api/status").text)["started"]
    portal.exec("login", "systemctl restart busbar-portal-hub busbar-portal-proxy")
    portal.wait_until(lambda: alice.ask("/user/alice/api/status").status == OK, "the notebook is not back", 60)
    assert json.loads(alice.ask("/user/alice/api/status").text)["started"] == started
    assert queue(portal) == ["alice RUNNING gres/gpu:1"]


def test_notebook_shows_that_it_is_pending_in_a_full_queue(portal: Cluster, alice: Session) -> None:  # noqa: ARG001 - provides the notebook
    bob = Session(portal)
    bob.login("bob", PASSWORDS["bob"])
    portal.exec("ctl", "scontrol update nodename=gpu1,gpu2 state=drain reason=full")
    try:
        assert bob.spawn("bob", gpus=1).status == OK
        portal.wait_until(lambda: "bob PENDING gres/gpu:1" in queue(portal), "bob does not wait", 60)
        assert "is pending: " in bob.progress("bob", "is pending: ")
        assert bob.stop("bob").status in (202, 204)
        portal.wait_until(lambda: not node_of(portal, "bob") and len(queue(portal)) == 1, "bob's job stays", 60)
    finally:
        portal.exec("ctl", "scontrol update nodename=gpu1,gpu2 state=resume")


def test_invalid_request_is_refused_with_the_reason(portal: Cluster, alice: Session) -> None:  # noqa: ARG001
    bob = Session(portal)
    bob.login("bob", PASSWORDS["bob"])
    answer = bob.spawn("bob", account="nobodys")
    shown = [answer.text, bob.ask("/hub/spawn-pending/bob").text, bob.ask("/hub/spawn/bob").text]
    assert any("Invalid account" in text for text in shown), shown
    bob.ask("/hub/api/users/bob/server", api={"environment": "default", "cmd": ["/bin/sh"]})
    portal.wait_until(
        lambda: not json.loads(bob.ask("/hub/api/users/bob").text).get("pending"), "bob's server hangs", 60
    )
    assert [line for line in queue(portal) if line.startswith("bob")] == []


def test_locked_user_cannot_start_a_notebook(portal: Cluster) -> None:
    bob = Session(portal)
    assert bob.login("bob", PASSWORDS["bob"]).status == OK
    portal.exec("login", "usermod --expiredate 1 bob")
    try:
        log = "journalctl -u busbar-portal-hub -o cat | grep -c"
        before = portal.exec("login", f"{log} 'notebook of bob is job'", check=False).stdout
        bob.spawn("bob")
        assert portal.exec("login", f"{log} 'bob may no longer log in'").stdout != "0\n"
        assert portal.exec("login", f"{log} 'notebook of bob is job'", check=False).stdout == before
        assert Session(portal).login("bob", PASSWORDS["bob"]).status == FORBIDDEN
    finally:
        portal.exec("login", "usermod --expiredate '' bob")
    assert bob.login("bob", PASSWORDS["bob"]).status == OK


@pytest.mark.scenario
def test_stopped_notebook_frees_the_node_and_its_end_is_explained(portal: Cluster, alice: Session) -> None:
    portal.exec("ctl", "scancel --name=busbar-notebook --user=alice")
    portal.wait_until(lambda: queue(portal) == [], "the job stays", 60)
    portal.wait_until(
        lambda: "Your last notebook ended: it was cancelled" in alice.ask("/hub/spawn/alice").text, "no reason", 60
    )
    assert alice.spawn("alice").status == OK
    assert alice.ready("alice")
    assert alice.stop("alice").status in (202, 204)
    portal.wait_until(lambda: queue(portal) == [], "the job stays", 60)
    node = portal.exec("ctl", "sinfo -hN -o '%N' | head -1").stdout.strip()
    portal.wait_until(
        lambda: portal.exec(node, "ls /tmp | grep -c ^notebook", check=False).stdout == "0\n", "keys stay", 60
    )


@pytest.mark.scenario
def test_jobs_page_shows_only_own_jobs_and_escapes_job_names(portal: Cluster) -> None:
    name = "<script>document.title='owned'</script>\n77|bob|RUNNING"
    asked = f"cd /tmp && sbatch --parsable --job-name={shlex.quote(name)} --wrap 'sleep 300'"
    alice, bob = Session(portal), Session(portal)
    assert alice.login("alice", PASSWORDS["alice"]).status == OK
    assert bob.login("bob", PASSWORDS["bob"]).status == OK
    assert alice.spawn("alice", gpus=1).status == OK
    assert alice.ready("alice")
    job = portal.exec("login", asked, user="alice").stdout.strip()
    try:
        portal.wait_until(lambda: f">{job}<" in tight(alice.ask("/hub/jobs").text), "the job is not shown", 60)
        page, node = tight(alice.ask("/hub/jobs").text), node_of(portal, "alice")
        assert re.search(
            rf">busbar-notebook</td><td>batch</td><td>runs</td><td>1</td><td[^>]*>[0-9:]+</td><td[^>]*>{node}<", page
        )
        assert "&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt; 77|bob|RUNNING<" in page
        assert "<script>document.title='owned'" not in page
        others = tight(bob.ask("/hub/jobs").text)
        assert ("You have no jobs in the queue" in others, f">{job}<" in others, "owned" in others) == (
            True,
            False,
            False,
        )
        assert 'href="/hub/jobs"' in bob.ask("/hub/home").text
    finally:
        portal.exec("ctl", "scancel --user=alice")
    stranger = Session(portal).ask("/hub/jobs")
    assert ("/hub/login?" in stranger.url, "owned" in stranger.text) == (True, False)
    portal.wait_until(lambda: queue(portal) == [], "the job stays", 60)


def tight(page: str) -> str:
    """Return a page without whitespace between its elements."""
    return re.sub(r">\s+|\s+<", lambda found: found[0].strip(), page)


def answered(browser: webdriver.Chrome) -> bool:
    """Run a cell and return whether it has output; the page may redraw the cell and lose input at first."""
    browser.find_element(By.CSS_SELECTOR, ".jp-Notebook .jp-CodeCell .cm-content").click()
    keys = webdriver.ActionChains(browser)
    keys.key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys("6 * 7")
    keys.key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    found = browser.find_elements(By.CSS_SELECTOR, ".jp-OutputArea-executeResult pre")
    return [one.text for one in found[:1]] == ["42"]


def test_user_gets_from_login_to_a_curve_in_tensorboard(portal: Cluster, chromium: webdriver.Chrome) -> None:
    base = Session(portal).base
    chromium.get(f"{base}/hub/login")
    name = portal.name
    assert (chromium.title, chromium.find_element(By.ID, "busbar-cluster").text) == (name, name)
    chromium.find_element(By.NAME, "username").send_keys("bob")
    chromium.find_element(By.NAME, "password").send_keys(PASSWORDS["bob"] + Keys.ENTER)
    assert "GPUs sim free" in chromium.find_element(By.ID, "partition").text
    assert chromium.find_element(By.TAG_NAME, "h1").text == f"Start a notebook on {name}"
    gpus = chromium.find_element(By.ID, "gpus")
    gpus.clear()
    gpus.send_keys("1")
    picture(chromium, "portal_form")
    chromium.find_element(By.CSS_SELECTOR, "#spawn_form button[type=submit]").send_keys(Keys.ENTER)
    try:
        card = chromium.find_element(By.CSS_SELECTOR, '.jp-LauncherCard[data-category="Notebook"]')
        assert chromium.find_element(By.CSS_SELECTOR, '.jp-LauncherCard[title*="TensorBoard"]').is_displayed()
        assert "bob RUNNING gres/gpu:1" in queue(portal)
        card.click()
        chromium.find_element(By.CSS_SELECTOR, '.jp-NotebookPanel-toolbar [data-status="idle"]')
        chromium.implicitly_wait(10)
        WebDriverWait(chromium, 120, ignored_exceptions=[StaleElementReferenceException]).until(answered)
        # By default JupyterLab asks each new user whether to fetch news from the Internet.
        assert "official Jupyter news" not in chromium.find_element(By.TAG_NAME, "body").text
        picture(chromium, "portal_notebook")
        bob = Session(portal)
        bob.login("bob", PASSWORDS["bob"])
        bob.open("bob")
        assert bob.run("bob", TRAIN) == "trained 0.429\n"
        chromium.get(f"{base}/user/bob/tensorboard/")
        chromium.implicitly_wait(60)
        card = chromium.find_element(By.CSS_SELECTOR, "scalar-card")
        # The value of the last step is shown next to the curve.
        WebDriverWait(chromium, 60).until(lambda _: "first" in card.text and "0.1845" in card.text)
        curve = card.find_element(By.CSS_SELECTOR, "canvas")
        assert (curve.is_displayed(), curve.size["width"] > 200) == (True, True)
        picture(chromium, "portal_tensorboard")
    finally:
        kept = "/shared/home/bob/Untitled*.ipynb /shared/home/bob/runs"
        portal.exec("ctl", f"scancel --name=busbar-notebook --user=bob; rm -rf {kept}")
        portal.wait_until(lambda: not node_of(portal, "bob"), "the job stays", 60)


def test_request_without_tls_is_redirected(portal: Cluster) -> None:
    refused = errno.ECONNREFUSED
    said = portal.exec("ctl", f"python3 -c '{PLAIN}'").stdout.split("\n")
    assert said == ["302 https://login:8000/hub/login", f"{refused}", f"{refused}", ""]


def test_idle_notebook_ends_and_a_running_silent_cell_is_not_idle(
    portal: Cluster, again: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = again("-e", "jupyterhub_idle_minutes=1")
    assert done.returncode == 0, done.stdout + done.stderr
    bob = Session(portal)
    bob.login("bob", PASSWORDS["bob"])
    portal.wait_until(lambda: bob.spawn("bob", gpus=1).status == OK, "the hub is not back", 60)
    assert bob.ready("bob")
    bob.open("bob")

    def computes() -> bool:
        """Return whether a kernel is busy; an open page also polls this."""
        return any(one["execution_state"] == "busy" for one in json.loads(bob.ask("/user/bob/api/kernels").text))

    with bob.kernel("bob") as kernel, ThreadPoolExecutor(1) as page:
        assert kernel.run("print('ready')") == "ready\n"
        # Reading replies also answers the pings of the server, which would otherwise close the connection.
        printed = page.submit(kernel.run, "import time; time.sleep(100); print('trained')")
        portal.wait_until(computes, "the cell does not start", 30)
        portal.wait_until(lambda: not computes(), "the cell does not end", 150)
        assert printed.result(60) == "trained\n"
        bob.type("bob", "sleep 100; touch ~/slept\r")
        node = node_of(portal, "bob")
        portal.wait_until(
            lambda: portal.exec(node, "rm ~bob/slept", check=False).returncode == 0, "the program does not end", 150
        )
        assert queue(portal) == ["bob RUNNING gres/gpu:1"]
        portal.wait_until(
            lambda: bob.ask("/user/bob/api/kernels").status != OK or not queue(portal), "the open page keeps it", 150
        )
    portal.wait_until(lambda: not queue(portal), "the GPU stays taken", 60)
    portal.wait_until(lambda: "idle for too long" in bob.ask("/hub/spawn/bob").text, "no reason", 60)
