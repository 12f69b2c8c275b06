"""Starts a notebook in its job: chooses a free port, sends it to the hub, and receives the certificate for its node."""

import http.client
import importlib.util
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlparse, urlunparse

ATTEMPTS = 5


def free_port(first: int, last: int) -> int:
    """Return a free port."""
    ports = list(range(first, last + 1))
    random.shuffle(ports)
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(("", port))
            except OSError:
                continue
            return port
    sys.exit(f"this node has no free port from {first} to {last}; increase jupyterhub_notebook_ports")


def register_port(port: int, folder: Path) -> dict[str, str]:
    """Send the port to the hub and return the files in its response."""
    hub = urlparse(os.environ["JUPYTERHUB_API_URL"])
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    # The hub's certificate authority is private, so the host name of the hub does not matter.
    context.check_hostname = False
    context.load_cert_chain(str(folder / "certificate.pem"), str(folder / "key.pem"))
    for attempt in range(ATTEMPTS):
        connection = http.client.HTTPSConnection(hub.hostname, hub.port, context=context, timeout=30)
        headers = {
            "Authorization": f"token {os.environ['JUPYTERHUB_API_TOKEN']}",
            "Content-Type": "application/json",
        }
        try:
            connection.request("POST", f"{hub.path}/busbar/notebook", json.dumps({"port": port}), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except OSError as exc:
            sys.stderr.write(f"the hub at {hub.netloc} does not answer: {exc}\n")
        else:
            if answer.status == http.client.OK:
                return json.loads(text)
            sys.stderr.write(f"the hub at {hub.netloc} answers {answer.status}: {text}\n")
            if answer.status != http.client.CONFLICT:
                break
        time.sleep(2**attempt)
    sys.exit("cannot send the port of the notebook to the hub; the job ends")


def main(first: str, last: str, folder: Path) -> int:
    """Start the notebook and return its exit status."""
    missing = [name for name in ("jupyterhub", "jupyterlab") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"{sys.executable} cannot start a notebook: {' and '.join(missing)} not installed")
    port = free_port(int(first), int(last))
    for name, text in register_port(port, folder).items():
        (folder / f"{name}.pem").write_text(text)
    keys = {"KEYFILE": "key", "CERTFILE": "certificate", "CLIENT_CA": "authority"}
    os.environ.update({f"JUPYTERHUB_SSL_{key}": str(folder / f"{name}.pem") for key, name in keys.items()})
    url = urlparse(os.environ["JUPYTERHUB_SERVICE_URL"])
    os.environ["JUPYTERHUB_SERVICE_URL"] = urlunparse(url._replace(netloc=f"0.0.0.0:{port}"))
    # For kernel sockets: the home may be on NFS, and its path may exceed the limit of 107 characters for a socket.
    os.environ["JUPYTER_RUNTIME_DIR"] = str(folder / "run")
    tools = Path(sys.executable).parent
    os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
    server = str(Path(__file__).with_name("busbar_notebook.py"))
    notebook = subprocess.Popen([sys.executable, server, "--ServerApp.port_retries=0"])  # noqa: S603 - a fixed command
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, _: notebook.send_signal(signum))
    return notebook.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
