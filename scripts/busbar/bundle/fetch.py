"""Downloads files and verifies their hashes; interrupted downloads are resumed."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import http.client
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

TIMEOUT_S = 60
ATTEMPTS = 3
PARALLEL = 6
CHUNK = 1 << 20
PROGRESS_S = 2.0
ERRORS = (OSError, urllib.error.URLError, http.client.HTTPException)


@dataclasses.dataclass(frozen=True)
class File:
    """A file to download.

    Attributes:
        url: its URL.
        path: path below the files of the bundle.
        size: size in bytes; 0 if unknown.
        digest: hash with its algorithm, such as `sha256:…`; empty if unknown.
    """

    url: str
    path: str
    size: int = 0
    digest: str = ""


def bundle_path(url: str) -> str:
    """Return the path of a URL below the files of a bundle: its host and path.

    Raises:
        UsageError: the URL would leave the bundle.
    """
    path = urllib.parse.unquote(url.partition("://")[2]).replace("/./", "/")
    if ".." in path.split("/") or not path or path.startswith("/"):
        message = f"{url}: is not the URL of a file that a bundle can contain"
        raise UsageError(message)
    return path


def write(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.part")
    fresh.write_bytes(data)
    fresh.replace(path)


def size_text(size: float) -> str:
    """Return a size with its unit."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - decimal units
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def digest_of(path: Path, algorithm: str = "sha256") -> str:
    """Return the hash of a file."""
    digest = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _open(url: str, begin: int = 0, method: str = "GET") -> http.client.HTTPResponse:
    headers = {"User-Agent": "busbar"} | ({"Range": f"bytes={begin}-"} if begin else {})
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - http(s) URLs of the plan
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
    return answer


def read_url(url: str) -> bytes:
    """Return the content of a small file.

    Raises:
        UsageError: the file cannot be downloaded.
    """
    try:
        with _open(url) as answer:
            return answer.read()
    except ERRORS as exc:
        raise _unreachable(url, exc) from exc


def size_of(url: str) -> int:
    """Return the size of a file, or 0 if the server does not report it.

    Raises:
        UsageError: the file cannot be downloaded.
    """
    try:
        with _open(url, method="HEAD") as answer:
            return int(answer.headers.get("Content-Length") or 0)
    except ERRORS as exc:
        raise _unreachable(url, exc) from exc


def _unreachable(url: str, exc: BaseException) -> UsageError:
    reason = " ".join(str(getattr(exc, "reason", "") or exc).split())
    return UsageError(
        f"{url}: cannot be downloaded ({reason}). Check the network of this host, and run the command again"
    )


def is_whole(path: Path, file: File) -> bool:
    """Return whether a file is complete."""
    if not path.is_file() or (file.size and path.stat().st_size != file.size):
        return False
    algorithm, _, value = file.digest.partition(":")
    return not value or digest_of(path, algorithm) == value


def download(files: Iterable[File], folder: Path, say: Callable[[str], None]) -> None:
    """Download the files that are missing or damaged in a folder, several at a time.

    Raises:
        UsageError: a file cannot be downloaded or has another hash.
    """
    wanted = [file for file in files if not is_whole(folder / file.path, file)]
    total, stop, lock = sum(file.size for file in wanted), threading.Event(), threading.Lock()
    done = [0, 0]

    def count(size: int, ended: int = 0) -> None:
        with lock:
            done[0] += ended
            done[1] += size

    def fetch(file: File) -> None:
        if not stop.is_set():
            try:
                _fetch(file, folder / file.path, count, stop)
            except BaseException:
                stop.set()
                raise
            count(0, 1)

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        waiting = {pool.submit(fetch, file) for file in wanted}
        shown = time.monotonic()
        try:
            while waiting:
                ended, waiting = concurrent.futures.wait(
                    waiting, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in ended:
                    future.result()
                if time.monotonic() - shown >= PROGRESS_S or (wanted and not waiting):
                    shown = time.monotonic()
                    part = f"{size_text(done[1])} of {size_text(total)}"
                    say(f"downloaded {done[0]} of {len(wanted)} files, {part}")
        finally:
            stop.set()


def _fetch(file: File, path: Path, count: Callable[[int], None], stop: threading.Event) -> None:
    """Download a file; continue a partial file of an earlier attempt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for attempt in range(ATTEMPTS):
        begin = part.stat().st_size if part.exists() else 0
        try:
            with _open(file.url, begin) as answer, part.open("ab" if answer.status == 206 else "wb") as stream:  # noqa: PLR2004
                while chunk := answer.read(CHUNK):
                    if stop.is_set():
                        return
                    stream.write(chunk)
                    count(len(chunk))
        except ERRORS as exc:
            if isinstance(exc, urllib.error.HTTPError) and exc.code == 416:  # noqa: PLR2004 - the part is complete or wrong
                if is_whole(part, file):
                    break
                part.unlink()
            elif attempt == ATTEMPTS - 1 or isinstance(exc, urllib.error.HTTPError):
                raise _unreachable(file.url, exc) from exc
            continue
        if is_whole(part, file):
            break
        found = f"sha256:{digest_of(part)}, {part.stat().st_size} B"
        part.unlink()
        if attempt == ATTEMPTS - 1:
            expected = f"{file.digest or 'any hash'}, {file.size or 'any'} B"
            message = f"{file.url}: has unexpected content (found {found}, expected {expected})"
            raise UsageError(message)
    part.replace(path)
