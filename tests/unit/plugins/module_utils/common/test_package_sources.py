"""Tests of apt and dnf repository files, and of the components of the distribution's repositories."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_sources import (
    Source,
    apt_preferences,
    apt_source,
    configures_url,
    dnf_repository,
    source_problems,
)
from ansible_collections.busbar.cluster.plugins.modules.package_repository import (
    END,
    SEPARATOR,
    component_sources,
    parse_targets,
)

URL = "http://mirror.example.org/cuda/"
SOURCE: Source = {"name": "cuda", "url": URL, "suite": "./", "components": [], "priority": 600}
OWN = "/etc/apt/sources.list.d/busbar-components.sources"
FREE = ["contrib", "non-free"]


def target(*values: str) -> str:
    return SEPARATOR.join(values) + END + "\n"


def test_a_flat_repository_has_no_components() -> None:
    text = apt_source(SOURCE, "/etc/apt/keyrings/k.asc", "# ours")
    assert text == f"# ours\nTypes: deb\nURIs: {URL}\nSuites: ./\nSigned-By: /etc/apt/keyrings/k.asc\n"
    suite: Source = {**SOURCE, "suite": "stable", "components": ["main", "extra"]}
    assert "Suites: stable\nComponents: main extra\n" in apt_source(suite, "k", "# ours")


def test_priority_is_set_for_the_origin_before_the_pins() -> None:
    pins = apt_preferences([{"packages": "a* b", "version": "5*", "priority": 1001}], "# ours", SOURCE)
    assert 'Pin: origin "mirror.example.org"\nPin-Priority: 600\n' in pins
    assert "\n\nPackage: a* b\nPin: version 5*\nPin-Priority: 1001\n" in pins
    assert apt_preferences([], "# ours", {**SOURCE, "priority": 500}) == ""


def test_dnf_verifies_what_is_signed() -> None:
    text = dnf_repository(SOURCE, "/etc/pki/k", "# ours", {"packages": True, "metadata": False})
    assert text.startswith("# ours\n[busbar-cuda]\n")
    for line in (f"baseurl={URL}", "gpgcheck=1", "repo_gpgcheck=0", "gpgkey=file:///etc/pki/k", "priority=90"):
        assert f"{line}\n" in text
    text = dnf_repository({**SOURCE, "priority": 500}, "k", "#", {"packages": False, "metadata": True})
    assert "gpgcheck=0\nrepo_gpgcheck=1\n" in text
    assert "priority=99\n" in text


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"name": "../x"}, "name"),
        ({"url": "mirror/cuda"}, "url"),
        ({"url": "http://a b/"}, "url"),
        ({"components": ["main"]}, "components"),
        ({"suite": "stable"}, "suite"),
        ({}, None),
    ],
)
def test_invalid_sources_are_refused(change: dict[str, object], option: str | None) -> None:
    assert [found[0] for found in source_problems({**SOURCE, **change})] == ([option] if option else [])  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"deb [signed-by=/usr/share/keyrings/k.gpg] {URL} /\n", True),
        (f"Types: deb\nURIs: {URL.rstrip('/')}\nSuites: /\n", True),
        (f"# deb {URL} /\n", False),
        (f"deb {URL}other/ /\n", False),
    ],
)
def test_other_source_with_the_same_url_is_detected(text: str, *, named: bool) -> None:
    assert configures_url(text, URL) is named


SYSTEM = (
    target("/etc/apt/sources.list:1", "http://m/debian/", "trixie", "main", "Debian", "$(SIGNED_BY)")
    + target("/etc/apt/sources.list:1", "http://m/debian/", "trixie", "contrib", "Debian", "$(SIGNED_BY)")
    + target("/etc/apt/sources.list.d/d.sources:3", "http://s/", "trixie-security", "main", "Debian", "/usr/k.gpg")
    + target("/etc/apt/sources.list.d/x.list:1", "http://other/", "trixie", "main", "Somebody", "/usr/x.gpg")
)


def test_components_use_the_mirrors_of_the_system() -> None:
    text = component_sources(parse_targets(SYSTEM), FREE, OWN, "# ours")
    assert "URIs: http://m/debian/\nSuites: trixie\nComponents: non-free\n\n" in text
    assert "URIs: http://s/\nSuites: trixie-security\nComponents: contrib non-free\nSigned-By: /usr/k.gpg\n" in text
    assert "other" not in text


def test_components_of_the_own_file_are_ignored() -> None:
    ours = target(f"{OWN}:4", "http://m/debian/", "trixie", "non-free", "Debian", "$(SIGNED_BY)")
    assert component_sources(parse_targets(SYSTEM + ours), FREE, OWN, "#") == component_sources(
        parse_targets(SYSTEM), FREE, OWN, "#"
    )


def test_nothing_is_written_if_no_component_is_missing() -> None:
    assert component_sources(parse_targets(SYSTEM), ["main"], OWN, "#") == ""


def test_embedded_key_is_kept_complete() -> None:
    key = "\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n.\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"
    targets = parse_targets(target("/a.sources:1", "http://m/", "trixie", "main", "Debian", key))
    text = component_sources(targets, FREE, OWN, "#")
    assert "Signed-By: -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END" in text
