"""Creates, updates and verifies a bundle."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import html
import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.bundle.apt import archives, resolve_apt
from busbar.bundle.containers import WORK, image_file, image_reference, run_in
from busbar.bundle.dnf import resolve_dnf
from busbar.bundle.fetch import File, bundle_path, download, size_of, size_text, write
from busbar.bundle.manifest import damaged_files, wheel_licence, write_manifest
from busbar.bundle.plan import hosts_text, make_plan, systems
from busbar.errors import UsageError
from busbar.paths import checkout, collection
from busbar.run.playbook import inventory_hosts
from busbar.sandbox.host import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from busbar.bundle.plan import HostClass, Plan
    from busbar.run.site import Site

FILES, WHEELS, IMAGES, OWN = "files", "wheels", "images", "busbar"
# Hosts read this file before they use the bundle.
DESCRIPTION = "bundle.json"
AGAIN = "Create the bundle again with this inventory"
# Free space in bytes for wheels, images and busbar, whose sizes are not known in advance.
RESERVE = 500_000_000
GLIBC = (5, 12, 17, 24, 26, 27, 28, 31, 34, 35)
LICENCES = {
    ".deb": 'dpkg-deb --fsys-tarfile "$1" | tar -xOf - --wildcards "./usr/share/doc/*/copyright" 2>/dev/null',
    ".rpm": 'rpm -qp --nosignature --qf "License: %{LICENSE}\\n" "$1"',
}
SCRIPT = f"""\
said() {{
    {{ LICENCE; }} | sed -n 's/^License: *//p' | sort -u | tr '\\n' ';'
}}
while IFS= read -r file; do
    printf '%s\\t%s\\n' "$file" "$(said "/bundle/$file")"
done <{WORK}/names
"""


def create(
    folder: Path,
    plan: Plan,
    key: Path,
    say: Callable[[str], None],
    *,
    only_size: bool = False,
) -> None:
    """Create or update a bundle.

    Args:
        folder: folder of the bundle.
        plan: the packages and files of the hosts.
        key: signing key.
        say: prints a line of progress.
        only_size: whether to return after showing the size.

    Raises:
        UsageError: a file cannot be downloaded, a package does not exist, or the bundle does not fit on the disk.
    """
    top = checkout()
    if top is None:
        message = "busbar bundle create builds packages from a checkout: run it in a checkout of busbar"
        raise UsageError(message)
    files = folder / FILES
    files.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, File] = {}
    for own in plan.classes:
        say(f"resolving {len(own.packages)} packages of {hosts_text(own.hosts)} ({own.system})")
        # Not in parallel, because all classes must use the same version of an archive's indexes.
        wanted |= {each.path: each for each in _resolve(own, files, online=True)}
    for url, digest in plan.downloads.items():
        path = bundle_path(url)
        known = files / path
        size = known.stat().st_size if known.is_file() else size_of(url)
        wanted[path] = File(url, path, size, f"sha256:{digest}" if digest else "")
    missing = [
        each
        for each in wanted.values()
        if not (place := files / each.path).is_file() or place.stat().st_size != (each.size or place.stat().st_size)
    ]
    needed = sum(each.size for each in missing)
    extra = f", without Python packages, busbar and {len(plan.images)} images"
    say(f"{len(wanted)} files, {size_text(sum(each.size for each in wanted.values()))}{extra}")
    say(f"to download: {len(missing)} files, {size_text(needed)}; free: {size_text(shutil.disk_usage(folder).free)}")
    refuse_small_disk(folder, needed)
    if only_size:
        return
    download(wanted.values(), files, say)
    say("collecting Python packages, images and busbar")
    sources = {f"{FILES}/{path}": file.url for path, file in wanted.items()}
    sources |= dict.fromkeys(_wheels(folder, plan, top), "")
    sources |= _images(folder, plan)
    sources |= dict.fromkeys(_own(folder, top), "")
    say("reading licences")
    systems_by_host = {host: own.system for own in plan.classes for host in own.hosts}
    about_bundle = {"cluster": plan.cluster, "fingerprint": plan.fingerprint, "systems": systems_by_host}
    about_bundle["archives"] = _archives(folder, plan)
    about_bundle["created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write(folder / DESCRIPTION, (json.dumps(about_bundle, indent=1) + "\n").encode())
    sources[DESCRIPTION] = ""
    licences = _licences(folder, plan, sources)
    about = {path: {"url": url, "licence": licences.get(path, "")} for path, url in sources.items()}
    write_manifest(folder, plan, about, key, importlib.metadata.version("busbar"))
    removed = _remove_others(folder, about)
    say(
        f"bundle of {plan.cluster}: {len(about)} files in {folder}"
        + (f", {removed} old files removed" if removed else "")
    )


def _resolve(own: HostClass, files: Path, *, online: bool) -> list[File]:
    system = systems()[own.system]
    with tempfile.TemporaryDirectory(prefix="busbar-bundle-") as work:
        resolve = resolve_apt if system["facts"]["os_family"] == "Debian" else resolve_dnf
        try:
            return resolve(own, system, Path(work), files, online=online)
        except UsageError as exc:
            message = f"{hosts_text(own.hosts)}: {exc}"
            raise UsageError(message) from exc


def _archives(folder: Path, plan: Plan) -> dict[str, list[dict[str, str]]]:
    """Return the archives of each system with apt, which its hosts use through the bundle."""
    names = sorted({own.system for own in plan.classes if _family(own) == "Debian"})
    with tempfile.TemporaryDirectory(prefix="busbar-bundle-") as work:
        return {name: archives(name, systems()[name], Path(work), folder / FILES) for name in names}


def refuse_small_disk(folder: Path, needed: int, free: int | None = None) -> None:
    """Check that a download fits on the disk.

    Raises:
        UsageError: the disk is too small.
    """
    left = shutil.disk_usage(folder).free if free is None else free
    if left < needed + RESERVE:
        message = (
            f"{folder}: not enough disk space (found {size_text(left)}, expected {size_text(needed + RESERVE)})."
            " Free disk space, or use another folder"
        )
        raise UsageError(message)


def _wheels(folder: Path, plan: Plan, top: Path) -> Iterator[str]:
    """Download the Python packages of busbar and of roles, and yield their paths."""
    place = folder / WHEELS
    place.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    pip += ["--dest", str(place), "--find-links", str(place)]
    _run([*pip, "-r", str(top / "requirements.txt")], "Python packages of busbar")
    machine = platform.machine()
    names = [f"manylinux_2_{each}_{machine}" for each in GLIBC] + [
        f"manylinux{each}_{machine}" for each in (1, 2010, 2014)
    ]
    for name, system in plan.requirements:
        path = collection() / "roles/jupyterhub/files" / name
        version = ["--only-binary=:all:", "--implementation=cp", f"--python-version={systems()[system]['python']}"]
        _run([*pip, *version, *(f"--platform={each}" for each in names), "-r", str(path)], f"Python packages of {name}")
    found = sorted(path.name for path in place.iterdir() if path.suffix in {".whl", ".gz", ".zip"})
    links = "".join(f'<a href="{html.escape(name)}">{html.escape(name)}</a><br>\n' for name in found)
    write(place / "index.html", f"<!DOCTYPE html>\n{links}".encode())
    yield from (f"{WHEELS}/{name}" for name in [*found, "index.html"])


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        message = f"{what}: {' '.join(errors[:2]) or 'failed'}"
        raise UsageError(message)


def _images(folder: Path, plan: Plan) -> dict[str, str]:
    """Save the images of the inventory and the images for resolving packages; return the source of each file."""
    used = {own.system: systems()[own.system] for own in plan.classes}
    names = [*plan.images, *(image_reference(name, system) for name, system in used.items())]
    found = {}
    for name in names:
        path = folder / image_file(name)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            reference = name.removeprefix("docker://").replace("#", "/")
            if run("podman", "image", "exists", reference, check=False).returncode:
                run("podman", "pull", "--quiet", reference)
            part = path.with_name(f"{path.name}.part")
            part.unlink(missing_ok=True)
            run("podman", "save", "--quiet", "--format=oci-archive", f"--output={part}", reference)
            part.replace(path)
        found[image_file(name)] = name
    return found


def _own(folder: Path, top: Path) -> Iterator[str]:
    """Build the packages of busbar, copy its documentation, and yield the paths."""
    place = folder / OWN
    shutil.rmtree(place, ignore_errors=True)
    _run([str(top / "scripts/build"), "--repository", "https://invalid.invalid", str(place)], "packages of busbar")
    shutil.copytree(top / "docs", place / "docs", ignore=shutil.ignore_patterns("conf.py", "_build"))
    shutil.copy(top / "README.md", place)
    yield from sorted(str(path.relative_to(folder)) for path in place.rglob("*") if path.is_file())


def _licences(folder: Path, plan: Plan, paths: Mapping[str, str]) -> dict[str, str]:
    """Return the licence of each package by path; known licences of the existing bundle are reused."""
    found = {path: wheel_licence(folder / path) for path in paths if path.endswith(".whl")}
    try:
        earlier = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError):
        earlier = {}
    found |= {path: earlier[path]["licence"] for path in paths if earlier.get(path, {}).get("licence")}
    for suffix, command in LICENCES.items():
        names = [path for path in paths if path.endswith(suffix) and path not in found]
        name = next((own.system for own in plan.classes if (suffix == ".deb") == (_family(own) == "Debian")), "")
        if names and name:
            with tempfile.TemporaryDirectory(prefix="busbar-bundle-") as work:
                (Path(work) / "names").write_text("".join(f"{each}\n" for each in names), encoding="utf-8")
                script = SCRIPT.replace("LICENCE", command)
                output = run_in(systems()[name], name, script, Path(work), files=folder, online=False)
            found |= dict(line.split("\t", 1) for line in output.splitlines() if "\t" in line)
    licences = {path: "; ".join(sorted(set(text.strip("; ").split(";")))) for path, text in found.items()}
    # The copyright file of some packages is in another package of the same source.
    known = {path.rpartition("/")[0]: text for path, text in licences.items() if text}
    return {
        path: text or known.get(path.rpartition("/")[0]) or "see the copyright file of the package"
        for path, text in licences.items()
    }


def _family(own: HostClass) -> str:
    return str(systems()[own.system]["facts"]["os_family"])


def _remove_others(folder: Path, kept: Mapping[str, object]) -> int:
    """Remove files that the bundle no longer contains, and return their number."""
    names = (FILES, WHEELS, IMAGES)
    others = [path for name in names for path in (folder / name).rglob("*") if path.is_file()]
    others = [path for path in others if str(path.relative_to(folder)) not in kept]
    for path in others:
        path.unlink()
    return len(others)


def problems_of(
    folder: Path, manifest: Mapping[str, Any], max_age: int, site: Site | None, say: Callable[[str], None]
) -> list[str]:
    """Return the problems with a bundle whose signature was verified.

    Args:
        folder: the bundle.
        manifest: its manifest.
        max_age: days after which a bundle is outdated.
        site: the inventory whose hosts the bundle must serve, or None.
        say: prints a line of progress.
    """
    created = dt.datetime.fromisoformat(manifest["created"])
    age = (dt.datetime.now(dt.timezone.utc) - created).days
    found = list(damaged_files(folder, manifest))
    if age > max_age:
        found.append(
            f"is outdated (created {age} days ago, expected at most {max_age}). Update it: busbar bundle create"
        )
    if site:
        found += _unfit(folder, manifest, site, say)
    return found


def _unfit(folder: Path, manifest: Mapping[str, Any], site: Site, say: Callable[[str], None]) -> list[str]:
    """Return a line for each item that the hosts of an inventory need and the bundle lacks."""
    assigned = {host: own["system"] for own in manifest["plan"]["classes"] for host in own["hosts"]}
    hosts = [host for host in inventory_hosts(site.playbook("steps/bundle"), "all") if host != "localhost"]
    unknown = [host for host in hosts if host not in assigned]
    if unknown:
        return [f"was created for another inventory, which does not contain {hosts_text(unknown)}. {AGAIN}"]
    plan = make_plan(site, {host: assigned[host] for host in hosts})
    if plan.cluster != manifest["plan"]["cluster"]:
        found = manifest["plan"]["cluster"]
        return [f"was created for another cluster (found {found}, expected {plan.cluster}). {AGAIN}"]
    for own in plan.classes:
        say(f"resolving the packages of {hosts_text(own.hosts)} from the bundle")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        lacking = [*pool.map(partial(_lacking, folder=folder, manifest=manifest), plan.classes)]
    had = manifest["plan"]
    others = [url for url in plan.downloads if f"{FILES}/{bundle_path(url)}" not in manifest["files"]]
    others += [
        f"the Python packages of {name} for {system}"
        for name, system in plan.requirements
        if [name, system] not in had["requirements"]
    ]
    others += [f"the image {name}" for name in plan.images if name not in had["images"]]
    return [*filter(None, lacking), *(f"lacks {each}. {AGAIN}" for each in others)]


def _lacking(own: HostClass, folder: Path, manifest: Mapping[str, Any]) -> str:
    """Return a line about packages that the bundle lacks for a class of hosts, or an empty text."""
    try:
        needed = [f"{FILES}/{each.path}" for each in _resolve(own, folder / FILES, online=False)]
    except UsageError as exc:
        return f"lacks packages: {exc}. {AGAIN}"
    names = [Path(path).name for path in needed if path not in manifest["files"]]
    if not names:
        return ""
    return f"lacks {len(names)} files that {hosts_text(own.hosts)} need: {', '.join(names[:5])}. {AGAIN}"
