"""Tests of the documentation site: links have targets, and generated pages are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    shipped_profile,
)
from devel.alert_page import shown
from devel.docs_pages import MENU, Page, on_site, site_pages
from devel.docs_site import write_markdown
from markdown_blocks import blocks

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module", name="pages")
def _pages() -> dict[str, Page]:
    return site_pages(TOP)


def test_every_link_has_a_target(pages: dict[str, Page]) -> None:
    for page in pages.values():
        assert on_site(page, pages, TOP, set())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[x](gone.md)", "docs/a.md: gone.md: docs/gone.md does not exist"),
        ("[x](../../etc/passwd)", "../etc/passwd does not exist"),
        ("![x](picture.svg)", "docs/picture.svg does not exist"),
        ("a [text over\ntwo lines](gone.md)", "docs/gone.md does not exist"),
    ],
)
def test_broken_link_is_reported(pages: dict[str, Page], text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        on_site(Page("a", "docs/a.md", text), pages, TOP, set())


def test_links_are_rewritten_for_the_site(pages: dict[str, Page]) -> None:
    images: set[str] = set()
    text = "[a](../roles/slurm/README.md#options) [b](../plugins/module_utils) ![c](cluster.svg) [d](https://x.org/)"
    page = Page("a", "docs/a.md", text)
    said = on_site(page, pages, TOP, images)
    assert said == "[a](roles/slurm.md#options) b (`plugins/module_utils`) ![c](docs/cluster.svg) [d](https://x.org/)"
    assert images == {"docs/cluster.svg"}
    nested = Page("roles/x", "roles/x/README.md", "[a](../slurm/README.md) [b](../../docs/gpus.md)")
    assert on_site(nested, pages, TOP, images) == "[a](slurm.md) [b](../gpus.md)"


def test_every_role_has_a_page_with_a_heading(pages: dict[str, Page]) -> None:
    for path in (TOP / "roles").iterdir():
        assert pages[f"roles/{path.name}/README.md"].text.startswith(f"# {path.name}\n")
        assert f"(../roles/{path.name}/README.md)" in pages["roles"].text


def test_every_alert_is_listed_with_its_commands(pages: dict[str, Page]) -> None:
    text = pages["roles/prometheus/files/rules"].text
    commands = "\n".join(block.text for block in blocks(text))
    count = 0
    for path in (TOP / "roles/prometheus/files/rules").glob("alerts_*.yml"):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in (rule for rule in group["rules"] if "alert" in rule):
                count += 1
                assert f"\n### {rule['alert']}\n" in text
                assert all(line in commands for line in shown(rule["annotations"]["runbook"]).strip().splitlines())
    assert f"\n{count} alerts," in pages["docs/monitoring.md"].text
    assert "{{" not in text


def floors_of(said: Any) -> list[float]:  # noqa: ANN401 - YAML has no fixed type
    """Return all floors of nested data."""
    if isinstance(said, list):
        return [floor for each in said for floor in floors_of(each)]
    if not isinstance(said, dict):
        return []
    own = [said["floor_gbs"]] if "floor_gbs" in said else []
    return own + [floor for each in said.values() for floor in floors_of(each)]


def test_every_profile_is_listed(pages: dict[str, Page]) -> None:
    text = pages["plugins/plugin_utils/engine/catalogue/hardware"].text
    for name in profile_names():
        assert f"\n## {name}\n" in text
        said = shipped_profile(name)["busbw"]
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert [floor for floor in floors_of(said) if f"| {floor:g} |" not in section] == []


def test_each_page_is_in_the_menu_once() -> None:
    listed = [origin for origins in MENU.values() for origin in origins]
    assert len(listed) == len({*listed})


def test_llms_txt_lists_each_page_as_markdown(pages: dict[str, Page], tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "site"
    for page in pages.values():
        path = source / f"{page.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"copy of {page.name}")
    write_markdown(pages, source, target)
    text = (target / "llms.txt").read_text()
    assert text.startswith("# busbar\n\n> busbar proves that a GPU cluster is as fast as its hardware should be")
    linked = re.findall(r"^- \[(.+)\]\((.+)\.md\)$", text, re.MULTILINE)
    assert {name for _, name in linked} == {page.name for page in pages.values()} - {"plugins/index"}
    assert ("Validation", "validation") in linked
    for _, name in linked:
        assert (target / f"{name}.md").read_text() == f"copy of {name}"
