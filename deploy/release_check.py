"""What a release must hold; builds its archives, their hashes and the bill of materials into a folder.

``make release-check`` runs it after the tests of the package. Nothing is published; CONTRIBUTING.md has the steps.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILT_FOR = "all"
"""The extra whose packages the bill of materials lists."""


class NotYet(Exception):
    """Why this is no release."""


def version_of(root: Path) -> str:
    """The version in ``pyproject.toml``.

    Raises:
        NotYet: the package says another one.
    """
    version = str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    said = re.search(
        r'^__version__ = "(.+)"$', (root / "atc" / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    if said is None or said[1] != version:
        raise NotYet(f"pyproject.toml has version {version}, atc/__init__.py {said[1] if said else 'none'}")
    return version


def check_changelog(root: Path, version: str) -> None:
    """The top section is of this version, and has the day of its release.

    Raises:
        NotYet: it is not.
    """
    top = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    heading = top[1] if top else "none"
    if re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading) is None:
        raise NotYet(f"the top section of CHANGELOG.md is `{heading}`: name it `{version} (YYYY-MM-DD)`")


def check_tree(root: Path, version: str) -> None:
    """Everything is committed, and the commit has the version's tag.

    Raises:
        NotYet: it is not so.
    """
    if changed := _git(root, "status", "--porcelain").splitlines():
        raise NotYet(f"{len(changed)} files are not committed, the first: {changed[0].strip()}")
    if f"v{version}" not in _git(root, "tag", "--points-at", "HEAD").split():
        raise NotYet(f"this commit has no tag v{version}: `git tag -s v{version}`")


def check_examples(root: Path) -> int:
    """Every example is Python that compiles, or a notebook, and a page names it. Returns how many there are.

    Raises:
        NotYet: there is none, or one is broken, or no page has it.
    """
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    files = sorted(each for each in (root / "examples").glob("*") if each.suffix in (".py", ".ipynb"))
    if not files:
        raise NotYet("there are no examples")
    for file in files:
        try:
            source = file.read_text(encoding="utf-8")
            if file.suffix == ".py":
                compile(source, str(file), "exec")
            else:
                json.loads(source)["cells"]
        except (SyntaxError, ValueError, KeyError, TypeError) as error:
            raise NotYet(f"examples/{file.name} is broken: {error}") from None
        if re.search(rf"examples/{re.escape(file.name)}(?![\w.])", text) is None:
            raise NotYet(f"no page names examples/{file.name}")
    return len(files)


def check_site(root: Path) -> None:
    """``make docs`` builds the site, strictly: a dead link or anchor is an error.

    Raises:
        NotYet: it does not, or nothing was built: without a target of that name, make takes the folder for one.
    """
    site = root / "build" / "site"
    shutil.rmtree(site, ignore_errors=True)
    _run("make", "--no-print-directory", "-C", str(root), "docs")
    if not (site / "index.html").is_file():
        raise NotYet("`make docs` built no build/site/index.html")


def check_links(root: Path) -> None:
    """No link on the site is dead, as a crawler of its pages sees it; addresses elsewhere are not asked.

    Raises:
        NotYet: one is dead, or there is no crawler.
    """
    with tempfile.TemporaryDirectory(prefix="atc-site-") as scratch:
        Path(scratch).chmod(0o755)  # a crawler that root starts becomes another user
        site = shutil.copytree(root / "build" / "site", Path(scratch) / "site")
        crawler = root / ".venv-docs" / "bin" / "linkchecker"
        if not crawler.exists():
            raise NotYet(f"there is no {crawler.relative_to(root)}: `make docs` installs it")
        _run(str(crawler), "--no-status", "--no-warnings", str(site / "index.html"))


def check_pages(root: Path) -> None:
    """The quick tests of the documents pass: snippets, links, words. They run in the environment of the tests.

    Raises:
        NotYet: one fails.
    """
    _run(str(root / ".venv" / "bin" / "python"), "-m", "pytest", "-m", "not slow", str(root / "tests" / "docs"))


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


def build(root: Path, folder: Path) -> list[Path]:
    """Build sdist and wheel into an empty folder, the wheel from the sdist; their metadata must satisfy the index.

    Raises:
        NotYet: they cannot be built, or the index would not take them.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(root))
    archives = sorted(folder.iterdir())
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, archives))
    return archives


def of_all(root: Path, wheel: Path, target: Path) -> int:
    """:func:`bill_of_materials` of an environment made for this: the wheel with the extra ``all``."""
    with tempfile.TemporaryDirectory(prefix="atc-sbom-") as scratch:
        python = Path(scratch) / "env" / "bin" / "python"
        _run("uv", "venv", "--quiet", "--python", sys.executable, str(python.parents[1]))
        _run("uv", "pip", "install", "--quiet", "--python", str(python), f"{wheel}[{BUILT_FOR}]")
        return bill_of_materials(root, python, target)


def bill_of_materials(root: Path, python: Path, target: Path) -> int:
    """Write a validated CycloneDX document of what an environment with the wheel holds.

    Args:
        root: of the repository; its ``pyproject.toml`` names the product.
        python: of the environment.
        target: the document.

    Returns:
        How many packages are listed.

    Raises:
        NotYet: it cannot be made, or a package in it has no version.
    """
    options = ("--pyproject", str(root / "pyproject.toml"), "--mc-type", "library", "--output-reproducible")
    _run("cyclonedx-py", "environment", *options, "--validate", "-o", str(target), str(python))
    document: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    components = [each for each in document["components"] if each["name"] != "atc-runtime"]
    if nameless := [each["name"] for each in components if not each.get("version") or not each.get("purl")]:
        raise NotYet(f"the bill of materials has packages without a version: {', '.join(nameless)}")
    return len(components)


def write_hashes(files: Iterable[Path], target: Path) -> None:
    """Write the SHA-256 of files as ``sha256sum --check`` reads it."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    target.write_text("".join(lines), encoding="utf-8")


def _run(*command: str) -> None:
    beside = Path(sys.executable).parent / command[0]
    words = [str(beside) if beside.exists() else command[0], *command[1:]]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NotYet(f"`{' '.join(command[:4])} …` failed: {(ran.stderr or ran.stdout).strip()[-1500:]}")


def main() -> int:
    """Exit code 0: a release may go out; 1: not yet, with every reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the archives are built; it is emptied")
    parser.add_argument("--rehearsal", action="store_true", help="build and check, but let tree, tag and date be open")
    given = parser.parse_args()
    reasons: list[str] = []

    def held(what: str, check: Callable[[], Any], needed: bool = True) -> Any:
        try:
            value = check()
        except NotYet as reason:
            print(f"{'NO ' if needed else 'open'}  {what}: {reason}")
            reasons.extend([str(reason)] if needed else [])
            return None
        print(f"ok   {what}{f': {value}' if isinstance(value, str | int) else ''}")
        return value

    version = held("version", lambda: version_of(ROOT))
    if version is not None:
        held("changelog", lambda: check_changelog(ROOT, version), not given.rehearsal)
        held("tree and tag", lambda: check_tree(ROOT, version), not given.rehearsal)
    held("examples", lambda: check_examples(ROOT))
    held("site", lambda: check_site(ROOT))
    held("links of the site", lambda: check_links(ROOT))
    held("snippets, links and words of the documents", lambda: check_pages(ROOT))
    archives = held("wheel and sdist", lambda: build(ROOT, given.dist))
    if archives is not None:
        (wheel,) = (each for each in archives if each.suffix == ".whl")
        listed = given.dist / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        held("packages in the bill of materials", lambda: of_all(ROOT, wheel, listed))
        write_hashes([*archives, *([listed] if listed.exists() else [])], given.dist / "SHA256SUMS")
        print(f"ok   {given.dist}: {', '.join(sorted(each.name for each in given.dist.iterdir()))}")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
