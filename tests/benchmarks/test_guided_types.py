"""What the types of tools allow at each place of a program that is being written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from atc.result import Effect
from benchmarks.guided_lines import completed, program_start, statement_end, statements
from benchmarks.guided_right import Counts, look, main
from benchmarks.guided_types import MAX_CHOICES, Departure, Types, quoted
from benchmarks.right_programs import RightProgram
from tests.support.tools import make_tool

TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def record(closed: bool = False, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": fields, "required": [*fields]}
    return made | {"additionalProperties": False} if closed else made


FILM = record(film_id=TEXT, title=TEXT, year=NUMBER)
FILMS_TYPE = {"type": "array", "items": FILM}
CLOSED = record(closed=True, director_id=TEXT, name=TEXT)
TOOLS = [
    make_tool("find_films", None, required=("text",), returns=record(films=FILMS_TYPE), text=TEXT),
    make_tool("get_film", None, required=("film_id",), returns=FILM, film_id=TEXT),
    make_tool("get_director", None, required=("film_id",), returns=CLOSED, film_id=TEXT),
    make_tool("get_rows", None, returns={"type": "array", "items": FILM}),
    make_tool("rate", None, Effect.WRITE, required=("film_id", "tags"), returns=None, film_id=TEXT,
              tags={"type": "array", "items": TEXT}),
    make_tool("anything", None, returns=None),
]  # fmt: skip
TASK = "Who made the film Solaris, and what is its box office?"
FIRST = 'found = find_films(text="Solaris")\n'
FILMS = FIRST + 'film = found["films"][0]\n'


def found(before: str, statement: str, task: str = TASK) -> list[tuple[str, str, tuple[str, ...], bool]]:
    """The departures of a statement: kind, what stands there, what may, and whether nothing else can."""
    types, code = Types([tool.protocol for tool in TOOLS], task), before + statement
    return [
        (each.kind, code[each.at : each.until], each.choices, each.only) for each in types.departures(code, len(before))
    ]


def test_a_key_that_an_open_document_does_not_name_is_weighed_against_those_that_it_names() -> None:
    assert found(FILMS, 'answer = film["name"]\n') == [("key", 'name"]', ('film_id"]', 'title"]', 'year"]'), False)]
    assert found(FILMS, "answer = film['name']\n") == [("key", "name']", ("film_id']", "title']", "year']"), False)]
    assert found(FILMS, 'answer = film["title"]\n') == []


def test_where_the_document_is_closed_nothing_else_can_be() -> None:
    before = 'director = get_director(film_id="f1")\n'
    assert found(before, 'answer = director["title"]\n') == [("key", 'title"]', ('director_id"]', 'name"]'), True)]
    assert found(before, 'answer = director.get("title")\n') == [("key", 'title"', ('director_id"', 'name"'), False)]


def test_a_key_whose_words_stand_in_the_task_is_never_touched() -> None:
    assert found(FILMS, 'answer = film["box_office"]\n') == []
    assert found('director = get_director(film_id="f1")\n', 'answer = director["box_office"]\n') == []
    assert found(FILMS, 'answer = film["box_size"]\n') != []


def test_variables_that_the_statement_itself_binds_have_their_types() -> None:
    (departure,) = found(FIRST, 'answer = [each["name"] for each in found["films"]]\n')
    assert departure[:2] == ("key", 'name"]')
    (departure,) = found(FIRST + 'for each in found["films"]:\n', '    print(each["name"])\n')
    assert departure[:2] == ("key", 'name"]')


def test_what_the_types_do_not_know_is_left_alone() -> None:
    for statement in ('answer = anything(n=1)["x"]\n', 'own = {"a": 1}\nanswer = own["b"]\n', 'answer = "%s" % film\n'):
        assert found(FILMS, statement) == []


def test_a_program_that_is_ready_for_the_key_not_to_be_there_is_left_alone() -> None:
    assert found(FILMS + "try:\n", '    answer = film["name"]\n') == []
    assert found(FILMS, 'answer = film["name"] if "name" in film else None\n') == []


def test_levels_that_were_skipped() -> None:
    (departure,) = found("rows = get_rows(n=1)\n", 'answer = rows["title"]\n')
    assert departure == ("nesting", '["title"]', ('[0]["film_id"]', '[0]["title"]', '[0]["year"]'), False)
    assert found(FIRST, "film = found[0]\n") == [("nesting", "[0]", ('["films"][0]',), False)]
    assert found(FIRST, "for film in found:\n") == [("nesting", ":", ('["films"]:',), False)]


def test_arguments_and_tools_that_do_not_exist() -> None:
    assert found("", 'film = get_film(film="f1")\n')[0] == ("argument", "film=", ("film_id=",), True)
    departure = found("", 'film = get_film(film_id="Solaris", year=1972)\n')[-1]
    assert departure == ("argument", "year=", (")",), True), "the call may end there"
    (departure,) = found("", 'film = get_movie(film_id="f1")\n')
    assert departure[:2] == ("name", "get_movie(")
    assert departure[2] == tuple(f"{tool.name}(" for tool in TOOLS)
    assert found("def later():\n", '    return get_movie(film_id="f1")\n') == [], "it may be defined by then"


def test_an_id_that_nobody_gave_can_only_be_one_that_a_tool_supplies() -> None:
    (departure,) = found(FILMS, 'director = get_director(film_id="tt0069293")\n')
    at_hand = ('found["films"][0]["film_id"])', 'film["film_id"])')
    assert departure == ("id", '"tt0069293")', (*at_hand, "find_films(", "get_rows("), True)
    assert found("", 'director = get_director(film_id="tt0069293")\n')[0][2] == ("find_films(", "get_rows(")
    assert found(FILMS, 'd = get_director(film_id="tt0069293")\n', "Who made tt0069293?") == []
    (departure,) = found(FILMS, 'director = get_director(film_id=film["title"])\n')
    assert (departure[0], departure[3]) == ("id", False)


def test_whole_objects_and_single_values() -> None:
    kinds = {each[0]: each for each in found(FILMS, "d = get_director(film_id=film)\n")}
    assert kinds["whole"][1:3] == ("film)", ('film["film_id"])', 'film["title"])'))
    (departure,) = found(FILMS, 'rate(film_id=film["film_id"], tags="slow")\n')
    assert departure == ("whole", '"slow")', ('["slow"])',), False)


def test_places_behind_letters_of_several_bytes() -> None:
    assert found(FILMS, 'answer = "é" + film["näme"] + film["title"]\n')[0][1] == 'näme"]'


@pytest.mark.parametrize(
    ("before", "statement", "wrong"),
    [
        ("", "import requests\n", True),
        ("", "answer = 3 +\n", True),
        ("", "answer = nowhere + 1\n", True),
        ("def f():\n", "    return nowhere + 1\n", False),
        ("", "answer = get_film()\n", True),
        (FILMS, 'answer = film["name"]\n', False),
        ("try:\n", '    film = get_film(film_id="f1")\n', False),
        ("", "@staticmethod\n", False),
        ("match 3:\n", "    case 4:\n", False),
        ("", "return 3\n", False),
    ],
    ids=["import", "syntax", "name", "in a function", "missing", "open key", "try", "decorator", "match", "return"],
)
def test_only_the_errors_of_the_check_are_certain(before: str, statement: str, wrong: bool) -> None:
    types = Types([tool.protocol for tool in TOOLS], TASK)
    assert bool(types.certainly_wrong(before + statement, len(before))) is wrong


def test_keys_are_written_as_texts_or_not_at_all() -> None:
    assert quoted("it's", "'") == "it\\'s'"
    assert quoted('"] + 1 #', '"') == '\\"] + 1 #"'
    assert quoted("back\\slash", '"') == 'back\\\\slash"'
    assert quoted("two\nlines", '"') is None


def test_of_too_many_choices_none_is_offered() -> None:
    fields = {f"key_{number}": TEXT for number in range(MAX_CHOICES + 1)}
    types = Types([make_tool("wide", None, returns=record(closed=True, **fields)).protocol], "")
    assert types.departures('answer = wide(n=1)["other"]\n', 0) == []


# -- lines -------------------------------------------------------------------------------------------------------------


def test_where_statements_end() -> None:
    code = 'a = [1,\n  2]  # one [\nb = """x\ny"""\nc = \'(\'\nif a:\n    d = 1 + \\\n 2\n'
    assert [code[start:end] for start, end in statements(code)] == [
        "a = [1,\n  2]  # one [\n", 'b = """x\ny"""\n', "c = '('\n", "if a:\n", "    d = 1 + \\\n 2\n",
    ]  # fmt: skip
    assert statement_end("a = [1,\n", 0) is None
    assert statement_end('a = """x\n', 0) is None
    assert program_start("So:\n```python\na = 1\n") == 14
    assert program_start("a = 1\n") is None


def test_open_blocks_get_what_they_lack() -> None:
    code = "try:\n    for a in b:\n        if a:\n"
    assert completed(code) == code + "            pass\nexcept Exception:\n    pass\n"
    assert (
        completed("try:\n    a = 1\nexcept KeyError:\n    a = 2\n") == "try:\n    a = 1\nexcept KeyError:\n    a = 2\n"
    )
    assert completed("a = 1\n") == "a = 1\n"
    for code in ("@x\n", "match a:\n", "class A:\n", "try:\n    pass\nfinally:\n", "if a:\n    pass\nelse:\n"):
        compile(completed(code), "", "exec")


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions are called."""
    count = 0

    def counted(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_work_grows_with_the_names_not_faster() -> None:
    def looking(size: int) -> Callable[[], list[Departure]]:
        types = Types([tool.protocol for tool in TOOLS], TASK)
        code = FILMS + "".join(f'name_{number} = film["title"]\n' for number in range(size))
        last = 'answer = get_director(film_id="tt0069293")\n'
        return lambda: types.departures(code + last, len(code))

    calls_of(looking(5))
    small, large = calls_of(looking(15)), calls_of(looking(60))
    assert large < 5 * small


def test_right_programs_raise_no_alarm_and_spoiled_ones_are_seen() -> None:
    source = "r0 = find_films(text='Solaris')\nr1 = get_film(film_id=r0['films'][0]['film_id'])\nanswer = r1['title']\n"
    counts, types = Counts(), Types([tool.protocol for tool in TOOLS], TASK)
    look(counts, types, RightProgram(source, {}))
    look(counts, types, RightProgram("r0 = get_film(film_id='tt1')\nanswer = r0['title']\n", {1: ["tt1"]}))
    assert (counts.programs, counts.statements, counts.alarms, counts.wrong) == (2, 5, {}, 0)
    assert counts.given_by_nobody == 1
    assert (counts.keys_seen, counts.keys, counts.levels_seen, counts.levels) == (4, 4, 1, 1)


@pytest.mark.slow
def test_the_bundled_tasks_own_solutions_raise_no_alarm() -> None:
    app = Typer()
    app.command()(main)
    ran = CliRunner().invoke(app, ["--env", "atlas", "--sample", "2", "--json"])
    assert ran.exit_code == 0, ran.output
    counts = json.loads(ran.stdout)["atlas"]
    assert (counts["programs"], counts["alarms"], counts["wrong"]) == (2, {}, 0)
    assert counts["keys_seen"] == counts["keys"] > 0
    assert "keys" in CliRunner().invoke(app, ["--env", "atlas", "--sample", "1"]).stdout
