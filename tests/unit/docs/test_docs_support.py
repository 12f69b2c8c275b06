"""The table of docs/support.md matches docs/support.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from script_modules import script_module

TOP = Path(__file__).resolve().parents[3]
SCRIPT = TOP / "scripts/support_page"


@pytest.fixture(scope="module")
def program() -> Any:  # noqa: ANN401 - a script without suffix has no types
    """Return the script as a module."""
    return script_module(SCRIPT)


def test_a_stale_page_is_reported(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    page = tmp_path / "support.md"
    page.write_text(program.PAGE.read_text().replace("| Grafana |", "| Grafana 12 |"))
    monkeypatch.setattr(program, "PAGE", page)
    assert program.main(["--check"]) == 1
    assert program.main([]) == 0
    assert program.main(["--check"]) == 0


def test_row_links_to_its_details(program: Any) -> None:  # noqa: ANN401
    entry = {"what": "x", "tested": "a | b", "details": ["tests/sandbox/test_site.py", "docs/scale.md#awx"]}
    links = "[test_site](../tests/sandbox/test_site.py), [scale](scale.md#awx)"
    assert program.row(entry) == f"| x | a \\| b |  |  | {links} |"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"what": "x"}, ("x", "tested")),
        ({"what": "x", "testd": "y"}, ("x", "testd")),
        ({"what": "x", "tested": "y" * 400}, ("x", "300")),
        ({"what": "x", "tested": "y", "details": ["tests/gone.py"]}, ("tests/gone.py", "does not exist")),
    ],
)
def test_an_invalid_row_is_refused(program: Any, entry: dict[str, Any], words: tuple[str, ...]) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"docs/support\.yml") as problem:
        program.row(entry)
    assert [word for word in words if word not in str(problem.value)] == []
