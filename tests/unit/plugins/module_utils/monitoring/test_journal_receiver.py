"""The receiver of journals, with real TLS and a writer that only notes what it is given."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.journal_receiver import Budget
from ansible_collections.busbar.cluster.plugins.plugin_utils.access import tls_certificate as tls
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Listens as systemd-journal-remote does, keeps what comes, and says so.
WRITER = """#!{python}
import os, socket, sys, threading
options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
server = socket.socket(socket.AF_UNIX)
server.bind(options["listen-http"])
server.listen()
def serve(connection):
    while data := connection.recv(4096):
        with open(options["output"], "ab") as stream:
            stream.write(data)
        connection.sendall(b"kept " + data)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
PROGRAM = """
import sys
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.journal_receiver import main
sys.exit(main(sys.argv[1:]))
"""


class Running(NamedTuple):
    """A receiver: where it listens, where it keeps, its authority and its process."""

    port: int
    store: Path
    folder: Path
    authority: str
    process: subprocess.Popen[bytes]


def pair(folder: Path, authority: str, *names: str) -> tuple[str, str]:
    """Make a certificate and its key; their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    certificate = tls.sign_host(line, authority, names=list(names), now=int(time.time()), days=1)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    name = names[0].replace("/", "_")
    for kind, text in (("crt", certificate), ("key", pem)):
        (folder / f"{name}.{kind}").write_text(text)
    return str(folder / f"{name}.crt"), str(folder / f"{name}.key")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    authority = tls.make_authority("c", int(time.time()))
    (tmp_path / "ca.crt").write_text(tls.authority_certificate(authority))
    certificate, key = pair(tmp_path, authority, "127.0.0.1")
    writer, store = tmp_path / "writer", tmp_path / "store"
    writer.write_text(WRITER.format(python=sys.executable))
    writer.chmod(0o755)
    store.mkdir()
    (tmp_path / "run").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    options = {
        "listen": f"127.0.0.1:{port}",
        "store": store,
        "run": tmp_path / "run",
        "writer": writer,
        "look": 0.2,
        "certificate": certificate,
        "key": key,
        "ca": tmp_path / "ca.crt",
        "max-use": "1G",
        "keep-free": "1",
        "max-age-days": 30,
        "rotate-days": 7,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *words], env=here) as process:
        yield Running(port, store, tmp_path, authority, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert list((tmp_path / "run").iterdir()) == []


def call(running: Running, certificate: tuple[str, str] | None) -> ssl.SSLSocket:
    """Call the receiver with a certificate."""
    context = ssl.create_default_context(cafile=str(running.folder / "ca.crt"))
    if certificate:
        context.load_cert_chain(*certificate)
    deadline = time.monotonic() + 20
    while True:
        try:
            plain = socket.create_connection(("127.0.0.1", running.port), timeout=10)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def send(running: Running, certificate: tuple[str, str] | None, text: bytes) -> bytes:
    with call(running, certificate) as connection:
        connection.sendall(text)
        answer = b""
        while len(answer) < len(text) + 5 and (data := connection.recv(4096)):
            answer += data
        return answer


def test_entries_lie_under_the_name_of_the_certificate_whatever_they_say(running: Running) -> None:
    """Root of gpu2 sends lines that say they are of ctl."""
    one, two = (pair(running.folder, running.authority, name) for name in ("gpu1", "gpu2"))
    assert send(running, one, b"_HOSTNAME=gpu1 MESSAGE=true") == b"kept _HOSTNAME=gpu1 MESSAGE=true"
    assert send(running, two, b"_HOSTNAME=ctl MESSAGE=forged").startswith(b"kept ")
    assert {path.name for path in running.store.iterdir()} == {"gpu1", "gpu2"}
    assert b"forged" not in (running.store / "gpu1" / "remote.journal").read_bytes()
    assert b"forged" in (running.store / "gpu2" / "remote.journal").read_bytes()
    assert (running.store / "gpu1").stat().st_mode & 0o007 == 0


def test_nobody_without_a_certificate_of_the_authority_gets_through(running: Running) -> None:
    foreign = pair(running.folder, tls.make_authority("other", int(time.time())), "gpu1")
    for certificate in (foreign, None):
        answer = b""
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            answer = send(running, certificate, b"x")
        assert answer == b""
    assert list(running.store.iterdir()) == []


def test_old_connections_give_way_and_others_are_not_concerned(running: Running) -> None:
    one, two = (pair(running.folder, running.authority, name) for name in ("gpu1", "gpu2"))
    other = call(running, two)
    other.sendall(b"a")
    assert other.recv(10) == b"kept a"
    held = []
    for _ in range(6):
        held.append(call(running, one))
        held[-1].sendall(b"b")
        assert held[-1].recv(10) == b"kept b"
    assert held[0].recv(10) == b""
    assert held[1].recv(10) == b""
    for connection in (other, *held[2:]):
        connection.sendall(b"c")
        assert connection.recv(10) == b"kept c"
    for connection in (other, *held):
        connection.close()


def test_a_reload_closes_what_is_written_to_and_senders_go_on(running: Running) -> None:
    one = pair(running.folder, running.authority, "gpu1")
    connection = call(running, one)
    connection.sendall(b"before")
    assert connection.recv(20) == b"kept before"
    running.process.send_signal(signal.SIGHUP)
    assert connection.recv(20) == b""
    folder = running.store / "gpu1"
    deadline = time.monotonic() + 20
    while not (closed := list(folder.glob("remote@*.journal~"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert closed[0].read_bytes() == b"before"
    assert send(running, one, b"after") == b"kept after"
    assert (folder / "remote.journal").read_bytes() == b"after"
    os.utime(closed[0], (0, 0))
    while closed[0].exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (folder / "remote.journal").exists()


def test_a_burst_is_free_and_then_a_rate_holds() -> None:
    budget = Budget(rate=10, burst=100)
    assert budget.take(100, 0) == 0
    assert budget.take(50, 0) == 5
    assert budget.take(0, 5) == 0
    assert budget.take(10, 6) == 0
    assert budget.take(1000, 1000) == 90
