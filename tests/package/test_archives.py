"""What is inside the wheel and the sdist, and that the sdist makes the same wheel."""

from __future__ import annotations

import hashlib
import re
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from atc import __version__
from tests.support.package import ROOT, Archives, build, release_tool, run, tracked

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSIDE = {"deploy/seccomp.json": "atc/deploy/seccomp.json"}
FOLDERS = ("prompts", "protocols", "sandbox")


def wheel_name(name: str) -> str:
    """Where a file of the repository lies in the wheel."""
    return INSIDE.get(name) or (f"atc/{name}" if name.startswith(tuple(f"{each}/" for each in FOLDERS)) else name)


def test_the_wheel_holds_the_package_and_nothing_else(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    assert names == {wheel_name(name) for name in tracked("atc", *FOLDERS, *INSIDE)}
    assert "atc/py.typed" in names
    assert about == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_sdist_holds_what_the_wheel_is_made_of_and_no_tests(archives: Archives) -> None:
    with tarfile.open(archives.sdist) as sdist:
        members = sdist.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    assert tracked("atc", *FOLDERS, *INSIDE) <= names
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "Dockerfile"} <= names
    assert not [
        name for name in names if name.startswith(("tests", "benchmarks", "examples", "research", ".ci", ".venv"))
    ]
    assert all(member.isfile() for member in members)


def test_the_sdist_makes_the_same_wheel(archives: Archives, tmp_path: Path) -> None:
    with tarfile.open(archives.sdist) as sdist:
        if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on
            sdist.extraction_filter = tarfile.data_filter
        sdist.extractall(tmp_path / "source")
    (source,) = (tmp_path / "source").iterdir()
    again = build(tmp_path / "again", source)
    straight = tmp_path / "straight"
    run(release_tool("python"), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(straight), str(ROOT))
    hashes = {
        hashlib.sha256(wheel.read_bytes()).hexdigest()
        for wheel in (archives.wheel, again.wheel, *straight.glob("*.whl"))
    }
    assert len(hashes) == 1


def test_the_research_is_a_wheel_of_its_own(archives: Archives, tmp_path: Path) -> None:
    source = ROOT / "research"
    run(release_tool("python"), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(source))
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as wheel, zipfile.ZipFile(archives.wheel) as atc:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        points = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/entry_points.txt")]
        assert names == {name.removeprefix("research/") for name in tracked("research/atc_research")}
        assert not names & {*atc.namelist()}
    assert [re.findall(r"^\[.*\]$", text, re.MULTILINE) for text in points] == [
        ["[atc.learn]", "[atc.retrieval]", "[atc.strategies]"]
    ]


def test_what_the_index_will_show_is_true(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    assert metadata["Name"] == "atc-runtime"
    assert metadata["Version"] == PROJECT["version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    ran = run(release_tool("twine"), "check", "--strict", str(archives.wheel), str(archives.sdist))
    assert ran.count("PASSED") == 2
