"""Which plugins are built, for whom, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.spank_store import (
    recipe_mark,
    release_of,
    slurm_version,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import problem_report
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.spank_plan import (
    declaration_problems,
    plugin_line,
    spank_plan,
)

SUM = "a" * 64
PLUGIN: dict[str, Any] = {
    "name": "pyxis",
    "version": "0.24.0",
    "source": "https://mirror.example.com/pyxis.tar.gz",
    "sha256": SUM,
    "arguments": ["runtime_path=/var/lib/pyxis"],
    "provides": ["--container-image"],
}
LIBRARIES = "/usr/local/lib/busbar/spank"
ID = "pyxis/0.24.0-slurm24.11.5-x86_64-debian13"


def info(
    slurm: str = "24.11.5", installed: dict[str, Any] | None = None, store: tuple[Any, ...] = ()
) -> dict[str, Any]:
    """What a host of Debian 13 answers."""
    platform = {"slurm": slurm, "architecture": "x86_64", "system": "debian13"}
    return {**platform, "installed": installed or {}, "store": list(store)}


def manifest(recipe: str | None = None) -> dict[str, str]:
    """What the store tells of the built plugin."""
    return {"id": ID, "sha256": "b" * 64, "recipe": recipe or recipe_mark(PLUGIN)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": ""}, "sha256 is 'not set'"),
        ({"sha256": "ABC"}, "sha256 is 'ABC'"),
        ({"name": "../x"}, "cannot name a file"),
        ({"version": ""}, "has no version"),
        ({"source": "pyxis.tar.gz"}, "no address and no absolute path"),
        ({"source": ""}, "needs one of source and library"),
        ({"library": "/usr/lib/x.so"}, "needs one of source and library"),
        ({"source": "", "library": "x.so"}, "no absolute path"),
        ({"arguments": ["two words"]}, "has a space or #"),
        ({"colour": "red"}, "unknown keys: colour"),
    ],
)
def test_bad_declarations(change: dict[str, Any], said: str) -> None:
    report = problem_report(declaration_problems([{**PLUGIN, **change}], ["ctl"]))
    assert said in report
    assert report.startswith("ctl: slurm_spank_plugins: ")
    assert "remedy: " in report


def test_a_sound_declaration_and_one_given_twice() -> None:
    assert declaration_problems([PLUGIN]) == []
    assert "twice" in problem_report(declaration_problems([PLUGIN, PLUGIN]))


def test_first_it_is_built_once_for_all() -> None:
    plan = spank_plan([PLUGIN], {"gpu1": info(), "gpu2": info()}, {"ctl": info()}, LIBRARIES)
    assert (plan["problems"], plan["build"], plan["send"]) == ([], {"ctl": [PLUGIN]}, [])
    assert plan["hosts"]["gpu1"] == plan["hosts"]["gpu2"]
    assert not plan["hosts"]["gpu1"][0]["sha256"]


def test_the_same_library_at_the_place_of_another_release_is_sent() -> None:
    old = {"pyxis": {"sha256": "b" * 64, "slurm": "23.11.7", "library": f"{LIBRARIES}/pyxis-0.24.0-slurm23.11.7.so"}}
    plan = spank_plan([PLUGIN], {"gpu1": info(installed=old)}, {"ctl": info(store=(manifest(),))}, LIBRARIES)
    assert plan["send"] == [ID]


def test_then_it_is_sent_to_those_that_lack_it() -> None:
    library = f"{LIBRARIES}/pyxis-0.24.0-slurm24.11.5.so"
    has = {"pyxis": {"sha256": "b" * 64, "slurm": "24.11.5", "library": library}}
    plan = spank_plan(
        [PLUGIN], {"gpu1": info(), "gpu2": info(installed=has)}, {"ctl": info(store=(manifest(),))}, LIBRARIES
    )
    assert (plan["build"], plan["send"], plan["stores"]) == ({}, [ID], {ID: "ctl"})
    assert plan["hosts"]["gpu1"][0]["line"] == f"required {library} runtime_path=/var/lib/pyxis"
    plan = spank_plan([PLUGIN], {"gpu2": info(installed=has)}, {"ctl": info(store=(manifest(),))}, LIBRARIES)
    assert (plan["build"], plan["send"]) == ({}, [])


def test_another_recipe_or_release_is_built_again() -> None:
    assert spank_plan([PLUGIN], {"gpu1": info()}, {"ctl": info(store=(manifest("other"),))}, LIBRARIES)["build"] == {
        "ctl": [PLUGIN]
    }
    new = info("25.05.1", store=(manifest(),))
    assert spank_plan([PLUGIN], {"gpu1": info("25.05.1")}, {"ctl": new}, LIBRARIES)["build"] == {"ctl": [PLUGIN]}


def test_a_host_with_another_slurm_than_the_build_host() -> None:
    has = {"pyxis": {"sha256": "b" * 64, "slurm": "24.11.5"}}
    plan = spank_plan([PLUGIN], {"gpu1": info("25.05.1", has)}, {"ctl": info(store=(manifest(),))}, LIBRARIES)
    report = problem_report(plan["problems"])
    for part in (
        "gpu1",
        "pyxis 0.24.0",
        "25.05.1",
        "24.11.5",
        "ctl",
        "is not loaded any more",
        "slurm_spank_build_host",
    ):
        assert part in report


ARM = {"architecture": "aarch64"}


def test_each_kind_of_host_has_one_that_builds_for_it() -> None:
    hosts = {"gpu1": info(), "gb1": info() | ARM, "gb2": info() | ARM}
    report = problem_report(spank_plan([PLUGIN], hosts, {"ctl": info()}, LIBRARIES)["problems"])
    assert "gb1,gb2" in report or ("gb1" in report and "gb2" in report)
    assert "needed for Slurm 24.11.5 (aarch64, debian13), but ctl, which builds, has 24.11.5 (x86_64" in report
    assert "add a host of this kind to slurm_spank_build_hosts, such as [gb1]" in report
    builders = {"ctl": info(), "gb1": info() | ARM}
    plan = spank_plan([PLUGIN], hosts, builders, LIBRARIES)
    assert (plan["problems"], plan["build"]) == ([], {"ctl": [PLUGIN], "gb1": [PLUGIN]})
    arm = manifest() | {"id": ID.replace("x86_64", "aarch64"), "sha256": "c" * 64}
    builders = {"ctl": info(store=(manifest(),)), "gb1": info(store=(arm,)) | ARM}
    plan = spank_plan([PLUGIN], hosts, builders, LIBRARIES)
    assert (plan["build"], plan["stores"]) == ({}, {ID: "ctl", arm["id"]: "gb1"})
    assert plan["send"] == sorted([ID, arm["id"]])
    assert [plan["hosts"][host][0]["sha256"][0] for host in hosts] == ["b", "c", "c"]


def test_of_two_hosts_of_one_kind_the_first_builds() -> None:
    plan = spank_plan([PLUGIN], {"gpu1": info()}, {"ctl": info(), "gpu1": info()}, LIBRARIES)
    assert plan["build"] == {"ctl": [PLUGIN]}


def test_a_host_without_slurm() -> None:
    assert "has no Slurm" in problem_report(
        spank_plan([PLUGIN], {"gpu1": info("")}, {"ctl": info()}, LIBRARIES)["problems"]
    )
    assert spank_plan([], {"gpu1": info("")}, {"ctl": info()}, LIBRARIES)["problems"] == []


def test_a_ready_library() -> None:
    ready = {"name": "x", "version": "1", "library": "/usr/lib/x.so", "required": False}
    plan = spank_plan([ready], {"gpu1": info()}, {"ctl": info("")}, LIBRARIES)
    assert (plan["problems"], plan["build"], plan["send"]) == ([], {}, [])
    assert plan["hosts"]["gpu1"][0]["line"] == plugin_line(ready, "/usr/lib/x.so") == "optional /usr/lib/x.so"


@pytest.mark.parametrize(
    ("text", "version", "release"),
    [
        ("slurm-wlm 24.11.5\n", "24.11.5", "24.11"),
        ("slurm 22.05.8", "22.05.8", "22.05"),
        ("slurm 25.5.0", "25.05.0", "25.05"),
    ],
)
def test_versions(text: str, version: str, release: str) -> None:
    assert (slurm_version(text), release_of(version)) == (version, release)


def test_no_version() -> None:
    assert not slurm_version("command not found")
