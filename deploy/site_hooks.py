"""Makes the site whole: what a page links to outside ``docs/`` becomes a page, too.

The documents link to files of the repository by relative paths, so that they read well where the repository is shown.
The site has no such files beside it: a linked Markdown file becomes a page, source code a page with the code, and a
folder a page that lists it. mkdocs calls the functions that begin with ``on_``.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "repository"
"""Where the pages of files outside ``docs/`` stand on the site."""

SEARCHED_LAST = {f"{FOLDER}/": 0.05, "benchmarks/": 0.2, "reference/python": 0.1, "reference/commands": 0.4}
"""How much a page's words count in the site's search, where they count less than those of the pages for users."""

_FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$\n?", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)")
_PROSE = (".md", ".ipynb")
"""Files whose text has links; in code, what looks like a link is none."""
_LANGUAGES = {
    ".cfg": "ini",
    ".jinja": "jinja",
    ".json": "json",
    ".md": "markdown",
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside ``docs/`` that a page links to, and for those that these link to.

    Raises:
        PluginError: a page links to a file that the repository does not have.
    """
    waiting: list[tuple[str, str]] = []
    for file in files.documentation_pages():
        source = _source(file.src_uri)
        waiting += [(source, target) for target in _outside(file.content_string, source)]
    done: set[str] = set()
    while waiting:
        source, target = waiting.pop()
        if target in done:
            continue
        done.add(target)
        if not (ROOT / target).exists():
            raise PluginError(f"{source} links to {target}, which the repository does not have")
        content = _page_of(target)
        files.append(File.generated(config, _page_name(target), content=content, inclusion=InclusionLevel.NOT_IN_NAV))
        if target.endswith(_PROSE):
            waiting += [(target, further) for further in _outside(content, target)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page with each link to a file of the repository turned to the page of that file."""
    source = _source(page.file.src_uri)
    weight = next((weight for folder, weight in SEARCHED_LAST.items() if page.file.src_uri.startswith(folder)), None)
    if weight is not None:
        page.meta.setdefault("search", {"boost": weight})
    if page.file.src_uri.startswith(f"{FOLDER}/") and not source.endswith(_PROSE):
        return markdown
    here = posixpath.dirname(page.file.src_uri)

    def turned(target: str) -> str:
        path, _, anchor = target.partition("#")
        page_name = _page_name(_resolved(path, source))
        return posixpath.relpath(page_name, here or ".") + (f"#{anchor}" if anchor else "")

    return _with_links(markdown, turned)


def _source(page_name: str) -> str:
    """The path in the repository of what a page shows; the opposite of `_page_name`."""
    if not page_name.startswith(f"{FOLDER}/"):
        return f"docs/{page_name}"
    path = page_name.removeprefix(f"{FOLDER}/")
    return path if (ROOT / path).is_file() else path.removesuffix(".md").removesuffix("/contents")


def _page_name(path: str) -> str:
    """The name of the page, or the file beside it, that shows a path of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"{FOLDER}/{path}/contents.md"
    return f"{FOLDER}/{path}" if path.endswith(".md") else f"{FOLDER}/{path}.md"


def _page_of(path: str) -> str:
    """The Markdown that shows a file or a folder of the repository."""
    place = ROOT / path
    unsearched = "---\nsearch:\n  exclude: true\n---\n"
    if place.is_dir():
        names = sorted(entry.name + "/" * entry.is_dir() for entry in place.iterdir() if entry.name[0] not in "._")
        return f"{unsearched}# {path}/\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = place.read_text(encoding="utf-8")
    if place.suffix == ".md":
        return text
    if place.suffix == ".ipynb":
        return "\n\n".join(_cells(json.loads(text)["cells"]))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{unsearched}# {path}\n\n{fence}{_LANGUAGES.get(place.suffix, 'text')}\n{text}\n{fence}\n"


def _cells(cells: list[dict[str, Any]]) -> Iterator[str]:
    """The cells of a notebook as Markdown: text, code, and what the code printed."""
    for cell in cells:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain")
            if text:
                yield f"```text\n{''.join(text).rstrip()}\n```"


def _outside(markdown: str, source: str) -> Iterator[str]:
    """The paths outside ``docs/`` that a document of the repository links to."""
    found: list[str] = []

    def kept(target: str) -> str:
        found.append(target)
        return target

    _with_links(markdown, kept)
    for target in found:
        path = _resolved(target.partition("#")[0], source)
        if not path.startswith("docs/"):
            yield path


def _resolved(path: str, source: str) -> str:
    """A link's path from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def _with_links(markdown: str, turned: Callable[[str], str]) -> str:
    """Return a text with each relative link outside of code replaced."""

    def in_text(text: str) -> str:
        return _LINK.sub(lambda link: link[1] + _unless_elsewhere(link[2], turned), text)

    pieces, at = [], 0
    for fence in _FENCE.finditer(markdown):
        pieces += [in_text(markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*pieces, in_text(markdown[at:])])


def _unless_elsewhere(target: str, turned: Callable[[str], str]) -> str:
    """A link's target, turned where it is a relative path."""
    return target if target[0] in "#/" or re.match(r"[a-z][a-z0-9+.-]*:", target) else turned(target)
