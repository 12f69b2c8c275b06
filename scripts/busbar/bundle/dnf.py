"""Resolves packages with dnf, and copies the part of a repository that hosts need, with its metadata."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

from busbar.bundle.containers import FILES, WORK, install_key, run_in
from busbar.bundle.fetch import File, bundle_path, read_url, write
from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from busbar.bundle.plan import HostClass

# With an empty installroot, dnf lists all dependencies.
SCRIPT = f"""\
set -e
release=$1 stream=$2
shift 2
dnf() {{
    command dnf -q -y --setopt=reposdir={WORK}/repos --setopt=cachedir={WORK}/cache --setopt=install_weak_deps=False \\
        --installroot={WORK}/root --releasever="$release" "$@"
}}
dnf makecache >&2
[ -z "$stream" ] || dnf module enable "$stream" >&2
dnf download --resolve --alldeps --url "$@"
"""
REPOMD = "{http://linux.duke.edu/metadata/repo}"
IN_BUNDLE = re.compile(rf"^file:/*{FILES}/")


def resolve_dnf(own: HostClass, system: Mapping[str, Any], work: Path, files: Path, *, online: bool) -> list[File]:
    """Return all files that the hosts of a class download, with the metadata of their repositories.

    For the arguments and errors see resolve_apt.
    """
    (work / "repos").mkdir()
    found, sections = [], []
    for source in system["sources"]:
        path = bundle_path(source["key"])
        found.append(File(source["key"], path))
        if online:
            write(files / path, read_url(source["key"]))
        sections.append(_section(source["id"], source["url"], f"file://{FILES}/{path}", online=online))
        found += _metadata(source["url"], files, online=online)
    for repository in own.repositories:
        found += install_key(repository, work, files, online=online)
        place = f"file://{WORK}/{repository['name']}.asc"
        sections.append(_section(repository["name"], repository["url"], place, online=online))
        found += _metadata(repository["url"], files, online=online)
    (work / "repos/bundle.repo").write_text("\n".join(sections), encoding="utf-8")
    names = [f"{name}-{version}" if version else name for name, version in own.packages if not name.startswith("@")]
    stream = next((name[1:] for name, _ in own.packages if name.startswith("@")), "")
    words = [system["facts"]["distribution_major_version"], stream, *names]
    output = run_in(system, own.system, SCRIPT, work, files=files, online=online, words=words)
    urls = [line for line in output.splitlines() if line.endswith(".rpm")]
    return [*found, *(File(url, bundle_path(IN_BUNDLE.sub("://", url))) for url in urls)]


def _section(name: str, url: str, key: str, *, online: bool) -> str:
    place = url if online else f"file://{FILES}/{bundle_path(url)}"
    return f"[{name}]\nname={name}\nbaseurl={place}\nenabled=1\ngpgcheck=1\ngpgkey={key}\n"


def _metadata(url: str, files: Path, *, online: bool) -> Iterator[File]:
    """Yield the metadata of a repository; copy its list to the bundle.

    Raises:
        UsageError: the list is missing or unreadable.
    """
    base = url.rstrip("/")
    index = f"{base}/repodata/repomd.xml"
    if online:
        write(files / bundle_path(index), read_url(index))
    yield File(index, bundle_path(index))
    try:
        entries = ET.parse(files / bundle_path(index)).getroot().findall(f"{REPOMD}data")  # noqa: S314 - of the archive
    except (OSError, ET.ParseError) as exc:
        message = f"{url}: has no readable repodata/repomd.xml: {exc}"
        raise UsageError(message) from exc
    for entry in entries:
        location, digest = entry.find(f"{REPOMD}location"), entry.find(f"{REPOMD}checksum")
        if location is not None and digest is not None and not entry.get("type", "").endswith("_db"):
            place = f"{base}/{location.get('href')}"
            hashed = f"{digest.get('type')}:{digest.text}"
            yield File(place, bundle_path(place), int(entry.findtext(f"{REPOMD}size") or 0), hashed)
