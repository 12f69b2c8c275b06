"""Tests of the images of a sandbox, and of requests that are refused before podman is called."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import pytest
from busbar import cli
from busbar.errors import UsageError
from busbar.sandbox import host, image
from busbar.sandbox.state import DISTRIBUTIONS, IMAGES


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("ubuntu2405", "ubuntu2404"), ("rocky-9", "rocky9"), ("Debian13", "debian13")]
)
@pytest.mark.parametrize("by_option", [True, False])
def test_unknown_distribution_is_refused_with_a_suggestion(
    wrong: str, nearest: str, *, by_option: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBAR_DISTRIBUTION", "" if by_option else wrong)
    with pytest.raises(SystemExit) as ended:
        cli.main(["sandbox", "up", *(["--distribution", wrong] if by_option else [])])
    assert ended.value.code == 2
    assert f"'{wrong}' is unknown (nearest: {nearest}). Use alma9, debian12" in capsys.readouterr().err


def test_distribution_and_image_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["sandbox", "up", "--distribution", "debian13", "--image", "debian:13"])
    assert "--image: not allowed with argument --distribution" in capsys.readouterr().err


def test_too_little_space_is_refused_with_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "podman", lambda *_: SimpleNamespace(stdout="/var/lib/containers/storage\n"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 2**30))
    host.check_disk(0)
    host.check_disk(1)
    with pytest.raises(UsageError, match=r"storage: too little space for 4 more nodes \(found 3.0 GiB, expected "):
        host.check_disk(4)


def test_every_distribution_has_one_source() -> None:
    assert not DISTRIBUTIONS.keys() & IMAGES.keys()
    assert all(re.fullmatch(r"docker\.io/\w+/\w+:[\d.]+", reference) for reference in IMAGES.values())


def test_both_recipes_of_debian_install_the_same_packages() -> None:
    text = image.CONTAINERFILES["apt-get"].read_text(encoding="utf-8")
    assert " ".join(image.PACKAGES) in text
