"""Right programs over incomplete documents: none is refused, sent back or told a warning; each gives its value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from atc import Agent, Effect, Toolset
from tests.support.tools import make_tool

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
FILM = {"id": 7, "title": "Dune", "production_companies": [{"name": "L", "origin_country": "US"}], "rating": "8.1"}
FOOD = {"id": "f1", "nutrients": [{"name": "fat", "amount": 3.5, "unit": "g"}], "labels": ["raw"]}
PAGE = {"results": [FILM, FILM | {"id": 8, "title": "Heat"}], "total_results": 2}


def record(**properties: Any) -> dict[str, Any]:
    """The schema of an object, which says nothing of other keys."""
    return {"type": "object", "properties": properties}


def lists(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


class Services:
    """Tools whose documents leave out keys, and are wrong about types; and what was written."""

    def __init__(self) -> None:
        self.saved: list[Any] = []
        film = record(id=NUMBER, title=TEXT, rating={"type": "number"})
        self.tools = Toolset(
            [
                make_tool("search_films", lambda a: PAGE, returns=record(results=lists(film)), query=TEXT),
                make_tool("get_film", lambda a: FILM, returns=film, required=("film_id",), film_id=NUMBER),
                make_tool("get_food", lambda a: FOOD, returns=record(nutrients=lists(record(name=TEXT))), food=TEXT),
                make_tool("list_ids", lambda a: [7, 8], returns=lists(TEXT)),
                make_tool("status", lambda a: {"up": True}, returns=TEXT),
                make_tool("raw", lambda a: {"a": {"b": [1, {"c": 2}]}}),
                make_tool("save", self.save, Effect.WRITE, returns=record(ok={"type": "boolean"}), note=TEXT),
            ]
        )

    def save(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.saved.append(arguments["note"])
        return {"ok": True, "number": len(self.saved)}


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[Services, Agent]]:
    made = Services()
    with Agent(made.tools, approve="always") as agent:
        yield made, agent


RIGHT = [
    ("answer = get_film(film_id=7)['production_companies'][0]['name']", "L"),
    ("film = get_film(film_id=7)\nanswer = [c['origin_country'] for c in film['production_companies']]", ["US"]),
    ("answer = get_food(food='egg')['nutrients'][0]['amount']", 3.5),
    ("answer = {n['name']: n['amount'] for n in get_food()['nutrients']}", {"fat": 3.5}),
    ("answer = sum(n['amount'] for n in get_food()['nutrients'] if n['unit'] == 'g')", 3.5),
    ("answer = max(get_food()['nutrients'], key=lambda n: n['amount'])['unit']", "g"),
    ("answer = get_food()['labels'][-1].upper()", "RAW"),
    ("answer = search_films(query='x')['total_results']", 2),
    ("answer = [f['production_companies'][0]['name'] for f in search_films()['results']]", ["L", "L"]),
    ("for f in search_films()['results']:\n    if f['title'] == 'Heat':\n        answer = f['id']", 8),
    ("answer = [get_film(film_id=n)['title'] for n in list_ids()]", ["Dune", "Dune"]),
    ("answer = get_film(film_id=list_ids()[0])['id']", 7),
    ("answer = [get_film(film_id=f['id'])['title'] for f in search_films()['results']]", ["Dune", "Dune"]),
    ("answer = float(get_film(film_id=7)['rating']) + 1", 9.1),
    ("answer = get_film(film_id=7)['rating'].split('.')[0]", "8"),
    ("answer = status()['up']", True),
    ("s = status()\nanswer = [k for k in s]", ["up"]),
    ("answer = sum(list_ids())", 15),
    ("answer = list_ids()[1] - list_ids()[0]", 1),
    ("answer = raw()['a']['b'][1]['c']", 2),
    ("def first(film):\n    return film['production_companies'][0]\nanswer = first(get_film(film_id=7))['name']", "L"),
    ("film = {**get_film(film_id=7)}\nanswer = film['production_companies'][0]['name']", "L"),
    ("from dataclasses import dataclass\n@dataclass\nclass Film:\n    by: str\n"
     "answer = Film(get_film(film_id=7)['production_companies'][0]['name']).by", "L"),
    ("rows = []\nfor f in search_films()['results']:\n    rows.append({'n': f['id'], 'c': f['production_companies']})\n"
     "answer = [r['n'] for r in rows if r['c']]", [7, 8]),
    ("film = get_film(film_id=7)\nanswer = film.get('director', film['production_companies'][0]['name'])", "L"),
    ("film = get_film(film_id=7)\nanswer = film['director'] if 'director' in film else 'none'", "none"),
    ("try:\n    answer = get_film(film_id=7)['director']\nexcept KeyError:\n    answer = 'none'", "none"),
    ("film = get_film(film_id=7)\nanswer = film.get('director') and film['director']", None),
    ("films = search_films().get('items') or search_films()['results']\nanswer = len(films)", 2),
    ("a, b = parallel(lambda: get_film(film_id=7), lambda: get_food())\n"
     "answer = [a['production_companies'][0]['name'], b['labels'][0]]", ["L", "raw"]),
    ("import json\nanswer = json.loads(json.dumps(get_film(film_id=7)))['production_companies'][0]['name']", "L"),
    ("from collections import Counter\n"
     "answer = Counter(c['name'] for f in search_films()['results'] for c in f['production_companies'])['L']", 2),
    ("match get_film(film_id=7):\n    case {'production_companies': [{'name': name}]}:\n        answer = name", "L"),
    ("save(note=get_film(film_id=7)['production_companies'][0]['name'])\nanswer = 1", 1),
    ("names = [f['production_companies'][0]['name'] for f in search_films()['results']]\n"
     "for name in names:\n    save(note=name)\nanswer = names", ["L", "L"]),
    ("film = get_food()\nif film['labels']:\n    save(note='yes')\nanswer = film['nutrients'][0]['name']", "fat"),
    ("answer = save(note='x')['ok']", True),
    ("done = save(note='x')\nanswer = done.get('number') is not None", True),
    ("notes = get_food()['labels']\nanswer = [save(note=note)['ok'] for note in notes]", [True]),
    ("answer = get_film(film_id='7')['production_companies'][0]['name']", "L"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "value"), RIGHT)
def test_a_right_program_runs_at_once(services: tuple[Services, Agent], program: str, value: Any) -> None:
    result = services[1].run_program(program)
    assert (result.status, result.value) == ("answered", value), result.fault or result.revisions
    assert [revision.all_findings for revision in result.revisions] == [()]


WRONG = [
    ("answer = get_film(film_id=7)['companies']", "unknown_field"),
    ("answer = [n['grams'] for n in get_food()['nutrients']]", "unknown_field"),
    ("answer = search_films()['results']['title']", "unknown_field"),
    ("answer = get_film(film_id='Dune')", "wrong_type"),
    ("answer = get_film(film=7)", "missing_argument"),
    ("answer = get_films(film_id=7)", "undefined_name"),
    ("save(text='x')\nanswer = 1", "unknown_argument"),
]


@pytest.mark.parametrize(("program", "kind"), WRONG)
def test_a_wrong_program_is_told_what_was_found(services: tuple[Services, Agent], program: str, kind: str) -> None:
    result = services[1].run_program(program)
    assert result.status == "unsolved"
    assert kind in {finding.kind for revision in result.revisions for finding in revision.all_findings}
