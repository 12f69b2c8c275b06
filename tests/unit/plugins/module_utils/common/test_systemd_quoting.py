"""Tests of quoting commands in systemd units."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.systemd import exec_start


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["/bin/a", "--b=c"], "/bin/a \\\n  --b=c"),
        (["a", "x y"], 'a \\\n  "x y"'),
        (["100%", "$HOME"], "100%% \\\n  $$HOME"),
        (['say "hi"'], '"say \\"hi\\""'),
        (["a\\.b"], '"a\\\\.b"'),
        (["a", ""], 'a \\\n  ""'),
    ],
)
def test_arguments_are_quoted_for_systemd(words: list[str], text: str) -> None:
    assert exec_start(words) == text


def test_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        exec_start(["a\nb"])
