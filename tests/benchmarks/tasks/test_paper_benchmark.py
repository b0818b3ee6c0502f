"""The paper's table and sweeps: systems by name, rows whole one after the other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from atc.errors import UsageError
from benchmarks import paper
from benchmarks.paper import GROUPS, Sweep, lines_of, run_sweep
from benchmarks.systems import named_system
from benchmarks.tasks.gateway import Gateway
from benchmarks.tasks.rows import Row, read_rows
from benchmarks.tasks.run import systems_of
from tests.support.fake_openai_server import Server, serving
from tests.support.ruler import CRASHING, GOOD, Shop, says, source, tried

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

ORDER = 'Action: order\nAction Input: {"item": "pen"}'
MISSING = '```python\norder(item="pen")\nanswer = nothing_of_that_name\n```'
FINAL = "Final Answer: 7"


def ran(server: Server, sweep: Sweep, file: Path, minutes: float | None = None) -> bool:
    """Run a sweep; whether all is there."""

    async def all_of_it() -> bool:
        async with Gateway(source(server), None).opened() as gateway:
            return await run_sweep(sweep, gateway, file, minutes)

    return asyncio.run(all_of_it())


# Systems by name ----------------------------------------------------------------------------------------------------


def test_alpha_bounds_the_programs_after_the_first() -> None:
    crash = [CRASHING, CRASHING.replace("[0]", "[1]"), CRASHING.replace("[0]", "[2]"), GOOD]
    assert [tried(crash, *systems_of(f"atc-alpha:{alpha}")).programs for alpha in (0, 2, 3)] == [1, 3, 4]
    paper_way = [each for program in crash for each in (program, "order")]
    rows = [tried(paper_way, *systems_of(f"atc-paper-alpha:{alpha}")) for alpha in (0, 2, 3)]
    assert [(row.programs, row.model_calls, row.solved) for row in rows] == [(1, 1, False), (3, 5, False), (4, 7, True)]


def test_findings_cost_revisions_where_they_are_counted() -> None:
    again = MISSING.replace("nothing", "none")
    replies = [MISSING, again, CRASHING, CRASHING.replace("[0]", "[1]"), GOOD]
    assert [(row.programs, row.solved) for row in (tried(replies, "atc"), tried(replies, "atc-findings"))] == [
        (5, True),
        (4, False),
    ]


@pytest.mark.parametrize("name", ["atc-alpha:", "atc-alpha:6", "atc-alpha:-1", "atc-paper-alpha:x"])
def test_an_alpha_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match=r"with N from 0 to 5"):
        named_system(name)


def test_all_rows_are_of_systems_that_there_are() -> None:
    for group in GROUPS.values():
        assert [system.name for system in systems_of(",".join(group))] == [*group]
        assert {against for against in group.values() if against} <= {*group}


# Rows, one after the other ------------------------------------------------------------------------------------------


def test_rows_are_run_whole_in_their_order_and_go_on_where_they_stopped(tmp_path: Path) -> None:
    sweep = Sweep(["shots"], [Shop()], ["atc", "atc-paper"])
    file = tmp_path / "rows.jsonl"
    with serving(says(GOOD)) as server:
        assert not ran(server, sweep, file, minutes=0)
        assert ran(server, sweep, file)
        assert [(row.system, row.task) for row in read_rows(file)] == [
            (name, f"pen-{number}") for name in ("atc", "atc-paper") for number in range(3)
        ]
        asked = len(server.requests)
        assert ran(server, sweep, file)
        assert len(server.requests) == asked, "what is there is not run again"


def test_a_row_is_whole_when_every_try_of_one_version_is_there() -> None:
    sweep = Sweep(["shots"], [Shop()], ["atc", "atc-zero-shot"])

    def row(system: str, number: int, **more: object) -> Row:
        given = {"env": "shop", "task": f"pen-{number}", "system": system, "version": "1", "seed": 0, "model": "m"}
        return Row(**given | {"terms": "t", "stated": True, "status": "answered", "solved": True} | more)  # type: ignore[arg-type]

    rows = [row("atc", 0), row("atc", 1, solved=False), row("atc", 2), row("atc", 2, seed=1)]
    rows += [row("atc-zero-shot", 0), row("atc-zero-shot", 1), row("atc-zero-shot", 2, status="environment")]
    first, second = lines_of(sweep, rows)
    assert (first["whole"], first["tries"], first["figures"]["solved"]) == (True, 3, 2)
    assert (second["whole"], second["tries"], second["of"], second["pair"]) == (False, 2, 3, (1, 0))
    assert not lines_of(sweep, [row("atc", 0), row("atc", 1, version="2"), row("atc", 2)])[0]["whole"]


def command(*arguments: str) -> str:
    app = Typer()
    app.command()(paper.main)
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_command_runs_it_with_any_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    chosen = ["--env", "atlas", "--limit", "2", "--rows", "table1", "--system", "react,atc-paper"]
    place = ["--out", str(tmp_path / "rows.jsonl")]
    with serving(says(FINAL)) as server:
        shown = command(*chosen, *place, "--model", "tiny", "--base-url", server.url)
        assert {request["temperature"] for request in server.requests} == {0.0}
        assert set(server.keys) == {"Bearer k"}
    assert shown.index("react") < shown.index("atc-paper")
    assert shown.count("whole") >= 2
    (table,) = json.loads(command(*chosen, *place, "--summary", "--json"))
    assert [(line["system"], line["whole"], line["of"]) for line in table["rows"]] == [
        ("react", True, 2),
        ("atc-paper", True, 2),
    ]
    assert "2 of 3" in command(*chosen[:2], "--limit", "3", *chosen[4:], *place, "--summary")
