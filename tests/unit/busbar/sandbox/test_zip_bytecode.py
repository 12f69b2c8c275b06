"""Tests of cached bytecode of zip files: compiled once, never stale, and errors are ignored."""

from __future__ import annotations

import importlib.util
import zipfile
import zipimport
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[4] / "scripts/busbar/sandbox/files/busbar_zip_bytecode.py"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Enable the cache with a folder of its own; return the list of compiled files."""
    real: Any = vars(zipimport)["_compile_source"]
    sources: list[str] = []

    def count(pathname: str, source: bytes) -> object:
        sources.append(Path(pathname).name)
        return real(pathname, source)

    monkeypatch.setattr(zipimport, "_compile_source", count)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    spec = importlib.util.spec_from_file_location("busbar_zip_bytecode", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", str(tmp_path / "kept"))
    return sources


def value_of(folder: Path, number: int, **files: str) -> list[int]:
    """Zip the files, import each of them and return their VALUEs."""
    path = folder / f"payload{number}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.py", text)
    importer = zipimport.zipimporter(str(path))
    values = []
    for name in files:
        spec = importer.find_spec(name)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        values.append(module.VALUE)
    return values


def test_same_source_is_compiled_once_and_changed_source_again(tmp_path: Path, compiled: list[str]) -> None:
    assert value_of(tmp_path, 1, zipped_a="VALUE = 1") == [1]
    assert value_of(tmp_path, 2, zipped_a="VALUE = 1") == [1]
    assert compiled == ["zipped_a.py"]
    assert value_of(tmp_path, 3, zipped_a="VALUE = 2", zipped_b="VALUE = 1") == [2, 1]
    assert compiled == ["zipped_a.py", "zipped_a.py", "zipped_b.py"]
    assert (tmp_path / "kept").stat().st_mode & 0o077 == 0


def test_truncated_file_is_compiled_again(tmp_path: Path, compiled: list[str]) -> None:
    assert value_of(tmp_path, 1, zipped_a="VALUE = 1") == [1]
    (kept,) = (tmp_path / "kept").iterdir()
    for content in (b"", kept.read_bytes()[:20]):
        kept.write_bytes(content)
        assert value_of(tmp_path, 2, zipped_a="VALUE = 1") == [1]
    assert len(compiled) == 3


def test_unwritable_folder_is_ignored(tmp_path: Path, compiled: list[str]) -> None:
    (tmp_path / "kept").write_text("no folder")
    assert value_of(tmp_path, 1, zipped_a="VALUE = 1") == [1]
    before = len(compiled)
    assert value_of(tmp_path, 2, zipped_a="VALUE = 1") == [1]
    assert len(compiled) > before
