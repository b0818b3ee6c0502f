"""docs/papers.md holds: its tables are read as data, and held to the code, the figures and the tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.docs import ROOT

PAGE = ROOT / "docs" / "papers.md"
HEAD = ["mechanism", "where", "state", "figure", "command"]
PAPERS = {
    "Chain of Tools (ATC)": "ATC",
    "ToolQP": "ToolQP",
    "NaviAgent": "NaviAgent",
    "RETO": "RETO",
    "ToolWeaver": "ToolWeaver",
}
"""The sections with a table, and the name by which docstrings cite the paper."""
NONE = "–"
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
NUMBER = re.compile(r"[\d.,]*\d")
CITED = re.compile(r"§\d|Eq\. \d|Alg\. \d|App\. [A-Z]|Tab\. \d|Fig\. \d|abstract|Limitations")


@dataclass(frozen=True)
class Row:
    """One mechanism of a paper."""

    paper: str
    mechanism: str
    where: str
    state: str
    figure: str
    command: str

    @property
    def missing(self) -> bool:
        return self.state.startswith("missing: ")

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
    file = folder / f"{module.replace('.', '/')}.py"
    if not file.is_file():
        yield f"there is no {module}"
        return
    source = file.read_text()
    parts = sorted(file.parent.glob(f"{file.stem}_*.py"))  # each part of such a command is a module of its own
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
        assert re.fullmatch(r"as the paper|(otherwise|missing): \S.*", row.state), f"{row.mechanism}: {row.state}"
        assert bool(row.files) != row.missing, f"{row.mechanism}: what is there has a place, what is missing has none"


def test_all_that_is_there_has_a_figure_with_its_command_or_a_test() -> None:
    for row in rows():
        if row.missing:
            assert row.figure == row.command == NONE, f"{row.mechanism}: it is missing and has a figure"
            continue
        assert not (found := list(problems_of_command(row.command))), f"{row.mechanism}: {found}"
        tested = row.command.startswith("`pytest ")
        assert (row.figure == "test") if tested else LINK.fullmatch(row.figure), f"{row.mechanism}: {row.figure}"


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


def problems_of_figure(text: str, target: str, anchor: str) -> Iterator[str]:
    found = sections((PAGE.parent / target).resolve() if target else PAGE)
    if anchor not in found:
        yield f"{target or PAGE.name} has no section {anchor}"
    elif lacks := set(NUMBER.findall(text)) - set(NUMBER.findall(found[anchor])):
        yield f"[{text}]: {target}#{anchor} has no {sorted(lacks)}"


def test_each_figure_stands_in_the_section_that_is_linked() -> None:
    linked = [link for link in LINK.findall(PAGE.read_text()) if link[2]]
    assert not (found := [problem for link in linked for problem in problems_of_figure(*link)]), found


@pytest.mark.parametrize(("text", "anchor"), [("457 of 458", "attribution-of-faults"), ("457 of 457", "nowhere")])
def test_a_figure_that_is_not_there_is_seen(text: str, anchor: str) -> None:
    assert list(problems_of_figure(text, "benchmarks/programs.md", anchor))


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
