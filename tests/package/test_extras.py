"""A message that an extra is missing names a command that works where ATC was installed."""

from __future__ import annotations

import importlib.metadata
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from atc._host import extras
from atc._host.extras import install_command, requirement

ROOT = Path(extras.__file__).parents[2]


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    caches = (extras._origin, extras._present)
    for read in caches:
        read.cache_clear()
    yield
    for read in caches:
        read.cache_clear()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ('{"dir_info": {"editable": true}, "url": "file:///home/my%20code/atc"}', ["-e", "/home/my code/atc[ui,mcp]"]),
        ('{"dir_info": {}, "url": "file:///home/atc"}', ["atc-runtime[ui,mcp]"]),
        ('{"archive_info": {}, "url": "file:///dist/atc_runtime-0.2.0-py3-none-any.whl"}', ["atc-runtime[ui,mcp]"]),
        (None, ["atc-runtime[ui,mcp]"]),
        ("no JSON", ["atc-runtime[ui,mcp]"]),
    ],
)
def test_the_command_is_that_of_the_installation(
    record: str | None, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: record))
    assert shlex.split(install_command("ui", "mcp")) == ["pip", "install", *words]


def test_sources_that_were_not_installed_are_named_by_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert shlex.split(install_command("ui")) == ["pip", "install", "-e", f"{ROOT}[ui]"]


@pytest.mark.parametrize(
    ("file", "command"),
    [("uv-receipt.toml", ["uv", "tool", "install"]), ("pipx_metadata.json", ["pipx", "install", "--force"])],
)
def test_a_tool_of_uv_or_pipx_is_installed_anew_with_the_extras_that_it_had(
    file: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).touch()
    monkeypatch.setattr("atc._host.extras.sys.prefix", str(tmp_path))
    monkeypatch.setattr(extras, "_origin", lambda: {"archive_info": {}, "url": f"file://{WHEEL}"})
    monkeypatch.setattr(extras, "_present", lambda: frozenset({"mcp"}))
    assert shlex.split(install_command("ui")) == [*command, f"{WHEEL}[mcp,ui]"]


WHEEL = "/dist/atc_runtime-0.2.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("record", "again"),
    [
        (f'{{"archive_info": {{}}, "url": "file://{WHEEL}"}}', f"{WHEEL}[atlas,mcp]"),
        ('{"dir_info": {}, "url": "file:///home/my%20code/atc"}', "/home/my code/atc[atlas,mcp]"),
        ('{"dir_info": {"editable": true}, "url": "file:///home/atc"}', "/home/atc[atlas,mcp]"),
        ('{"archive_info": {}, "url": "https://h/atc.whl"}', "atc-runtime[atlas,mcp] @ https://h/atc.whl"),
        (
            '{"vcs_info": {"vcs": "git", "commit_id": "abc"}, "url": "https://h/atc", "subdirectory": "py"}',
            "atc-runtime[atlas,mcp] @ git+https://h/atc@abc#subdirectory=py",
        ),
        (None, "atc-runtime[atlas,mcp]"),
        ("no JSON", "atc-runtime[atlas,mcp]"),
    ],
)
def test_the_installation_can_be_had_again_elsewhere_with_its_extras(
    record: str | None, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def distribution(name: str) -> object:
        if name not in ("atc-runtime", "pint"):
            raise importlib.metadata.PackageNotFoundError(name)
        return SimpleNamespace(read_text=lambda file: record)

    needs = ["rich>=13", 'pint>=0.24; extra == "atlas"', "ray>=2.60; python_version < '3.15' and extra == 'ray'"]
    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: needs)
    assert requirement("mcp") == again
