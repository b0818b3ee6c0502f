"""The site (`make docs`): its navigation has every page, and what is made of code is what the code says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.reference_pages import FOLDER, PAGES
from deploy.release_check import check_links, check_site

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / ".venv-docs" / "bin"


def test_the_navigation_has_every_page_once() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    shown = list(_pages(navigation))
    assert sorted(shown) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_says_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "write it: python -m deploy.reference_pages --write"


def test_the_reference_of_python_has_every_public_name() -> None:
    import atc

    shown = re.findall(r"^::: atc\.(\w+)$", (FOLDER / "python.md").read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(atc.__all__)


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    mkdocs = SITE / "mkdocs"
    if not mkdocs.exists():
        pytest.skip("no mkdocs here: `make docs` brings it")
    built = subprocess.run(
        [mkdocs, "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    script = r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?https?:"""
    style = r"""<link[^>]*rel=["']?stylesheet[^>]*https?:"""
    loaded = re.compile(f"{script}|{style}")
    assert not [page for page in pages if loaded.search(page.read_text())]


@pytest.mark.slow
def test_no_link_of_the_site_is_dead() -> None:
    if not (SITE / "linkchecker").exists():
        pytest.skip("no crawler here: `make docs` brings it")
    check_site(ROOT)
    check_links(ROOT)


def _pages(entries: object) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(entries, str):
        return [entries]
    inner = entries.values() if isinstance(entries, dict) else entries
    return [page for entry in inner for page in _pages(entry)]  # type: ignore[attr-defined]
