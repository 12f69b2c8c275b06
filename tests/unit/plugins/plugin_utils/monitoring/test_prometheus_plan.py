"""Tests of durations and sizes, and of rejected options of Prometheus."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.prometheus_plan import (
    duration_seconds,
    prometheus_problems,
    size_bytes,
)


def told(**own: Any) -> list[str]:  # noqa: ANN401 - any option
    return [f"{each['key']}: {each['problem']}" for each in prometheus_problems(own, "ctl")]


@pytest.mark.parametrize("text", ["", "15", "3 months", "1.5d", "-1d", "30D", "5s1h", "d"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        duration_seconds(text)


@pytest.mark.parametrize(("text", "size"), [("1B", 1), ("512MB", 512 << 20), ("200GB", 200 << 30), ("1TB", 1 << 40)])
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "200", "200G", "200 GB", "200gb", "1.5TB", "-1GB", "200GiB"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"retention_time": "3 months"}, "prometheus_retention_time: '3 months' is not a duration"),
        ({"retention_time": "0s"}, "prometheus_retention_time: '0s' is not greater"),
        ({"retention_size": "200G"}, "prometheus_retention_size: '200G' is not a size"),
        ({"retention_size": "0B"}, "prometheus_retention_size: '0B' would keep no data"),
        ({"scrape_interval": "fast"}, "prometheus_scrape_interval: 'fast' is not a duration"),
        ({"rules": {"Bad Name": []}}, "prometheus_rules: 'Bad Name' is not a file name"),
        ({"rules": {"site": {"groups": []}}}, "prometheus_rules.site: is not a list of rule groups"),
        ({"remote_write": [{"url": "metrics.site"}]}, "prometheus_remote_write[0]: url 'metrics.site' is not an http"),
        ({"remote_write": [{"url": "https://prom.example.com/w"}]}, "is a placeholder"),
        ({"remote_write": [{"url": "https://m.site/w", "sigv4": {"secret_key": "x"}}]}, "sigv4.secret_key"),
    ],
)
def test_refused(own: dict[str, Any], words: str) -> None:
    (line,) = told(**own)
    assert words in line


def test_valid_options_are_accepted() -> None:
    assert told(retention_time="", retention_size="1TB", rules={"site": [{"name": "g", "rules": []}]}) == []
