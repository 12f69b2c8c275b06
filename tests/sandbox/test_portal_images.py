"""Tests of notebooks in containers: real Charliecloud, and an image made of the sandbox's own files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from portal_host import DISABLED, PASSWORDS
from portal_session import Session

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("jupyterhub", "charliecloud")

OK, REFUSED = 200, 2
GRANTED, NOT_GRANTED = 6, 1  # ENXIO: no driver behind a simulated GPU; EPERM: the job may not use it
IMAGES = "/shared/test-images"
ENVIRONMENTS = [
    {"name": "default", "title": "JupyterLab with TensorBoard"},
    {"name": "torch", "title": "Our image", "image": "jupyter", "python": "/opt/jupyter/bin/python3"},
    {"name": "bare", "title": "An image without JupyterHub", "image": "jupyter"},
]
# Python and JupyterLab of a node with their shared libraries, in the layout of its root, and a file that only the image
# has.
MAKE_IMAGE = f"""
set -e
mkdir -p {IMAGES}/jupyter && cd {IMAGES}/jupyter
mkdir -p usr/bin usr/lib usr/lib64 opt dev etc mnt proc root run shared sys tmp
ln -sfn usr/bin bin; ln -sfn usr/lib lib; ln -sfn usr/lib64 lib64
touch etc/group etc/hosts etc/passwd etc/resolv.conf
echo image >etc/only-here
cp -aL /usr/bin/python3 /usr/bin/bash /usr/bin/uname usr/bin/
cp -a /usr/lib/python3* usr/lib/
[ -d opt/jupyter ] || cp -al $(ls -d /shared/software/jupyter/notebook-*) opt/jupyter
for file in usr/bin/* $(find usr/lib/python3* opt/jupyter -name '*.so*' -type f); do
    ldd $file 2>/dev/null | grep -o '/[^ ]*' || true
done | grep -v '{IMAGES}\\|/shared/' | sort -u | while read -r library; do
    case $library in /usr/*) place=$library ;; *) place=/usr$library ;; esac
    mkdir -p .$(dirname $place) && cp -Ln $library .$place
done
"""
SEEN = """
import errno, glob, os, sys
print(open('/etc/only-here').read().strip(), sys.prefix, os.getcwd(), os.environ['HOME'])
for path in sorted(glob.glob('/dev/nvidia[0-9]')):
    try:
        open(path)
    except OSError as exc:
        print(exc.errno)
"""
CONFIGURED = """
import json, os
print(sorted(json.load(open(os.environ['JUPYTER_CONFIG_PATH'] + '/jupyter_server_config.json'))))
"""


@pytest.fixture(scope="module")
def images(portal: Cluster, again: Callable[..., subprocess.CompletedProcess[str]]) -> Iterator[Cluster]:
    """Install Charliecloud on the nodes, an image, and a portal that offers it."""
    on = {"charliecloud_enabled": True, "charliecloud_images_path": IMAGES}
    done = portal.playbook("containers.yml", "--tags", "charliecloud", "-e", json.dumps(on))
    assert done.returncode == 0, done.stdout
    portal.exec("gpu1", MAKE_IMAGE)
    offered: dict[str, Any] = {"charliecloud_enabled": True, "jupyterhub_environments": ENVIRONMENTS}
    done = again("-e", json.dumps(offered))
    assert done.returncode == 0, done.stdout
    yield portal
    portal.exec("ctl", "scancel --name=busbar-notebook")
    portal.exec("gpu1", f"rm -rf {IMAGES}")
    for node in ("login", *portal.compute):
        portal.exec(node, "rm -rf /usr/local/bin/ch-job /etc/ch-job.conf")


def test_image_without_a_container_runtime_is_refused(
    portal: Cluster, again: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = portal.exec("login", "cat /etc/busbar/portal.json").stdout
    done = again("-e", json.dumps({"jupyterhub_environments": ENVIRONMENTS}))
    said = " ".join(done.stdout.split())
    assert (done.returncode, "torch has an image, but no container runtime is enabled on the nodes" in said) == (
        2,
        True,
    ), said
    assert portal.exec("login", "cat /etc/busbar/portal.json").stdout == before


def test_notebook_in_an_image_has_the_home_and_the_gpu_of_its_job(images: Cluster) -> None:
    alice = Session(images)
    assert alice.login("alice", PASSWORDS["alice"]).status == OK
    assert "Our image" in alice.ask("/hub/spawn").text
    assert alice.spawn("alice", gpus=1, environment="torch").status == OK
    assert alice.ready("alice"), images.exec("login", "cat ~alice/.local/state/notebook.log").stdout
    alice.open("alice")
    first, *opened = alice.run("alice", SEEN).splitlines()
    assert first == "image /opt/jupyter /shared/home/alice /shared/home/alice"
    assert sorted(map(int, opened)) in ([NOT_GRANTED, GRANTED], [GRANTED])
    # Idle timeout and listening ports are the same as for notebooks without an image.
    assert alice.run("alice", CONFIGURED) == "['KernelManager', 'LabApp', 'MappingKernelManager', 'ServerApp']\n"
    disabled = re.search(r'"disabledExtensions": \[([^]]*)\]', alice.ask("/user/alice/lab").text)
    assert disabled
    assert {name.strip(' "') for name in disabled[1].split(",")} == DISABLED
    log = images.exec("login", "cat ~alice/.local/state/notebook.log").stdout
    assert "busbar_notebook | extension was successfully loaded" in log
    assert alice.stop("alice").status in (202, 204)
    images.wait_until(lambda: not images.exec("ctl", "squeue -h -n busbar-notebook").stdout, "the job stays", 60)


def test_image_without_jupyterhub_is_reported(images: Cluster) -> None:
    alice = Session(images)
    assert alice.login("alice", PASSWORDS["alice"]).status == OK
    alice.spawn("alice", environment="bare")
    images.wait_until(lambda: "its log contains the error" in alice.ask("/hub/spawn/alice").text, "no word", 90)
    log = images.exec("login", "cat ~alice/.local/state/notebook.log").stdout
    assert "cannot start a notebook: jupyterhub and jupyterlab not installed" in log
