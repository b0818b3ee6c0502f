"""Would a test fail if a line of the core were wrong? Places drawn with a seed, each changed and tried.

``python -m benchmarks.mutation --map FILE [--out ROWS]``: where the file is not there, the quick tests are run once,
and it keeps which test runs which line (``--tests`` names fewer). Then places within functions are drawn, and one at
a time is changed in a copy of the tree: a comparison, a constant, a condition, an ``and``, a returned value, or a
statement that is removed. Only tests that run the place's line are tried, those of its own room first: as many as end
in :data:`CLEAN_S` with the code as it is, so that a change which makes them take longer than ``--limit`` is told apart
from many tests. What goes on in the jail's own process is seen by no map: such a place is tried with the tests of
``tests/sandboxes``. A map is of the tree that it was made in: make another one after a change.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from coverage import CoverageData

from atc.errors import UsageError
from benchmarks.common import AsJson, print_json, share, show

ROOT = Path(__file__).parents[1]
ROOMS = ("atc/calls", "atc/programs", "atc/run", "atc/sandboxes", "atc/schemas", "atc/tools", "sandbox")
LEAVES = ("atc/sandboxes/docker", "atc/sandboxes/remote", "atc/tools/adapters", "atc/tools/har")
COPIED = ("atc", "benchmarks", "docs", "examples", "prompts", "protocols", "sandbox", "tests", "deploy", "research")
JAILED = "tests/sandboxes"
CLEAN_S = 8.0
PASSED = "MUTATION_PASSED"
BEGAN = time.monotonic()
MOST_TESTS = 400
"""Tests that are handed to pytest for a place: to collect thousands would take all the time there is."""

OPERATORS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """What is changed: from ``begin`` to ``end`` of a file, in bytes, to ``new``."""

    file: str
    line: int
    kind: str
    begin: int
    end: int
    new: str

    @property
    def room(self) -> str:
        return next(room for room in ROOMS if self.file.startswith(room + "/"))


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield how a node could be wrong: the kind, the node that is replaced, and by what."""
    if isinstance(node, ast.Compare):
        operators = [OPERATORS[type(node.ops[0])](), *node.ops[1:]]
        yield "comparison", node, f"({ast.unparse(ast.Compare(node.left, operators, node.comparators))})"
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool | int) or (isinstance(value, str) and value.isidentifier()):
            new = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value + "_"
            yield "constant", node, f"({new!r})" if isinstance(value, int) else repr(new)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition", node.test, f"(not ({ast.unparse(node.test)}))"
    elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield "returned", node, "return None"
    elif isinstance(node, ast.Raise | ast.AugAssign | ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    ):
        yield "removed", node, "pass"


def in_functions(node: ast.AST, within: bool = False) -> Iterator[ast.AST]:
    """Yield what a function does when it is called: no default, annotation or docstring, and nothing in an f-string,
    whose parts have no place of their own in Python 3.11."""
    if within:
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "args", "returns", "annotation") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.match_case) and not text:
                yield from in_functions(child, within or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def places_of(file: str, source: bytes) -> list[Place]:
    """Return every place of a file that can be wrong."""
    lines = source.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    found = []
    for node in in_functions(ast.parse(source)):
        for kind, old, new in changes(node):
            assert isinstance(old, ast.expr | ast.stmt)
            assert old.end_lineno is not None
            assert old.end_col_offset is not None
            begin, end = begins[old.lineno - 1] + old.col_offset, begins[old.end_lineno - 1] + old.end_col_offset
            found.append(Place(file, old.lineno, kind, begin, end, new))
    return found


def drawn(rooms: tuple[str, ...], seed: int, many: int) -> list[Place]:
    """Draw places: a kind first, so that constants do not crowd out the rest."""
    kinds: dict[str, list[Place]] = {}
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith(tuple(leaf + "/" for leaf in LEAVES)):
                for place in places_of(file, path.read_bytes()):
                    kinds.setdefault(place.kind, []).append(place)
    draw = random.Random(f"mutation {seed}")
    found: dict[Place, None] = {}
    left = {kind: draw.sample(places, len(places)) for kind, places in sorted(kinds.items())}
    while len(found) < many and any(left.values()):
        found[left[draw.choice([kind for kind, places in left.items() if places])].pop()] = None
    return list(found)


class Tests:
    """Which tests run a line."""

    def __init__(self, map: Path) -> None:
        self._data = CoverageData(basename=str(map))
        self._data.read()

    def of(self, place: Place) -> list[str]:
        """Return the tests that run a place, those of its own room first."""
        contexts = self._data.contexts_by_lineno(place.file).get(place.line, [])
        found = sorted({context.rpartition("|")[0] for context in contexts} - {""})
        if not found and place.room == "sandbox":
            return [JAILED]
        random.Random(place.file).shuffle(found)  # not 400 of the same table
        own = f"tests/{place.room.rpartition('/')[2].removesuffix('box')}"
        return sorted(found, key=lambda test: not test.startswith(own))[:MOST_TESTS]


class Copy:
    """A copy of the tree, in which one place at a time is wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__", "results", ".venv*")
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, folder)

    def pytest(self, tests: list[str], limit: float, clean: Path | None = None) -> int | None:
        """Run tests and return how they ended, or nothing where they took too long."""
        told = self.folder / "tests.args"
        told.write_text("\n".join(tests))
        environment = {**os.environ, "PYTHONPATH": f"{self.folder}:{self.folder / 'research'}"}
        if clean is not None:
            environment[PASSED] = str(clean)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
        command += ["-p", "benchmarks.mutation"] if clean is not None else []
        with subprocess.Popen([*command, f"@{told}"], cwd=self.folder, env=environment, start_new_session=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # fmt: skip
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return None

    def tried(self, place: Place, tests: list[str], limit: float) -> str:
        """Change a place and say how it went: ``killed``, ``survived``, or ``no test``."""
        passed = self.folder / "passed"
        passed.write_text("")
        if tests:
            self.pytest(tests, 3 * limit, passed)
        good = passed.read_text().splitlines()
        if not good:
            return "no test"
        path = self.folder / place.file
        was, times = path.read_bytes(), path.stat()
        path.write_bytes(was[: place.begin] + place.new.encode() + was[place.end :])
        try:
            return "survived" if self.pytest(good, limit) == 0 else "killed"
        finally:
            path.write_bytes(was)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its bytecode is known by this


def pytest_runtest_logreport(report: Any) -> None:
    """Keep, in a run of the code as it is, which test passed."""
    if PASSED in os.environ and report.when == "call" and report.passed:
        with Path(os.environ[PASSED]).open("a", encoding="utf-8") as file:
            file.write(report.nodeid + "\n")


def pytest_runtest_teardown(item: Any) -> None:
    """End such a run in time."""
    if PASSED in os.environ and time.monotonic() - BEGAN > CLEAN_S:
        item.session.shouldstop = "these are enough"


def make_map(to: Path, tests: list[str], workers: str) -> None:
    """Run the quick tests once and keep which of them runs which line."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        rc = Path(folder) / "rc"
        rc.write_text(f"[run]\nrelative_files = true\nsource =\n    atc\n    sandbox\ndata_file = {to.absolute()}\n")
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "--ignore=tests/benchmarks", "-n", workers]
        command += ["--cov", f"--cov-config={rc}", "--cov-context=test", "--cov-report="]
        ended = subprocess.run([*command, *tests], cwd=ROOT, stdout=sys.stderr).returncode
    print(f"{to}: {to.stat().st_size / 1e6:.0f} MB; the tests ended with {ended}", file=sys.stderr)


def main(
    map: Annotated[Path, typer.Option(help="Which test runs which line; made where it is not there.")],
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    places: Annotated[int, typer.Option(min=1, help="How many places are drawn.")] = 60,
    rooms: Annotated[str, typer.Option(help="Rooms to draw from.")] = ",".join(ROOMS),
    limit: Annotated[float, typer.Option(help="Seconds that the tests of a changed place may take.")] = 20.0,
    tests: Annotated[str, typer.Option(help="Tests that a map is made of, with commas; all quick ones else.")] = "",
    workers: Annotated[str, typer.Option(help="Processes that make a map, as pytest's -n takes them.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="A row for each place; what it has is not tried again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change each place that is drawn, and say whether a test notices."""
    wanted = tuple(rooms.split(","))
    if wrong := sorted(set(wanted) - {*ROOMS}):
        raise UsageError(f"--rooms: there is no {', '.join(wrong)}; take some of {', '.join(ROOMS)}")
    if not map.is_file():
        make_map(map, [test for test in tests.split(",") if test], workers)
    known = Tests(map)
    lines = out.read_text().splitlines() if out is not None and out.is_file() else []
    rows = {(row["file"], row["begin"], row["new"]): row for row in (json.loads(line) for line in lines)}
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for place in drawn(wanted, seed, places):
            row = rows.get((place.file, place.begin, place.new))
            if row is None:
                began, own = time.monotonic(), known.of(place)
                row = {**asdict(place), "room": place.room, "tests": len(own)}
                row |= {"ended": copy.tried(place, own, limit), "seconds": round(time.monotonic() - began, 1)}
                if out is not None:
                    with out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            found.append(row)
            if not as_json:
                print(f"{row['ended']:9}{row['file']}:{row['line']}  {row['kind']}: {row['new'][:80]}", flush=True)
    print_json({"places": len(found), "seed": seed, "rooms": _rooms(found), "rows": found}) if as_json else _show(found)


def _rooms(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    names = [room for room in ROOMS if any(row["room"] == room for row in rows)]
    return {room: dict(Counter(row["ended"] for row in rows if row["room"] == room)) for room in names}


def _show(rows: list[dict[str, Any]]) -> None:
    rooms = _rooms(rows)
    rooms["all"] = dict(Counter(row["ended"] for row in rows))
    ends = ("killed", "survived", "no test")
    table = [(room, sum(of.values()), *(of.get(end, 0) for end in ends), share(of.get("killed", 0), sum(of.values())))
             for room, of in rooms.items()]  # fmt: skip
    show("Places of the core that were wrong", ("room", "places", *ends, "killed"), table)


if __name__ == "__main__":
    typer.run(main)
