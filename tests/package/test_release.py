"""What stops a release: versions that differ, a changelog without a day, a tree that is not committed or not tagged."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from atc.catalogue.index import minilm
from atc.models.catalogue import CATALOGUE, ModelFile
from deploy import release_check
from deploy.release_check import NotYet
from tests.support.package import ROOT, Installed, release_tool

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def tree(folder: Path, *, said: str = "0.2.0", top: str = "0.2.0 (2026-12-01)") -> Path:
    (folder / "atc").mkdir()
    (folder / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (folder / "atc" / "__init__.py").write_text(f'"""A package."""\n\n__version__ = "{said}"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {top}\n\n- A gain.\n\n## 0.1.0 (2026-01-01)\n")
    return folder


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def test_one_version_everywhere() -> None:
    version = release_check.version_of(ROOT)
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version  # type: ignore[index]


def test_versions_that_differ_are_no_release(tmp_path: Path) -> None:
    with pytest.raises(NotYet, match=r"pyproject.toml has version 0.2.0, atc/__init__.py 0.1.9"):
        release_check.version_of(tree(tmp_path, said="0.1.9"))


@pytest.mark.parametrize("top", ["0.2.0 (unreleased)", "0.2.0", "0.1.0 (2026-12-01)", "0.2.01 (2026-12-01)"])
def test_a_changelog_of_another_version_or_without_a_day_is_no_release(top: str, tmp_path: Path) -> None:
    with pytest.raises(NotYet, match=re.escape(f"is `{top}`: name it `0.2.0 (YYYY-MM-DD)`")):
        release_check.check_changelog(tree(tmp_path, top=top), "0.2.0")


def test_a_tree_that_is_not_committed_or_not_tagged_is_no_release(tmp_path: Path) -> None:
    root = tree(tmp_path)
    git(root, "init", "-q")
    with pytest.raises(NotYet, match="files are not committed"):
        release_check.check_tree(root, "0.2.0")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
    with pytest.raises(NotYet, match=r"has no tag v0\.2\.0"):
        release_check.check_tree(root, "0.2.0")
    git(root, "tag", "v0.2.0")
    release_check.check_tree(root, "0.2.0")
    release_check.check_changelog(root, release_check.version_of(root))


def with_example(folder: Path, name: str, text: str, page: str) -> Path:
    (folder / "docs").mkdir()
    (folder / "examples").mkdir()
    (folder / "examples" / name).write_text(text)
    (folder / "docs" / "index.md").write_text(page)
    (folder / "README.md").write_text("Nothing.\n")
    return folder


def test_examples_that_compile_and_stand_on_a_page_hold(tmp_path: Path) -> None:
    assert release_check.check_examples(with_example(tmp_path, "one.py", "print(1)\n", "See `examples/one.py`.")) == 1


@pytest.mark.parametrize(
    ("name", "text", "page", "why"),
    [
        ("one.py", "print(1", "examples/one.py", "examples/one.py is broken"),
        ("one.ipynb", "{}", "examples/one.ipynb", "examples/one.ipynb is broken"),
        ("one.py", "print(1)", "examples/one.pyc, examples/one.py.txt", "no page names examples/one.py"),
        ("one.txt", "", "", "there are no examples"),
    ],
)
def test_examples_that_are_broken_or_on_no_page_are_no_release(
    name: str, text: str, page: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(NotYet, match=re.escape(why)):
        release_check.check_examples(with_example(tmp_path, name, text, page))


def test_a_site_that_is_built_holds(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("docs:\n\t@mkdir -p build/site && touch build/site/index.html\n")
    release_check.check_site(tmp_path)


def test_a_site_that_does_not_build_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("docs:\n\t@echo 'a dead link'; exit 1\n")
    with pytest.raises(NotYet, match="failed"):
        release_check.check_site(tmp_path)


def test_a_folder_of_documents_and_an_older_site_are_no_site(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("other:\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "build" / "site").mkdir(parents=True)
    (tmp_path / "build" / "site" / "index.html").touch()
    with pytest.raises(NotYet, match=r"built no build/site/index\.html"):
        release_check.check_site(tmp_path)


@pytest.mark.parametrize(("code", "holds"), [(0, True), (1, False)])
def test_what_the_crawler_of_links_says_holds(code: int, holds: bool, tmp_path: Path) -> None:
    (tmp_path / "build" / "site").mkdir(parents=True)
    (tmp_path / "build" / "site" / "index.html").touch()
    (crawler := tmp_path / ".venv-docs" / "bin" / "linkchecker").parent.mkdir(parents=True)
    crawler.write_text(f'#!/bin/sh\nfor last; do :; done\ntest -f "$last" && echo "a dead link" && exit {code}\n')
    crawler.chmod(0o755)
    with nullcontext() if holds else pytest.raises(NotYet, match="a dead link"):
        release_check.check_links(tmp_path)


def test_a_site_without_a_crawler_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "build" / "site").mkdir(parents=True)
    with pytest.raises(NotYet, match="linkchecker"):
        release_check.check_links(tmp_path)


def test_hashes_are_written_as_sha256sum_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    release_check.write_hashes([tmp_path / "a.whl"], tmp_path / "SHA256SUMS")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "a.whl").write_bytes(b"b")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def test_every_file_that_the_product_downloads_is_pinned() -> None:
    files = [*CATALOGUE.values(), *(each for each in vars(minilm).values() if isinstance(each, ModelFile))]
    assert len(files) >= 5
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), file.name
        assert file.size > 0


def test_all_is_everything_to_use_and_nothing_for_development() -> None:
    development = {"bench", "dev", "fuzz"} | {name for name in EXTRAS if name.startswith("peer-")}

    def within(name: str) -> set[str]:
        inner = [re.fullmatch(r"atc-runtime\[(.*)\]", each) for each in EXTRAS[name]]
        named = {part for match in inner if match for part in match[1].split(",")}
        return {name} | {deep for part in named for deep in within(part)}

    assert within("all") == set(EXTRAS) - development


def test_the_table_of_extras_is_whole() -> None:
    text = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == {
        name for name in EXTRAS if not name.startswith(("peer-", "dev", "fuzz", "bench"))
    }


@pytest.mark.slow
def test_the_bill_of_materials_lists_what_is_installed(installed: Installed, tmp_path: Path) -> None:
    release_tool("cyclonedx-py")
    target = tmp_path / "sbom.json"
    ran = subprocess.run(
        [release_tool("python"), "-c", f"from deploy.release_check import *; print(bill_of_materials(ROOT, "
         f"Path({installed.python!r}), Path({str(target)!r})))"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    document = json.loads(target.read_text())
    names = {each["name"].lower() for each in document["components"]}
    assert {"anyio", "httpx", "mcp", "pydantic", "docker", "restrictedpython"} <= names
    assert int(ran.stdout) >= 40
    about, version = document["metadata"]["component"], release_check.version_of(ROOT)
    assert (document["bomFormat"], about["name"], about["version"]) == ("CycloneDX", "atc-runtime", version)
