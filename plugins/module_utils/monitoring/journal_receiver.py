"""Receives the journals of other hosts over TLS and hands each to a systemd-journal-remote of its own.

Where entries lie is decided by the certificate of who sends them, never by what they say. Distributions build
systemd-journal-remote without what checks certificates, and one of it writes all to one place. Runs on the receiving
host's own python3 (3.9, standard library only).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import os
import signal
import socket
import ssl
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .journal_store import (
    CURRENT,
    Journal,
    closed_name,
    excess_bytes,
    host_of,
    read_store,
    settle,
    size_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Budget", "Receiver", "main"]

WRITER = "/usr/lib/systemd/systemd-journal-remote"
# Of one host at a time: a sender has one; those of before a crash of the node are closed for new ones.
MOST_CONNECTIONS = 4
HANDSHAKE_S = 20
# The store is looked at so often, and a host sends so much between two looks that the limits hold well enough.
LOOK_S = 30
RATE_BYTES_S = 8 << 20
BURST_BYTES = 64 << 20
PIECE = 64 << 10
START_S = 20
# One entry of a hostile host may be large, and is held in memory.
MOST_MEMORY = 256 << 20
_DAY_S = 86400


def say(text: str) -> None:
    """Write a line to the journal of this host."""
    sys.stderr.write(f"{text}\n")


def remove(paths: Sequence[str]) -> None:
    """Remove files that may be gone already."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def rename(path: Path, fresh: Path) -> None:
    """Rename a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        path.rename(fresh)


class Budget:
    """How much a host may send: a burst, then a steady rate; what is over it waits with its sender."""

    def __init__(self, rate: float = RATE_BYTES_S, burst: float = BURST_BYTES, now: float = 0.0) -> None:
        """Begin with a full burst."""
        self._rate, self._burst, self._left, self._at = rate, burst, burst, now

    def take(self, size: int, now: float) -> float:
        """Take note of what came; return for how many seconds nothing more should be read."""
        self._left = min(self._left + (now - self._at) * self._rate, self._burst) - size
        self._at = now
        return max(-self._left / self._rate, 0.0)


@dataclasses.dataclass
class Sender:
    """A host that sends: its connections, and who writes for it."""

    host: str
    budget: Budget
    tasks: list[asyncio.Task[None]] = dataclasses.field(default_factory=list)
    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    process: asyncio.subprocess.Process | None = None
    path: str = ""


class Receiver:
    """All hosts that send."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Take the options of the command line."""
        self._options = options
        self._senders: dict[str, Sender] = {}
        self._numbers = itertools.count()
        self._asked = asyncio.Event()

    def context(self) -> ssl.SSLContext:
        """Return how TLS is spoken: both sides show a certificate of the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self._options.ca)
        context.load_cert_chain(self._options.certificate, self._options.key)
        return context

    async def serve(self) -> None:
        """Receive until told to end."""
        host, _, port = self._options.listen.rpartition(":")
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        server = await asyncio.start_server(
            self._accept,
            host.strip("[]"),
            int(port),
            ssl=self.context(),
            ssl_handshake_timeout=HANDSHAKE_S,
            limit=PIECE,
        )
        # A reload closes all journals now, as those that have been written to for long.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._close_all)
        keeper = asyncio.create_task(self._keep())
        await ended.wait()
        # Not as a context: since Python 3.12 that would wait until every sender has hung up by himself.
        server.close()
        keeper.cancel()
        for sender in self._senders.values():
            self._hang_up(sender)
            await self._stop(sender)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand a connection over to the writer of the host whose certificate it showed."""
        host = host_of(writer.get_extra_info("peercert"))
        if not host:
            say(f"{writer.get_extra_info('peername')}: its certificate names no host")
            writer.close()
            return
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sender = self._senders.setdefault(host, Sender(host, Budget(now=time.monotonic())))
        task = cast("asyncio.Task[None]", asyncio.current_task())
        sender.tasks.append(task)
        for old in sender.tasks[:-MOST_CONNECTIONS]:
            old.cancel()
        try:
            await self._relay(sender, reader, writer)
        except (OSError, asyncio.TimeoutError) as exc:  # noqa: UP041 - not the same before Python 3.11
            say(f"{host}: {exc}")
        except asyncio.CancelledError:
            pass  # by a newer connection, or at the end
        finally:
            sender.tasks.remove(task)
            writer.close()

    async def _relay(self, sender: Sender, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes between a sender and who writes for it until one of them is done."""
        async with sender.lock:
            if sender.process is None or sender.process.returncode is not None:
                await self._start(sender)
            there, back = await self._reach(sender)
        ways = [
            asyncio.create_task(_carry(reader, back, sender.budget)),
            asyncio.create_task(_carry(there, writer, None)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            back.close()

    def _directory(self, host: str) -> Path:
        """Return the directory of a host, made when it is not there."""
        place = Path(self._options.store, host)
        place.mkdir(mode=0o750, exist_ok=True)
        return place

    async def _start(self, sender: Sender) -> None:
        """Start who writes the journal of a host."""
        place = self._directory(sender.host)
        sender.path = str(Path(self._options.run, f"{next(self._numbers)}.sock"))
        sender.process = await asyncio.create_subprocess_exec(
            *("prlimit", f"--data={MOST_MEMORY}", self._options.writer, f"--listen-http={sender.path}"),
            *("--split-mode=none", f"--output={place / CURRENT}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )

    async def _reach(self, sender: Sender) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to who writes for a host, as soon as it listens."""
        deadline = time.monotonic() + START_S
        while sender.process and sender.process.returncode is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                return await asyncio.open_unix_connection(sender.path, limit=PIECE)
            await asyncio.sleep(0.05)
        await self._stop(sender)
        message = f"{self._options.writer} does not listen"
        raise OSError(message)

    def _hang_up(self, sender: Sender) -> None:
        """End the connections of a host; it calls again, and sends again what was not taken."""
        for task in sender.tasks:
            task.cancel()

    async def _stop(self, sender: Sender) -> None:
        """End who writes for a host."""
        process, sender.process = sender.process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), START_S)
        except asyncio.TimeoutError:  # noqa: UP041
            process.kill()
            await process.wait()
        remove([sender.path])

    async def _keep(self) -> None:
        """Close what has been written to for long, take away what is too much, and end who has nobody to write for."""
        while True:
            try:
                await self.look(time.time())
            except OSError as exc:
                say(f"{self._options.store}: {exc}")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._asked.wait(), self._options.look)

    def _close_all(self) -> None:
        """Have all journals closed at once."""
        self._asked.set()

    async def look(self, now: float) -> None:
        """Look at the store once."""
        store = Path(self._options.store)
        days = 0 if self._asked.is_set() else self._options.rotate_days
        self._asked.clear()
        written = [journal for journal in read_store(store) if not journal.closed]
        births = await birth_times([journal.path for journal in written])
        for journal in written:
            born = births.get(journal.path, now)
            if now - born >= days * _DAY_S:
                await self._close(journal, born)
        for sender in [sender for sender in self._senders.values() if not sender.tasks]:
            async with sender.lock:
                if not sender.tasks:
                    await self._stop(sender)
        journals = read_store(store)
        status = os.statvfs(store)
        free = status.f_bavail * status.f_frsize
        excess = excess_bytes(journals, free, self._options.max_use, self._options.keep_free)
        # Its first line is older than its last by up to the days after which it was closed.
        oldest = now - (self._options.max_age_days - self._options.rotate_days) * _DAY_S
        gone, close = settle(journals, excess, oldest)
        remove([journal.path for journal in gone])
        for journal in close:
            await self._close(journal, births.get(journal.path, now))

    async def _close(self, journal: Journal, born: float) -> None:
        """Close a journal that somebody may be writing to."""
        sender, path = self._senders.get(journal.host), Path(journal.path)
        fresh = path.with_name(closed_name(born, next(self._numbers)))
        if sender is None:
            rename(path, fresh)
            return
        self._hang_up(sender)
        async with sender.lock:
            await self._stop(sender)
            rename(path, fresh)


async def birth_times(paths: Sequence[str]) -> dict[str, float]:
    """Return when files were made, by path; of a file system that does not know, when they were last written to.

    Python does not tell it, and the entries' own times are in the hands of who sends them.
    """
    found: dict[str, float] = {}
    for at in range(0, len(paths), 500):
        command = ["stat", "--printf", "%W %Y %n\\n", "--", *paths[at : at + 500]]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        text, _ = await process.communicate()
        for line in text.decode(errors="surrogateescape").splitlines():
            born, written, path = line.split(" ", 2)
            found[path] = float(born) if born.isdigit() and int(born) else float(written)
    return found


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: Budget | None) -> None:
    """Carry bytes one way until there are no more."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
            pause = budget.take(len(data), time.monotonic()) if budget else 0.0
            if pause:
                await asyncio.sleep(pause)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Receive the journals of other hosts.")
    for name in ("listen", "store", "run", "certificate", "key", "ca"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--writer", default=WRITER)
    parser.add_argument("--look", type=float, default=LOOK_S)
    for name in ("max-use", "keep-free"):
        parser.add_argument(f"--{name}", type=size_bytes, required=True)
    for name in ("max-age-days", "rotate-days"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Receive until told to end; return the exit status."""
    asyncio.run(_receive(arguments(words)))
    return 0


async def _receive(options: argparse.Namespace) -> None:
    """Receive until told to end."""
    await Receiver(options).serve()
