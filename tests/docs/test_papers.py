"""The rows of research/README.md are read as data, and held to the code, to published rows, to the other pages and to
the tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.docs import ROOT
from tests.support.paper_figures import COMPUTED

PAGE = ROOT / "research" / "README.md"
HEAD = ["mechanism", "where", "in ATC", "the paper's figure, its setting", "ours", "command"]
PAPERS = {
    "Chain of Tools (ATC)": "ATC",
    "ToolQP": "ToolQP",
    "NaviAgent": "NaviAgent",
    "RETO": "RETO",
    "ToolWeaver": "ToolWeaver",
}
"""The sections with a table, and the name by which docstrings cite the paper."""
NONE, NO_FIGURE, NO_ROWS = "–", "no figure", "†"
STATE = re.compile(r"\*\*(on by default|by name|research|missing)\*\*(?:: (\S.*))?")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
OURS = re.compile(rf"{LINK.pattern}(?: †)?(?:, ((?:not )?replicated|not comparable)\b.*)?")
"""A figure of ours, whether rows of it are kept, and how it compares."""
NUMBER = re.compile(r"[\d.,]*\d")
CITED = re.compile(r"§\d|Eq\. \d|Alg\. \d|App\. [A-Z]|Tab\. \d|Fig\. \d|abstract|Limitations")


@dataclass(frozen=True)
class Row:
    """One mechanism of a paper."""

    paper: str
    mechanism: str
    where: str
    state: str
    theirs: str
    ours: str
    command: str

    @property
    def kind(self) -> str:
        """Whether it is on, or where it is."""
        found = STATE.fullmatch(self.state)
        assert found is not None, f"{self.mechanism}: {self.state}"
        return found[1]

    @property
    def measured_there(self) -> bool:
        """Whether the paper has a figure of it that we have."""
        return self.theirs != NONE and not self.theirs.startswith("none")

    @property
    def files(self) -> list[Path]:
        return [(PAGE.parent / target).resolve() for _, target, _ in LINK.findall(self.where)]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@cache
def rows() -> tuple[Row, ...]:
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, *lines = section.splitlines()
        tables = [cells(line) for line in lines if line.startswith("|")]
        if title in PAPERS:
            assert tables[0] == HEAD, f"the table of {title} has other columns"
            for line in tables[2:]:
                assert len(list(filter(None, line))) == len(HEAD), f"a row of {title} lacks a cell: {line[0]}"
                found.append(Row(PAPERS[title], *line))
    return tuple(found)


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def sections(document: Path) -> dict[str, str]:
    """The text of each section of a document, by its anchor, without the sections below it."""
    parts = re.split(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)[1:]
    return {slug(heading): text for heading, text in zip(parts[::2], parts[1::2], strict=True)}


def problems_of_command(command: str) -> Iterator[str]:
    words = [word for word in shlex.split(command.strip("`")) if not re.match(r"[A-Z_]+=", word)]
    match words:
        case ["python", "-m", module, *arguments] if module.startswith(("benchmarks.", "atc_research_benchmarks.")):
            yield from problems_of_benchmark(module, arguments)
        case ["pytest", target] if "::" in target:
            path, name = target.split("::")
            if not (ROOT / path).is_file():
                yield f"there is no {path}"
            elif not re.search(rf"^(async )?def {re.escape(name)}\(", (ROOT / path).read_text(), re.MULTILINE):
                yield f"{path} has no {name}"
        case ["make", target, *_]:
            if f"\n{target}:" not in (ROOT / "Makefile").read_text():
                yield f"make has no target {target}"
        case _:
            yield f"it is neither a benchmark, nor one test, nor a target of make: {command}"


def problems_of_benchmark(module: str, arguments: list[str]) -> Iterator[str]:
    folder = ROOT / "research" if module.startswith("atc_research_benchmarks.") else ROOT
    place = folder / module.replace(".", "/")
    file = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        yield f"there is no {module}"
        return
    source = file.read_text()
    # Each part of such a command is a module of its own.
    parts = sorted(place.glob("*.py") if place.is_dir() else place.parent.glob(f"{place.name}_*.py"))
    parts.append(ROOT / "benchmarks" / "common.py")  # options that several benchmarks have
    if arguments and not arguments[0].startswith("-") and not re.search(rf"\b{re.escape(arguments[0])}\b", source):
        yield f"{module} has no part {arguments[0]}"
    source += "".join(part.read_text() for part in parts)
    for option in (word for word in arguments if word.startswith("--")):
        parameter = option[2:].replace("-", "_")
        if f'"{option}"' not in source and not re.search(rf"\b{parameter}: ", source):
            yield f"{module} has no option {option}"


def test_each_paper_has_a_table_whose_rows_are_whole() -> None:
    assert {row.paper for row in rows()} == set(PAPERS.values())
    for row in rows():
        assert CITED.search(row.mechanism), f"no section is cited: {row.mechanism}"
        assert bool(row.files) != (row.kind == "missing"), (
            f"{row.mechanism}: what is there has a place, else it has none"
        )
        assert row.kind != "missing" or "would take" in row.state, (
            f"{row.mechanism}: it does not say what it would take"
        )


def test_a_row_says_truly_in_which_package_its_code_is() -> None:
    for row in rows():
        places = {file.relative_to(ROOT).parts[0] for file in row.files}
        wanted = {"on by default": "atc", "research": "research"}.get(row.kind)
        assert wanted is None or wanted in places, f"{row.mechanism}: {row.kind}, and it is in {places}"
        assert row.kind != "by name" or places - {"research"}, f"{row.mechanism}: it is in research alone"


def test_the_papers_figure_has_its_place_in_the_paper() -> None:
    for row in rows():
        if row.paper == "ATC":
            assert row.theirs == NONE, f"{row.mechanism}: the text that we have holds no figure"
        elif row.measured_there:
            assert CITED.search(row.theirs), f"{row.mechanism}: no table and no section: {row.theirs}"


def test_all_that_is_there_has_a_figure_with_its_command_or_a_test() -> None:
    for row in rows():
        if row.kind == "missing":
            assert (row.ours, row.command) == (NO_FIGURE, NONE), f"{row.mechanism}: it is missing and has a figure"
            continue
        assert not (found := list(problems_of_command(row.command))), f"{row.mechanism}: {found}"
        if row.command.startswith("`pytest "):
            assert row.ours == NO_FIGURE, f"{row.mechanism}: a test is no figure"
            continue
        ours = OURS.fullmatch(row.ours)
        assert ours is not None, f"{row.mechanism}: {row.ours}"
        assert bool(ours[4]) == row.measured_there, f"{row.mechanism}: two figures are compared, and one is not"


def problems_of_marks(page: str, computed: set[str]) -> Iterator[str]:
    """Figures that neither come from rows nor say so, and those that rows give otherwise."""
    left = set(computed)
    for found in LINK.finditer(page):
        text, _, anchor = found.groups()
        if anchor and NUMBER.search(text):
            left.discard(text)
            marked = page[found.end() :].startswith(f" {NO_ROWS}")
            if text in computed and marked:
                yield f"[{text}] has rows, and a mark that it has none"
            if text not in computed and not marked:
                yield f"[{text}] is not what published rows give, which is one of {sorted(computed)}"
    yield from (f"the page does not say what the rows give: {text}" for text in sorted(left))


def test_each_figure_is_what_the_published_rows_give_or_says_that_it_has_none() -> None:
    assert not (found := list(problems_of_marks(PAGE.read_text(), {made() for made in COMPUTED}))), found


@pytest.mark.parametrize(
    "page",
    [
        "[1 of 3](a.md#b), [2 of 9](a.md#b) †",
        "[1 of 2](a.md#b) †",
        "[2 of 9](a.md#b) †",
        "[1 of 2](a.md#b) [2 of 9](a.md#b)",
    ],
)
def test_a_figure_that_rows_do_not_give_is_seen(page: str) -> None:
    assert not list(problems_of_marks("[1 of 2](a.md#b), [2 of 9](a.md#b) †", {"1 of 2"}))
    assert list(problems_of_marks(page, {"1 of 2"}))


def test_a_row_with_rows_names_them() -> None:
    computed = {made() for made in COMPUTED}
    with_rows = {LINK.match(row.ours)[1]: row.command for row in rows() if LINK.match(row.ours)}  # type: ignore[index]
    for text, command in with_rows.items():
        named = "published/" in command or command.strip("`").endswith("_table")
        assert named == (text in computed), f"[{text}]: {command}"


def test_our_figures_of_toolbench_are_those_of_the_page_on_search() -> None:
    (_, *lines) = (
        cells(line)
        for line in sections(PAGE)["why-the-figures-of-toolbench-differ"].splitlines()
        if line.startswith("|") and "ours" in line.lower()
    )
    known = NUMBER.findall(sections(ROOT / "research" / "benchmarks.md")["tools-used-together"])
    assert len(lines) == 2
    for _, *numbers in lines:
        assert set(numbers) <= set(known), numbers


def test_what_a_row_names_exists_and_cites_its_paper() -> None:
    for row in rows():
        for file in row.files:
            assert file.is_file(), f"{row.mechanism}: there is no {file}"
        if own := [file for file in row.files if _cites(file)]:
            cited = re.compile(
                rf"{row.paper}\b[^.]{{0,60}}?(§|Eq\.|Alg\.|App\.|Fig\.|Tab\.|appendix|Limitations)", re.DOTALL
            )
            names = [file.name for file in own]
            assert any(cited.search(file.read_text()) for file in own), f"{row.mechanism}: none of {names} cites it"


def _cites(file: Path) -> bool:
    """Whether a file is code of ATC or of the strategies beside it."""
    parts = file.relative_to(ROOT).parts
    return file.suffix == ".py" and (parts[0] == "atc" or parts[:2] == ("research", "atc_research"))


def problems_of_figure(text: str, target: str, anchor: str, page: Path = PAGE) -> Iterator[str]:
    found = sections((page.parent / target).resolve() if target else page)
    if anchor not in found:
        yield f"{target or page.name} has no section {anchor}"
    elif lacks := set(NUMBER.findall(text)) - set(NUMBER.findall(found[anchor])):
        yield f"[{text}]: {target}#{anchor} has no {sorted(lacks)}"


@pytest.mark.parametrize("page", [PAGE, PAGE.with_name("training.md")], ids=["papers", "trainings"])
def test_each_figure_stands_in_the_section_that_is_linked(page: Path) -> None:
    linked = [link for link in LINK.findall(page.read_text()) if link[2]]
    found = [problem for text, target, anchor in linked for problem in problems_of_figure(text, target, anchor, page)]
    assert not found


@pytest.mark.parametrize(("text", "anchor"), [("457 of 458", "attribution-of-faults"), ("457 of 457", "nowhere")])
def test_a_figure_that_is_not_there_is_seen(text: str, anchor: str) -> None:
    assert list(problems_of_figure(text, "../docs/benchmarks/programs.md", anchor))


@pytest.mark.parametrize(
    "command",
    [
        "python -m benchmarks.nowhere",
        "python -m atc_research_benchmarks.planner nowhere",
        "python -m atc_research_benchmarks.links --nowhere 1",
        "pytest tests/docs/nowhere.py::test_nothing",
        "pytest tests/docs/test_papers.py::test_nothing",
        "make nowhere",
        "sh nowhere.sh",
    ],
)
def test_a_command_that_is_not_there_is_seen(command: str) -> None:
    assert list(problems_of_command(f"`{command}`"))
