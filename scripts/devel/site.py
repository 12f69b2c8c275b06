"""Builds the documentation's site; `scripts/docs` calls it."""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import subprocess
import sys
from pathlib import Path

from devel.pages import MENU, Page, link_problems, on_site, site_pages

TOP = Path(__file__).resolve().parents[2]
WORK = TOP / ".cache" / "docs"


def menu(pages: dict[str, Page]) -> str:
    """The tables of contents that make the menu of the site."""
    return "\n".join(
        toctree([pages[origin].name for origin in origins], f":caption: {caption}\n")
        for caption, origins in MENU.items()
    )


def toctree(names: list[str], more: str = "") -> str:
    """A hidden table of contents."""
    return "\n".join(["```{toctree}", ":hidden:", f"{more}", *(f"/{name}" for name in names), "```", ""])


def write_sources(folder: Path) -> None:
    """Write what Sphinx reads; a file that would be the same keeps its time, so that only the changed is built.

    Raises:
        ValueError: a file of docs/ is in no menu.
    """
    pages = site_pages(TOP)
    images: set[str] = set()
    wanted: dict[str, bytes] = {"conf.py": (TOP / "docs/conf.py").read_bytes()}
    for page in pages.values():
        text = on_site(page, pages, images)
        if page.name == "index":
            text += "\n" + menu(pages)
        elif page.name == "roles/index":
            text += "\n" + toctree(
                [each.name for each in pages.values() if each.name.startswith("roles/") and each != page]
            )
        wanted[f"{page.name}.md"] = text.encode()
    wanted |= {path: (TOP / path).read_bytes() for path in images}
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def build(target: Path) -> int:
    """Build the site into a folder; return the exit status."""
    source = WORK / "source"
    source.mkdir(parents=True, exist_ok=True)
    try:
        write_sources(source)
    except ValueError as error:
        sys.stderr.write(f"docs: {error}\n")
        return 2
    run = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-d", str(WORK / "doctrees")]
    status = subprocess.run([*run, str(source), str(target)], check=False).returncode
    shutil.rmtree(target / ".doctrees", ignore_errors=True)
    return 1 if status else 0


def check() -> int:
    """Tell of links that lead nowhere; return the exit status."""
    problems = link_problems(site_pages(TOP), TOP)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def serve(target: Path, port: int) -> None:
    """Serve a built site on this host until interrupted."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(target))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends)\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build, serve or check the documentation.")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, text in (("build", "write the site"), ("serve", "write the site and serve it on 127.0.0.1")):
        action = actions.add_parser(name, help=text)
        action.add_argument("folder", nargs="?", type=Path, default=TOP / "build" / "docs", help="default: build/docs")
        if name == "serve":
            action.add_argument("--port", type=int, default=8000)
    actions.add_parser("check", help="look whether all links lead somewhere")
    given = parser.parse_args()
    if given.action == "check":
        return check()
    status = build(given.folder)
    if status:
        return status
    if given.action == "serve":
        serve(given.folder, given.port)
    else:
        sys.stdout.write(f"docs: {given.folder}/index.html\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
