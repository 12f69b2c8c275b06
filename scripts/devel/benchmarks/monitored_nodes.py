"""Answers as many nodes' exporters, on a loopback address each; runs on the controller of a sandbox, with Python alone.

Arguments: the port, and the folder with node.prom and dcgm.prom. Every second answer of an exporter has counters that
went on, so that Prometheus stores what it would of real ones.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import re
import sys
from pathlib import Path

VALUE = re.compile(rb"^([^#\s][^\n]*?) ([0-9.]+)$", re.MULTILINE)


def gone_on(text: bytes) -> bytes:
    """The same series, each value a little higher."""
    return VALUE.sub(lambda line: line[1] + b" " + repr(float(line[2]) * 1.0001 + 1).encode(), text)


def answers(text: bytes) -> list[bytes]:
    """Whole answers of HTTP, packed once: the cost of packing is that of the nodes."""
    bodies = [gzip.compress(text, 1), gzip.compress(gone_on(text), 1)]
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Encoding: gzip\r\n"
    return [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]


async def serve(port: int, folder: Path) -> None:
    """Answer until killed."""
    ready = {kind: itertools.cycle(answers((folder / f"{kind}.prom").read_bytes())) for kind in ("node", "dcgm")}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                writer.write(next(ready["dcgm" if b" /dcgm " in request.split(b"\r\n", 1)[0] else "node"]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "0.0.0.0", port, backlog=4096)  # noqa: S104 - a sandbox, all of 127/8
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
