"""The ruler of retrieval: what it counts, that it goes on where it was, and what it reports; on data of its own."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from atc.catalogue.index.index import Mode
from atc.errors import EnvironmentProblem
from atc.models.fake import FakeModel
from benchmarks.retrieval import ranking as retrieval
from benchmarks.retrieval.data import Catalogues, protocol_of
from benchmarks.retrieval.methods import METHODS, Bench
from benchmarks.retrieval.ranking import completeness, draw, read_rows, summarise
from tests.support.retrieval import HashedWords

pytestmark = pytest.mark.slow  # the benchmark's own tests, not the product's


def record(source: str, name: str, description: str, **more: Any) -> dict[str, Any]:
    return {"id": f"{source}/{name}", "name": name, "description": description, "source": source, **more}


def query(number: int, source: str, text: str, *gold: str) -> dict[str, Any]:
    return {"id": f"{source}:{number}", "query": text, "gold": [*gold], "source": source, "pool": source, "subset": "a"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "retrieval"
    folder.mkdir(parents=True)
    needed = {"movie_id": {"type": "str", "required": True}}
    records = [
        record("films", "get_credits", "Who played in a movie.", parameters=needed),
        record("films", "search_movie", "Movies.", parameters={"query": {"type": "str", "required": True}}),
        *(record("films", f"other_{n}", f"Something else of number {n}.") for n in range(20)),
    ]
    tools = [record("town", "weather", "The forecast of rain."), record("town", "letters", "Post a message.")]
    queries = [
        query(0, "films", "who played in it?", "films/get_credits", "films/search_movie"),
        query(0, "town", "rain?", "town/weather"),
        query(1, "town", "post a message", "town/letters"),
    ]
    for name, lines in (("corpus_toolbench", records), ("corpus_other", tools), ("queries", queries)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    with gzip.open(folder / "pools.json.gz", "wt") as file:
        json.dump({}, file)
    return tmp_path / "data"


def ran(
    data: Path,
    methods: str,
    replies: tuple[str, ...] = (),
    bases: Sequence[Mode] = ("hybrid",),
) -> list[dict[str, Any]]:
    catalogues, out = Catalogues(data), data / "rows.jsonl"
    bench = Bench(catalogues, data / "work", FakeModel(replies), HashedWords())
    queries = catalogues.queries()
    arms = retrieval.arms_of([METHODS[name] for name in methods.split(",")], bases)
    asyncio.run(retrieval._run(bench, arms, queries, out))
    return summarise([*read_rows(out)], queries)


def figure(lines: list[dict[str, Any]], method: str, place: str, metric: str) -> float:
    return next(float(line[metric]) for line in lines if (line["method"], line["place"]) == (method, place))


def test_a_base_retriever_is_searched_by_and_named(data: Path) -> None:
    both = ran(data, "sieve,bm25", bases=("lexical", "dense", "hybrid"))
    assert {line["method"] for line in both} == {"sieve lexical", "sieve dense", "sieve", "bm25"}
    bench = Bench(Catalogues(data), data / "work", None, HashedWords())
    for base, without in (("lexical", "dense"), ("dense", "lexical")):
        hits = bench.index("town", base).tools.search("rain")
        assert [getattr(hit, without) for hit in hits] == [None] * len(hits)
        assert hits[0].id == "town/weather"
    assert bench.index("town", "lexical").whole.search("rain")[0].dense is not None


def test_it_goes_on_where_it_was(data: Path) -> None:
    ran(data, "bm25")
    (before := data / "rows.jsonl").write_bytes(before.read_bytes().splitlines(keepends=True)[0] + b'{"cut": ')
    with before.open("ab") as file:
        file.write(b"\n")
    ran(data, "bm25")
    assert len(read_rows(before)) == 3


def test_a_record_becomes_a_protocol_with_what_its_path_needs() -> None:
    made = protocol_of(
        record("x", "GET_a", "A.", endpoint="https://h/a/{a_id}/b", response={"items": [{"id": "int"}]}, method="GET")
    )
    assert made.required == ("a_id",)
    assert made.returns == {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}
        },
    }
    assert protocol_of(record("x", "b", "", response={"content": {}})).returns is None


def test_the_picture_and_the_command(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(ran(data, "bm25,hybrid"), tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text()
    monkeypatch.setattr(retrieval, "MiniLM", HashedWords)
    monkeypatch.setattr(retrieval, "RESULTS", tmp_path / "results")

    app = typer.Typer()
    app.command()(retrieval.main)
    arguments = ["--data", str(data), "--method", "bm25,lexical", "--out", str(tmp_path / "rows.jsonl")]
    out = CliRunner().invoke(app, arguments)
    assert out.exit_code == 0, out.output
    assert "macro" in out.output
    assert json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    for wrong in (["--method", "magic"], ["--source", "nowhere"], ["--data", str(tmp_path / "none")]):
        assert CliRunner().invoke(app, [*arguments, *wrong]).exit_code in (2, 3)


def test_a_ranking_is_complete_where_nothing_is_missing() -> None:
    ranked, gold = ["a", "x", "b", "a"], {"a", "b"}
    assert (completeness(ranked, gold, 2), completeness(ranked, gold, 3)) == (0, 1)


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"queries\.jsonl\.gz is not there"):
        Catalogues(tmp_path).queries()
