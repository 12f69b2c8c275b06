"""Tests of `busbar report sign` and `verify` with the ssh-keygen of this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.machine_parts import parts_of
from busbar.cli import main
from report_samples import small

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = """\
# busbar: Kernel=Linux 6.12
# busbar part: gpu1 machine , CZ2D3402FX, HPE ProLiant XD685
# busbar part: gpu1 gpu GPU-6a9f, 1654923010077, NVIDIA H100 80GB HBM3
# busbar part: gpu1 nic b8ce:f603:0012:3456, , mlx5_0
# busbar part: gpu2 machine , , QEMU Standard PC
# busbar part: gpu2 gpu GPU-77b0, [N/A], NVIDIA GeForce RTX 4090
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a report with outputs and the serial numbers of two GPUs, in a site's folder."""
    (tmp_path / "inventory").mkdir()
    found = json.loads(json.dumps(small()))
    found["tests"][0]["parts"] = parts_of(PARTS)
    place = tmp_path / "reports" / "20261120T080000Z"
    place.mkdir(parents=True)
    (place / "report.json").write_text(json.dumps(found), encoding="utf-8")
    for test in found["tests"]:
        (place / test["output"]).write_text(f"output of {test['name']}\n", encoding="utf-8")
    assert main(["report", "render", str(place)]) == 0
    return place


@pytest.fixture
def report(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command on the site's report and returns exit code and output."""

    def run(action: str, *words: object) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["report", action, "-i", str(folder.parents[1] / "inventory"), *map(str, words)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def new_key(path: Path) -> str:
    """Create a key; return its public line."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").strip()


def test_signed_statement_is_valid_and_contains_limits_and_parts(
    folder: Path, report: Callable[..., tuple[int, str]]
) -> None:
    code, said = report("sign")
    assert code == 0, said
    assert "numbers of 1 machine(s), 2 GPU(s), 1 NIC(s) on gpu[1-2]" in said
    assert "without serial numbers: gpu[3-4]" in said
    found = json.loads((folder / "statement.json").read_text())
    raw = json.loads((folder / "report.json").read_text())
    assert found["verdict"] == raw["verdict"]
    limits = {test["name"]: test["limits"] for test in found["tests"]}
    assert limits == {
        test["name"]: {key: test[key] for key in ("floor", "ceiling") if test[key] is not None} for test in raw["tests"]
    }
    assert any(limits.values())
    assert found["parts"]["gpu1"][1] == {
        "kind": "gpu",
        "id": "GPU-6a9f",
        "serial": "1654923010077",
        "name": "NVIDIA H100 80GB HBM3",
    }
    assert [part["kind"] for part in found["parts"]["gpu2"]] == ["gpu"]
    assert found["files"].keys() == {"report.json", *(test["output"] for test in raw["tests"])}
    key = folder.parents[1] / "secrets" / "report_key"
    assert key.stat().st_mode & 0o777 == 0o600
    # Pages may be rendered again; later files are reported as not covered by the signature.
    report("render")
    (folder / "note.txt").write_text("later")
    code, said = report("verify")
    assert code == 0, said
    assert f"{raw['verdict']}  alpha, " in said
    assert "not covered by the signature: note.txt" in said
    assert f"valid: busbar signed it at {found['signed']}" in said
    # Sign again with the same key.
    before = key.read_bytes()
    assert report("sign")[0] == 0
    assert key.read_bytes() == before


def test_ssh_keygen_verifies_the_statement_without_busbar(folder: Path, report: Callable[..., tuple[int, str]]) -> None:
    _code, said = report("sign")
    line = next(line for line in said.splitlines() if line.startswith("allowed_signers of the verifier")).split(
        ": ", 1
    )[1]
    signers = folder.parent / "signers"
    signers.write_text(f"{line}\n")
    command = ["ssh-keygen", "-Y", "verify", "-n", "busbar-report", "-I", "busbar", "-f", str(signers)]
    with (folder / "statement.json").open("rb") as file:
        done = subprocess.run([*command, "-s", str(folder / "statement.json.sig")], check=False, stdin=file)
    assert done.returncode == 0


def spoil_report(folder: Path) -> None:
    path = folder / "report.json"
    path.write_text(path.read_text().replace("INCONCLUSIVE", "PASS").replace("FAIL", "PASS") + " ")


def spoil_statement(folder: Path) -> None:
    path = folder / "statement.json"
    path.write_text(path.read_text().replace("1654923010077", "1654923010078"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_report, "refused: report.json was changed after it was signed"),
        (spoil_statement, "refused: statement.json has no valid signature of busbar (busbar-report): "),
        (
            lambda folder: (folder / "cluster.out").write_text("x"),
            "refused: cluster.out was changed after it was signed",
        ),
        (lambda folder: (folder / "cluster.out").unlink(), "refused: cluster.out is missing"),
        (
            lambda folder: (folder / "statement.json.sig").write_text("no"),
            "refused: statement.json.sig is not a signature of a trusted key",
        ),
    ],
)
def test_changed_files_are_refused(
    folder: Path, report: Callable[..., tuple[int, str]], spoil: Callable[[Path], object], words: str
) -> None:
    report("sign")
    assert report("verify")[0] == 0
    spoil(folder)
    code, said = report("verify")
    assert code == 1
    assert words in said
    assert "valid: " not in said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("", 0, "valid: noc@example.org signed it"),
        ('namespaces="busbar-report,git" ', 0, "valid: noc@example.org signed it"),
        ('valid-before="20200101" ', 1, "is not a signature of a trusted key"),
        ('valid-after="20990101" ', 1, "is not a signature of a trusted key"),
        ('namespaces="git" ', 1, "has no valid signature of noc@example.org"),
    ],
)
def test_rules_of_allowed_signers_are_applied(
    folder: Path, report: Callable[..., tuple[int, str]], options: str, code: int, words: str
) -> None:
    line = new_key(folder.parents[1] / "key")
    signers = folder.parents[1] / "signers"
    signers.write_text(f"noc@example.org {options}{line}\n")
    assert report("sign", "--key", folder.parents[1] / "key")[0] == 0
    assert not (folder.parents[1] / "secrets").exists()
    found = report("verify", "--allowed-signers", signers)
    assert (found[0], words in found[1]) == (code, True), found


def test_other_key_name_or_namespace_is_refused(folder: Path, report: Callable[..., tuple[int, str]]) -> None:
    site = folder.parents[1]
    report("sign")
    (site / "signers").write_text(f"noc@example.org {new_key(site / 'other')}\n")
    code, said = report("verify", "--allowed-signers", site / "signers")
    assert (code, "is not a signature of a trusted key" in said) == (1, True), said
    assert report("sign", "--key", site / "other")[0] == 0
    assert report("verify", "--allowed-signers", site / "signers", "--signer", "noc@example.org")[0] == 0
    code, said = report("verify", "--allowed-signers", site / "signers", "--signer", "ceo@example.org")
    assert (code, "has no valid signature of ceo@example.org" in said) == (1, True), said
    # The same key signed this for another namespace.
    text = (folder / "statement.json").read_bytes()
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(site / "other")]
    done = subprocess.run(command, check=True, input=text, capture_output=True)
    (folder / "statement.json.sig").write_bytes(done.stdout)
    code, said = report("verify", "--allowed-signers", site / "signers")
    assert (code, "has no valid signature of noc@example.org" in said) == (1, True), said


@pytest.mark.parametrize("content", ["[]", '{"busbar_statement": 2}', '{"busbar_statement": 1}', "no"])
def test_other_signed_content_is_not_a_statement(
    folder: Path, report: Callable[..., tuple[int, str]], content: str
) -> None:
    report("sign")
    (folder / "statement.json").write_text(content)
    key = folder.parents[1] / "secrets" / "report_key"
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "busbar-report", "-f", str(key)]
    done = subprocess.run(command, check=True, input=content.encode(), capture_output=True)
    (folder / "statement.json.sig").write_bytes(done.stdout)
    code, said = report("verify")
    assert (code, said.startswith("refused: statement.json: ")) == (1, True), said


def test_path_outside_the_report_is_refused(folder: Path, report: Callable[..., tuple[int, str]]) -> None:
    report("sign")
    (folder / "cluster.out").rename(folder.parent / "cluster.out")
    (folder / "cluster.out").symlink_to(folder.parent / "cluster.out")
    code, said = report("verify")
    assert (code, "refused: cluster.out does not belong to the report" in said) == (1, True), said


def test_files_that_cannot_be_signed_or_verified_are_reported(
    folder: Path, report: Callable[..., tuple[int, str]]
) -> None:
    site = folder.parents[1]
    code, said = report("verify")
    assert (code, "not signed (" in said) == (2, True), said
    code, said = report("sign", "--key", site / "none")
    assert (code, f"--key {site / 'none'}: file not found: run ssh-keygen" in said) == (2, True), said
    (site / "bad").write_text("no key\n")
    (site / "bad").chmod(0o600)
    code, said = report("sign", "--key", site / "bad")
    assert (code, f"not signed with {site / 'bad'}: " in said) == (2, True), said
    assert not (folder / "statement.json").exists()
    new_key(site / "key")
    assert report("sign", "--key", site / "key")[0] == 0
    code, said = report("verify")
    assert (code, "the site's key does not exist" in said) == (2, True), said
    code, said = report("verify", "--allowed-signers", site / "none")
    assert (code, f"{site / 'none'}: file not found" in said) == (2, True), said
    (folder / "cluster.out").unlink()
    code, said = report("sign")
    assert (code, "report.json refers to outputs that are missing in" in said) == (2, True), said
    (site / "secrets").mkdir(exist_ok=True)
    (site / "secrets" / "report_key").write_text("nothing\n")
    (site / "secrets" / "report_key").chmod(0o600)
    code, said = report("verify")
    assert (code, "report_key" in said) == (2, True), said


def test_the_key_of_another_user_is_refused(
    folder: Path, report: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    key, search = folder.parents[1] / "secrets" / "report_key", Path.exists

    # Root may search every folder.
    def refused(path: Path) -> bool:
        if path == key:
            raise PermissionError(13, "Permission denied", str(path))
        return search(path)

    monkeypatch.setattr(Path, "exists", refused)
    code, said = report("sign")
    assert (code, f"{key}: Permission denied; --key FILE signs with another key" in said) == (2, True), said
