"""Builds the documentation site; `scripts/docs` calls it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devel.docs_pages import MENU, Page, on_site, site_pages

TOP = Path(__file__).resolve().parents[2]
WORK = TOP / ".cache" / "docs"


def menu(pages: dict[str, Page]) -> str:
    """Return the tables of contents of the site's menu."""
    return "\n".join(
        toctree([pages[origin].name for origin in origins], f":caption: {caption}\n")
        for caption, origins in MENU.items()
    )


def toctree(names: list[str], more: str = "") -> str:
    """Return a hidden table of contents."""
    return "\n".join(["```{toctree}", ":hidden:", f"{more}", *(f"/{name}" for name in names), "```", ""])


def write_sources(folder: Path) -> None:
    """Write Sphinx's sources; unchanged files keep their timestamp, so that Sphinx rebuilds only changed pages.

    Raises:
        ValueError: a file in docs/ is not in the menu, or the target of a link is missing.
    """
    pages = site_pages(TOP)
    images: set[str] = set()
    wanted: dict[str, bytes] = {"conf.py": (TOP / "docs/conf.py").read_bytes()}
    for page in pages.values():
        text = on_site(page, pages, TOP, images)
        if page.name == "index":
            text += "\n" + menu(pages)
        elif page.name == "roles/index":
            text += "\n" + toctree(
                [each.name for each in pages.values() if each.name.startswith("roles/") and each != page]
            )
        wanted[f"{page.name}.md"] = text.encode()
    wanted |= {path: (TOP / path).read_bytes() for path in images} | plugin_pages()
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def write_markdown(pages: dict[str, Page], source: Path, target: Path) -> None:
    """Write the pages to the site as Markdown, and llms.txt, which lists them under the headings of the menu."""
    roles = [origin for origin in pages if origin.startswith("roles/") and origin.endswith("README.md")]
    lines = ["# busbar", "", "> " + pages["README.md"].text.split("\n\n")[1].partition(".")[0].replace("\n", " "), ""]
    for heading, origins in {"Overview": ["README.md"], **MENU, "Roles": roles}.items():
        lines += [f"## {heading}", ""]
        for page in (pages[origin] for origin in origins if origin != "plugins"):
            path = target / f"{page.name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / f"{page.name}.md", path)
            lines.append(f"- [{page.text.partition(chr(10))[0].lstrip('# ')}]({page.name}.md)")
        lines.append("")
    (target / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def plugin_pages() -> dict[str, bytes]:
    """Return the plugin pages that antsibull-docs generates; the READMEs document the roles."""
    with tempfile.TemporaryDirectory() as name:
        collection, pages = Path(name, "ansible_collections/busbar/cluster"), Path(name, "pages")
        for folder in ("plugins", "meta"):
            shutil.copytree(TOP / ".collections/ansible_collections/busbar/cluster" / folder, collection / folder)
        shutil.copy(TOP / ".collections/ansible_collections/busbar/cluster/galaxy.yml", collection)
        pages.mkdir()
        options = ["--use-current", "--fail-on-error", "--no-indexes", "--squash-hierarchy"]
        options += ["--output-format", "simplified-rst", "--dest-dir", str(pages)]
        subprocess.run(
            [str(Path(sys.executable).parent / "antsibull-docs"), "collection", *options, "busbar.cluster"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": name},
        )
        return {f"plugins/{path.name}": path.read_bytes() for path in pages.glob("*_*.rst")}


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
    write_markdown(site_pages(TOP), source, target)
    return 1 if status else 0


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/docs build", description="Build the documentation.")
    parser.add_argument("folder", nargs="?", type=Path, default=TOP / "build" / "docs", help="default: build/docs")
    given = parser.parse_args()
    status = build(given.folder)
    if not status:
        sys.stdout.write(f"docs: {given.folder}/index.html\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
