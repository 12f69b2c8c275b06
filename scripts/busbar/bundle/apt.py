"""Resolves packages with apt, and copies the part of an archive that hosts need, with its signed index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from busbar.bundle.containers import FILES, WORK, install_key, run_in
from busbar.bundle.fetch import File, bundle_path, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from busbar.bundle.plan import HostClass

# With an empty package database, apt lists all dependencies.
SCRIPT = f"""\
set -e
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
: >{WORK}/status
mkdir -p {WORK}/lists/partial {WORK}/cache/archives/partial
cat >{WORK}/apt.conf <<'END'
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{WORK}/sources";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "{WORK}/preferences";
Dir::State::Lists "{WORK}/lists";
Dir::State::status "{WORK}/status";
Dir::Cache "{WORK}/cache";
Acquire::By-Hash "no";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
END
export APT_CONFIG={WORK}/apt.conf
apt-get -q update >&2
echo "== indexes"
apt-get indextargets --format '$(METAKEY) $(URI)' 'Created-By: Packages'
echo "== packages"
apt-get -q install --print-uris --yes --no-install-recommends "$@" >{WORK}/answer || {{
    cat {WORK}/answer >&2
    exit 100
}}
grep "^'" {WORK}/answer || true
"""
PACKAGE = re.compile(r"^'(?P<url>[^']+)' \S+ (?P<size>\d+) ?(?P<hash>\S*)$", re.MULTILINE)
HASH = re.compile(r"^ ([0-9a-f]{64})\s+(\d+)\s+(\S+)$", re.MULTILINE)
# apt's order of preference.
COMPRESSED = (".zst", ".xz", ".bz2", ".lzma", ".gz", "")
RELEASE = re.compile(r"^'(?P<url>[^']+)/dists/(?P<suite>[^']+)/InRelease' ", re.MULTILINE)
IN_BUNDLE = re.compile(rf"^(file|copy):/*{FILES}/")


def archives(name: str, system: Mapping[str, Any], work: Path, files: Path) -> list[dict[str, str]]:
    """Return `url` and `suite` of each archive in the apt configuration of a system's image.

    Args:
        name: name of the system.
        system: the system.
        work: folder on this machine.
        files: files of the bundle.
    """
    output = run_in(system, name, "apt-get update --print-uris", work, files=files, online=False)
    return [match.groupdict() for match in RELEASE.finditer(output)]


def resolve_apt(own: HostClass, system: Mapping[str, Any], work: Path, files: Path, *, online: bool) -> list[File]:
    """Return all files that the hosts of a class download, with the indexes of their archives.

    Args:
        own: the class of hosts.
        system: the system of the class.
        work: empty folder on this machine.
        files: files of the bundle.
        online: whether to use the internet, and write keys and signed release files to the bundle, or only the bundle.

    Raises:
        UsageError: an archive is not reachable, a package does not exist, or a key has changed.
    """
    sources = [
        _source(each["url"], each["suite"], system["components"], system["keyring"], online=online)
        for each in archives(own.system, system, work, files)
    ]
    found: list[File] = []
    for repository in own.repositories:
        found += install_key(repository, work, files, online=online)
        place, parts = f"{WORK}/{repository['name']}.asc", repository["components"]
        sources.append(_source(repository["url"], repository["suite"], parts, place, online=online))
    (work / "sources").mkdir()
    (work / "sources/bundle.sources").write_text("\n".join(sources), encoding="utf-8")
    (work / "preferences").mkdir()
    (work / "preferences/bundle.pref").write_text("\n".join(_pins(own)), encoding="utf-8")
    names = [name for name, _ in own.packages]
    output = run_in(system, own.system, SCRIPT, work, files=files, online=online, words=names)
    indexes, _, packages = output.partition("== packages\n")
    for line in indexes.splitlines()[1:]:
        name, url = line.split()
        found += _index(name, url, work / "lists", files, online=online)
    for match in PACKAGE.finditer(packages):
        digest = match["hash"].lower().replace("md5sum:", "md5:")
        found.append(File(match["url"], bundle_path(IN_BUNDLE.sub("://", match["url"])), int(match["size"]), digest))
    return found


def _pins(own: HostClass) -> Iterator[str]:
    declared = [
        (name, version if "-" in version or "*" in version else f"{version}-*")
        for name, version in own.packages
        if version
    ]
    # Some NVIDIA packages have an epoch, which the version in an option may omit.
    epochs = [(name, f"1:{version}") for name, version in declared if ":" not in version and version[0] != "*"]
    for name, version in [*own.pins, *declared, *epochs]:
        yield f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n"


def _source(url: str, suite: str, components: Sequence[str], keyring: str, *, online: bool) -> str:
    place = url if online else f"copy:{FILES}/{bundle_path(url)}"
    lines = ["Types: deb", f"URIs: {place}", f"Suites: {suite}", f"Signed-By: {keyring}"]
    return "\n".join([*lines, *([f"Components: {' '.join(components)}"] if components else [])]) + "\n"


def _index(key: str, url: str, lists: Path, files: Path, *, online: bool) -> Iterator[File]:
    """Yield the signed release file of an archive and the index; copy the release file to the bundle."""
    base = url.removesuffix(key)
    place = bundle_path(IN_BUNDLE.sub("://", base))
    stem = place.replace("_", "%5f").replace("/", "_")
    release = ""
    for name in ("InRelease", "Release", "Release.gpg"):
        kept = lists / f"{stem}{name}"
        if online and kept.exists():
            write(files / f"{place}{name}", kept.read_bytes())
        path = files / f"{place}{name}"
        if path.exists() and (not online or kept.exists()):
            release = release or path.read_text(encoding="utf-8", errors="replace")
            yield File(base + name, place + name)
    hashes = {name: (int(size), digest) for digest, size, name in HASH.findall(release)}
    for name in (key + suffix for suffix in COMPRESSED):
        if name in hashes:
            size, digest = hashes[name]
            yield File(base + name, place + name, size, f"sha256:{digest}")
            return
