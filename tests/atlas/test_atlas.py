"""What a user may count on from Atlas, its HTTP service and its tasks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import httpx
import jsonschema_rs
import pytest

from atc import Agent, FakeModel
from atc._host.files import resource_dir
from atc.atlas import Atlas, TripStore, atlas_toolset, data
from atc.atlas.catalogue import call_examples
from atc.atlas.server import Documented, create_app, openapi_document
from atc.errors import EnvironmentProblem, ToolError, UsageError
from atc.result import Effect
from atc.tools.documents import dump_protocols
from atc.tools.sources import open_tools
from atc.tools.stubs import render_stubs
from atc.tools.tool import Toolset
from benchmarks.environments.atlas_tasks import check, load_tasks, problems, reference_answer

LYON = 2996944


def call(tools: Toolset, name: str, /, **arguments: Any) -> Any:
    transport = tools[name].transport
    assert transport is not None
    return anyio.run(transport, arguments)


@pytest.fixture
def tools() -> Toolset:
    return atlas_toolset()


# The tools ----------------------------------------------------------------------------------------------------------


def test_every_tool_is_fully_documented(tools: Toolset) -> None:
    assert len(tools) >= 25
    for known in tools.protocols:
        assert known.description, known.name
        assert known.effect is not Effect.UNKNOWN, known.name
        assert known.returns is not None, known.name
        assert known.examples, known.name
        assert known.parameters["additionalProperties"] is False
    writes = [known.name for known in tools.protocols if known.effect is Effect.WRITE]
    assert writes == ["create_trip", "add_stop", "pay_deposit", "cancel_stop", "cancel_trip"]


def test_every_example_is_what_the_tool_answers_and_fits_its_schemas(tools: Toolset) -> None:
    responses = anyio.run(call_examples, tools)
    assert responses.keys() == set(tools)
    for known in tools.protocols:
        assert known.returns is not None
        example = known.examples[0]
        stale = "run atc.atlas.catalogue.record_examples() after an update of the data packages"
        assert example.response == responses[known.name], f"{known.name}: {stale}"
        jsonschema_rs.validator_for(known.parameters, validate_formats=True).validate(example.arguments)
        jsonschema_rs.validator_for(known.returns, validate_formats=True).validate(responses[known.name])


def test_the_bundled_documents_are_what_the_code_says(tools: Toolset, tmp_path: Path) -> None:
    bundled = resource_dir("protocols") / "atlas"
    dump_protocols(tools, tmp_path)
    stale = "dump_protocols(atlas_toolset(), 'protocols/atlas'), and delete the documents of tools that are gone"
    assert sorted(file.name for file in bundled.iterdir()) == sorted(file.name for file in tmp_path.iterdir()), stale
    for file in tmp_path.iterdir():
        assert (bundled / file.name).read_bytes() == file.read_bytes(), f"{file.name}: {stale}"


def test_the_bundled_documents_give_the_same_stubs(tools: Toolset) -> None:
    documented = open_tools(["atlas"]).documented(resource_dir("protocols") / "atlas")
    assert documented.protocols == tools.protocols
    assert render_stubs(documented.protocols) == render_stubs(tools.protocols)
    by_name = {protocol.name: protocol for protocol in Toolset.from_protocols(resource_dir("protocols")).protocols}
    assert by_name == {protocol.name: protocol for protocol in tools.protocols}


def test_building_the_toolset_loads_no_data() -> None:
    script = (
        "import sys; from atc.atlas import atlas_toolset; tools = atlas_toolset();"
        f"loaded = set({list(data.PACKAGES)!r}) & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "PACKAGES", ("airportsdata", "a_package_that_is_not_there"))
    with pytest.raises(EnvironmentProblem, match=r"a_package_that_is_not_there: run `pip install .*\[a"):
        atlas_toolset()


def test_an_ambiguous_name_gives_all_its_cities_the_largest_first(tools: Toolset) -> None:
    found = call(tools, "find_cities", name="valencia")
    assert {city["country_code"] for city in found["cities"]} >= {"ES", "VE"}
    assert all(city["name"] == "Valencia" for city in found["cities"][:2])
    populations = [city["population"] for city in found["cities"] if city["name"] == "Valencia"]
    assert populations == sorted(populations, reverse=True)
    assert call(tools, "find_cities", name="Londres", country_code="GB")["cities"][0]["name"] == "London"
    assert call(tools, "find_cities", name="no such city") == {"total": 0, "cities": []}


def test_the_sky_knows_polar_day_polar_night_and_sunsets_past_midnight(tools: Toolset) -> None:
    tromso = call(tools, "find_cities", name="Tromso", country_code="NO")["cities"][0]["city_id"]
    winter = call(tools, "sun_times", city_id=tromso, date="2026-12-21")
    summer = call(tools, "sun_times", city_id=tromso, date="2026-06-21")
    assert (winter["status"], winter["sunrise"], winter["day_length_minutes"]) == ("polar_night", None, 0)
    assert (summer["status"], summer["sunset"], summer["day_length_minutes"]) == ("polar_day", None, 1440)
    reykjavik = call(tools, "find_cities", name="Reykjavik")["cities"][0]["city_id"]
    late = call(tools, "sun_times", city_id=reykjavik, date="2026-06-21")
    assert late["sunset"].startswith("2026-06-22T00:")
    assert 1250 < late["day_length_minutes"] < 1300
    assert call(tools, "moon_phase", date="2026-03-03")["phase"] == "full_moon", "there was a lunar eclipse"


@pytest.mark.parametrize(
    ("name", "arguments", "status", "words"),
    [
        ("get_city", {"city_id": 1}, "not_found", "city_id 1: find_cities"),
        ("get_country", {"country_code": "XX"}, "not_found", "'XX'"),
        ("get_airport", {"iata": "QQQ"}, "not_found", "'QQQ'"),
        ("get_currency", {"currency_code": "QQQ"}, "not_found", "'QQQ'"),
        ("get_language", {"language_code": "qqq"}, "not_found", "'qqq'"),
        ("flight_time", {"from_iata": "LYS", "to_iata": "LYS"}, "invalid_arguments", "two airports"),
        ("utc_offset", {"timezone": "../etc/passwd", "local_time": "2026-01-01T00:00:00"}, "not_found", "time zone"),
        ("utc_offset", {"timezone": "UTC", "local_time": "2026-01-01T00:00:00Z"}, "invalid_arguments", "offset"),
        ("count_days", {"country_code": "FR", "start": "2026-02-01", "end": "2026-01-01"}, "invalid_arguments", "befo"),
        ("convert_units", {"value": 1, "from_unit": "9**9**9", "to_unit": "meter"}, "not_found", "list_units"),
        ("convert_units", {"value": 1, "from_unit": "day", "to_unit": "meter"}, "invalid_arguments", "measures time"),
        ("get_city", {"city_id": "Lyon"}, "invalid_arguments", "city_id"),
        ("get_trip", {"trip_id": "trip_9"}, "not_found", "list_trips"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_says_why(
    tools: Toolset, name: str, arguments: dict[str, Any], status: str, words: str
) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        call(tools, name, **arguments)
    assert (caught.value.status, caught.value.outcome) == (status, "refused")


# Trips --------------------------------------------------------------------------------------------------------------


def test_a_trip_keeps_its_sums_and_refuses_what_contradicts_it(tools: Toolset) -> None:
    trip = call(tools, "create_trip", name="Spring", currency_code="EUR")["trip_id"]
    with pytest.raises(ToolError, match="no active stop"):
        call(tools, "pay_deposit", trip_id=trip, amount=10, currency_code="EUR")
    call(tools, "add_stop", trip_id=trip, city_id=LYON, arrival="2026-04-07", nights=3)
    with pytest.raises(ToolError, match="overlaps stop_1 in Lyon") as caught:
        call(tools, "add_stop", trip_id=trip, city_id=LYON, arrival="2026-04-09", nights=1)
    assert caught.value.status == "conflict"
    added = call(tools, "add_stop", trip_id=trip, city_id=LYON, arrival="2026-04-10", nights=2)
    assert (added["stop"]["stop_id"], added["stop"]["departure"]) == ("stop_2", "2026-04-12")
    with pytest.raises(ToolError, match="in EUR, not in USD"):
        call(tools, "pay_deposit", trip_id=trip, amount=10, currency_code="USD")
    assert call(tools, "pay_deposit", trip_id=trip, amount=10.5, currency_code="EUR")["trip_status"] == "deposit_paid"
    left = call(tools, "cancel_stop", trip_id=trip, stop_id="stop_1")
    assert (left["total_nights"], left["total_paid"], left["start"]) == (2, 10.5, "2026-04-10")
    assert call(tools, "cancel_trip", trip_id=trip)["status"] == "cancelled"
    with pytest.raises(ToolError, match="trip_1 is cancelled"):
        call(tools, "add_stop", trip_id=trip, city_id=LYON, arrival="2026-05-01", nights=1)
    assert call(tools, "list_trips", status="cancelled")["trips"] == [
        {"trip_id": "trip_1", "name": "Spring", "status": "cancelled", "stop_count": 0}
    ]


def test_trips_live_as_long_as_their_store(tmp_path: Path) -> None:
    assert Atlas().trips.state() == []
    file = tmp_path / "trips.json"
    tools = atlas_toolset(Atlas(TripStore(file)))
    call(tools, "create_trip", name="A", currency_code="EUR")
    call(tools, "add_stop", trip_id="trip_1", city_id=LYON, arrival="2026-04-07", nights=3)
    again = Atlas(TripStore(file))
    assert again.trips.state() == json.loads(file.read_text(encoding="utf-8"))
    assert call(atlas_toolset(again), "create_trip", name="B", currency_code="EUR")["trip_id"] == "trip_2"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match=r"trips\.json is no file of trips"):
        TripStore(file)


# The service --------------------------------------------------------------------------------------------------------


def exchange(*requests: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
    async def main() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://atlas") as client:
            return [await client.request(method, path, **options) for method, path, options in requests]

    return anyio.run(main)


def test_the_service_answers_as_the_tools_do(tools: Toolset) -> None:
    new = {"name": "A", "currency_code": "EUR"}
    city, far, twice, created, body, missing, wrong = exchange(
        ("GET", "/get_city", {"params": {"city_id": LYON}}),
        ("GET", "/list_cities", {"params": {"country_code": "PT", "limit": 2, "min_population": ""}}),
        ("GET", "/create_trip", {"params": new}),
        ("POST", "/create_trip", {"json": new}),
        ("POST", "/create_trip", {"content": b"[1"}),
        ("GET", "/get_city", {"params": {"city_id": 1}}),
        ("GET", "/get_city", {"params": {"city_id": "Lyon", "more": 1}}),
    )
    assert city.json() == call(tools, "get_city", city_id=LYON)
    assert far.json() == call(tools, "list_cities", country_code="PT", limit=2)
    assert twice.status_code == 405, "a write is not made by reading"
    assert created.json() == call(tools, "create_trip", **new)
    assert (body.status_code, body.json()["error"]["status"]) == (422, "invalid_arguments")
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "not_found")
    assert wrong.status_code == 422
    assert "city_id" in wrong.json()["error"]["message"]


def test_importing_the_services_document_gives_the_same_protocols(tools: Toolset) -> None:
    imported = Toolset.from_openapi(openapi_document(tools, base_url="http://127.0.0.1:8765"))
    assert list(imported) == list(tools)
    for known in tools.protocols:
        again = imported[known.name].protocol
        assert again.parameters == known.parameters
        assert again.returns == known.returns
        assert again.effect is known.effect
        assert again.description.endswith(known.description)


@pytest.mark.parametrize(("documented", "described"), [("described", True), ("bare", False)])
def test_the_document_can_say_less(tools: Toolset, documented: Documented, described: bool) -> None:
    text = json.dumps(openapi_document(tools, documented=documented)["paths"])
    assert '"operationId": "find_cities"' in text
    assert '"name": "min_population"' in text
    assert ("Find cities by name" in text) is described
    assert ("how many cities" in text) is described
    for kept in ("integer", "pattern", "$ref", "example", "404", "Names are ambiguous"):
        assert kept not in text


# The tasks ----------------------------------------------------------------------------------------------------------


def test_every_task_is_what_it_says_and_its_reference_program_solves_it() -> None:
    tasks = load_tasks()
    assert Counter(task.depth for task in tasks) == {"shallow": 14, "middle": 16, "deep": 10}
    assert sum(task.writes > 0 for task in tasks) == 10
    assert len({task.id for task in tasks}) == len({task.task for task in tasks}) == len(tasks)
    found = {}
    for task in tasks:
        run = reference_answer(task)
        found[task.id] = problems(task, run)
        assert (run.trips != []) is (task.writes > 0)
        assert not {call.tool for call in run.calls} - set(task.tools)
        assert len(set(task.tools)) > len({call.tool for call in run.calls}), f"{task.id} offers no other tool"
    assert not {task: listed for task, listed in found.items() if listed}


def test_the_same_task_gives_the_same_answer() -> None:
    (task,) = (task for task in load_tasks() if task.id == "keep-the-nearer-trip")
    assert reference_answer(task) == reference_answer(task)


@pytest.mark.parametrize(
    ("value", "expected", "verdict"),
    [
        (943, 943, True),
        ("943 minutes", 943, True),
        ("1,513.4 km", 1513, True),
        ("1513 km/h.", 1513, True),
        (948, 943, False),
        (946, 943, True),
        (0.009, 0, True),
        ("about 943", 943, False),
        ("12h30", 12, False),
        ("1,5", 15, False),
        (True, 1, False),
        (None, 0, False),
        (" rome", "Rome", True),
        ("Rome, Italy", "Rome", False),
        ("yes", True, True),
        (1, True, False),
        (["a", "B"], ["A", "b"], True),
        (["b", "a"], ["a", "b"], False),
        (["a"], ["a", "a"], False),
        ({"City": "lyon", "km": "3 km"}, {"city": "Lyon", "km": 3}, True),
        ({"city": "Lyon"}, {"city": "Lyon", "km": 3}, False),
        (None, None, True),
        ("", None, False),
    ],
)
def test_answers_are_judged_by_what_they_mean(value: Any, expected: Any, verdict: bool) -> None:
    assert check(value, expected) is verdict


def test_the_order_of_a_list_is_free_only_where_the_task_says_so() -> None:
    assert check(["b", "a", "a"], ["a", "a", "b"], unordered=True)
    assert not check(["b", "b", "a"], ["a", "a", "b"], unordered=True)


def test_on_a_bad_day_another_tool_gives_the_length_of_the_day() -> None:
    tools = open_tools(["atlas:broken"])
    city = "city = find_cities(name='Lyon', country_code='FR')['cities'][0]['city_id']\n"
    old = f"```python\n{city}answer = sun_times(city_id=city, date='2026-06-21')['day_length_minutes']\n```"
    new = old.replace("sun_times", "daylight")
    with Agent(tools, model=FakeModel([old, new, new]), sentence=False, keep_runs=False) as agent:
        result = agent.run("How many minutes long is the day in Lyon, France, on 2026-06-21?")
    assert (result.status, result.value) == ("answered", 943)
    assert result.revisions[-1].substituted == (("sun_times", "daylight"),)
