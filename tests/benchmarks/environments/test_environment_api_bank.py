"""API-Bank: its services do what their documents say, and a task is solved by what is left and what was looked up."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.tools.stubs import render_stubs
from benchmarks.environments import Task
from benchmarks.environments.api_bank import ApiBank
from benchmarks.environments.api_bank_service import Services, best_two
from benchmarks.environments.api_bank_words import alike, in_text, measured, typed, words
from benchmarks.environments.self_test import judge
from tests.support.tools import call

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(
    DATA is None, reason="ATC_DATA names no data directory: this data is not in the repository"
)

TODAY = "2031-05-02"
TABLES: dict[str, Any] = {
    "Account": {"ann": {"password": "Pw1", "token": "tok-ann", "email": "ann@a.example"}},
    "Agenda": {"1": {"content": "Meet the bank", "time": "2031-05-04", "location": "5 High St", "username": "ann"}},
    "Alarm": {"3": {"time": "2031-05-03 07:00:00", "username": "ann"}},
    "Appointments": {"111": {"patient_name": "Ann Lee", "date": "2031-06-01", "doctor_name": "Dr. Poe"}},
    "Bank": {"ann": {"balance": 12.5}},
    "HealthData": {"P1": [{"time": "2031-05-01 10:00:00", "heart_rate": 70}]},
    "Hotel": {},
    "ImageCaptioning": [{"url": "http://a.example/1.jpg", "caption": "a cat"}],
    "Meeting": {},
    "QuestionAnswering": {"http://a.example/1.txt": [{"question": "Who wrote it?", "answer": "Eve did."}]},
    "Reminder": {"1": {"content": "Ring Zoe", "time": "2031-05-03 14:30:00", "username": "ann"}},
    "Scenes": {"party time": [{"name": "tv", "description": "a TV"}]},
    "SearchEngine": {
        "raw_documents": [{"title": title} for title in ("On bees", "On honey", "On cars")],
        "tokenized_documents": [["on", "bees", "and", "bees"], ["honey", "of", "bees"], ["on", "cars"]],
    },
    "Stock": {"ABC": {"2031-01-02": 3.5}},
    "Symptom": {"cough": [{"name": "Cold", "description": "d", "aid": "tea"}]},
    "TimeSwitch": {"tv": [{"time": "2031-05-03 20:00:00", "on": True}]},
    "Wiki": {},
    "SpeechRecognition": {},
    "History": {"05-02": [{"Title": "A day", "Date": "1900-05-02"}]},
}
MOMENT = "Format: %Y-%m-%d %H:%M:%S"


def document(name: str, returns: str, **parameters: tuple[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"It is {name}.",
        "returns": {"it": {"type": returns, "description": ""}},
        "parameters": {key: {"type": kind, "description": text} for key, (kind, text) in parameters.items()},
    }


DOCUMENTS = [
    document("GetUserToken", "str", username=("str", ""), password=("str", "")),
    document("AddReminder", "str", token=("str", ""), content=("str", ""), time=("str", MOMENT)),
    document("DeleteReminder", "str", token=("str", ""), content=("str", ""), time=("str", MOMENT)),
    document("AddMeeting", "str", token=("str", ""), attendees=("list(str)", "")),
    document("AddAgenda", "str", token=("str", ""), content=("str", "")),
    document("GetToday", "str"),
    document("QueryStock", "float", stock_code=("str", ""), date=("str", "Format: %Y-%m-%d")),
    document("RecordHealthData", "str", user_id=("str", ""), time=("str", MOMENT), health_data=("list", "")),
    document("Translate", "str", src=("str", ""), src_lang=("str", "[Optional] it"), tgt_lang=("str", "[Optional]")),
    document("BookHotel", "str", hotel_name=("str", ""), room_count=("int", ""), pets=("bool", "")),
    document("ToolSearcher", "list", keywords=("str", "")),
]


def dialogue(id: str, turns: list[str], *calls: tuple[str, dict[str, Any], Any]) -> dict[str, Any]:
    gold = [{"tool": tool, "args": arguments, "output": output} for tool, arguments, output in calls]
    return {"id": id, "level": 1, "turns": turns, "gold": gold}


ABC = {"stock_code": "ABC"}
LOGIN = ("GetUserToken", {"username": "ann", "password": "Pw1"}, {"token": "tok-ann"})
RECORDS = [
    dialogue(
        "remind",
        ["Remind me on May 4th at 3 PM to paint the fence.", "I am ann, my password is Pw1."],
        ("ToolSearcher", {"keywords": "remind"}, []),
        LOGIN,
        ("AddReminder", {"token": "tok-ann", "content": "Paint fence", "time": "2031-05-04 15:00:00"}, "success"),
    ),
    dialogue("today", ["What is the date?"], ("GetToday", {}, TODAY)),
    dialogue("stock", ["What is ABC worth on January 2?"], ("QueryStock", {**ABC, "date": "2031-01-02"}, 3.5)),
    dialogue(
        "health",
        ["Note for P1 at 2031-05-02 09:00:00 a blood pressure of 120/80."],
        (
            "RecordHealthData",
            {
                "user_id": "P1",
                "time": "2031-05-02 09:00:00",
                "health_data": "[{'name': 'blood_pressure', 'value': '120/80'}]",
            },
            "success",
        ),
    ),
    dialogue("french", ["Say Butter in French."], ("Translate", {"src": "Butter", "tgt_lang": "fr"}, "Beurre")),
    dialogue(
        "agenda",
        ["I am ann, password Pw1: note that I must pay the rent."],
        LOGIN,
        ("AddAgenda", {"token": "tok-ann", "content": "Pay rent"}, "success"),
    ),
    dialogue("unsaid", ["Get my token."], LOGIN),
    dialogue("otherwise", ["What is ABC worth?"], ("QueryStock", {"stock_code": "ABC", "date": "2031-01-02"}, 4.5)),
    dialogue("refused", ["What is XYZ worth?"], ("QueryStock", {"stock_code": "XYZ", "date": "2031-01-02"}, 4.5)),
    dialogue("nothing", ["Hello."]),
]


@pytest.fixture
def environment(tmp_path: Path) -> ApiBank:
    folder = tmp_path / "executable" / "api_bank"
    folder.mkdir(parents=True)
    for name, lines in (("tasks", RECORDS), ("tools", DOCUMENTS)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    with gzip.open(folder / "state.json.gz", "wt") as file:
        json.dump(TABLES, file)
    return ApiBank(tmp_path)


def task(environment: ApiBank, id: str) -> Task:
    return next(one for one in environment.tasks() if one.id == id)


def services() -> Services:
    return Services(TABLES, TODAY, {}, lambda tool, arguments: "777")


def use(made: Services, tool: str, **arguments: Any) -> Any:
    return made.functions()[tool](**arguments)


def test_its_own_solutions_pass_and_what_cannot_be_played_is_left_out(environment: ApiBank) -> None:
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (7, [], [], [])
    assert environment.left_out == {
        "otherwise": "query_stock answers otherwise",
        "refused": "there is no stock 'XYZ'",
        "nothing": "no calls",
    }


def test_a_solution_in_other_words_passes_and_one_that_does_too_much_does_not(environment: ApiBank) -> None:
    episode = environment.open(task(environment, "remind"))
    token = call(episode, "get_user_token", username="ann", password="Pw1")["token"]
    assert not episode.check(None)
    call(episode, "add_reminder", token=token, content="paint the fence", time="2031-05-04 15:00:00")
    assert episode.check("whatever is answered")
    call(episode, "delete_reminder", token=token, content="ring my Zoe", time="2031-05-03 14:30:00")
    assert not episode.check(None)


@pytest.mark.parametrize(
    "wrong",
    [{"content": "paint the door"}, {"time": "2031-05-04 03:00:00"}, {"content": "ring Zoe and paint all fences"}],
)
def test_another_change_solves_nothing(environment: ApiBank, wrong: dict[str, str]) -> None:
    episode = environment.open(task(environment, "remind"))
    token = call(episode, "get_user_token", username="ann", password="Pw1")["token"]
    call(episode, "add_reminder", **{"token": token, "content": "paint fence", "time": "2031-05-04 15:00:00", **wrong})
    assert not episode.check(None)


def test_measurements_count_by_their_numbers(environment: ApiBank) -> None:
    episode = environment.open(task(environment, "health"))
    measurement = {"name": "Blood Pressure", "value": "120 / 80 mmHg"}
    call(episode, "record_health_data", user_id="P1", time="2031-05-02 09:00:00", health_data=[measurement])
    assert episode.check(None)


def test_what_only_another_service_can_know_is_answered_from_the_record(environment: ApiBank) -> None:
    episode = environment.open(task(environment, "french"))
    with pytest.raises(ToolError, match="nothing was found"):
        call(episode, "translate", src="Bread", tgt_lang="fr")
    assert call(episode, "translate", src="butter", src_lang="en", tgt_lang="French") == "Beurre"
    assert episode.check(None)


def test_a_text_holds_the_user_s_turns_and_the_date_unless_it_is_asked_for(environment: ApiBank) -> None:
    assert task(environment, "today").text == "What is the date?"
    assert task(environment, "stock").text == f"What is ABC worth on January 2?\nToday is {TODAY}."
    assert "paint the fence.\nI am ann, my password is Pw1.\n" in task(environment, "remind").text


def test_a_task_that_does_not_say_its_arguments_is_not_stated(environment: ApiBank) -> None:
    assert [one.id for one in environment.tasks() if not one.stated] == ["unsaid"]


def test_documents_have_types_effects_and_no_search_for_tools(environment: ApiBank) -> None:
    episode = environment.open(task(environment, "remind"))
    stubs = render_stubs(episode.tools.protocols)
    assert "tool_searcher" not in stubs
    assert "time: Format: YYYY-MM-DD HH:MM:SS" in stubs
    effects = {name: tool.protocol.effect for name, tool in episode.tools.items()}
    assert (effects["get_user_token"], effects["add_reminder"]) == (Effect.READ, Effect.WRITE)


def test_no_rival_of_a_needed_tool_is_offered(environment: ApiBank) -> None:
    assert {"add_agenda", "add_meeting"} <= set(task(environment, "stock").tools)
    offered = task(environment, "agenda").tools
    assert "add_agenda" in offered
    assert "add_meeting" not in offered


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("get_user_token", {"username": "ann"}, "password is required"),
        ("get_user_token", {"username": "ann", "password": "no"}, "password is incorrect"),
        ("get_user_token", {"username": "bob", "password": "no"}, "no user 'bob'"),
        ("add_reminder", {"token": "no", "content": "x", "time": "2031-05-04 15:00:00"}, "token is invalid"),
        ("add_reminder", {"token": "tok-ann", "content": "x", "time": "tomorrow"}, "time must be of the form YYYY"),
        ("add_reminder", {"token": "tok-ann", "content": ["x"], "time": "tomorrow"}, "content must be of type string"),
        ("query_stock", {"stock_code": "ABC", "date": "2031-01-03"}, "no price of ABC"),
        ("record_health_data", {"user_id": "P1", "time": "2031-05-02 09:00:00", "health_data": [{}]}, "with a name"),
        ("record_health_data", {"user_id": "P1", "time": "2031-05-02 09:00:00", "health_data": "x"}, "type array"),
    ],
)
def test_a_wrong_call_is_refused_with_a_reason(
    environment: ApiBank, tool: str, arguments: dict[str, Any], words: str
) -> None:
    one = next(known for known in environment.tasks() if tool in known.tools)
    with pytest.raises(ToolError, match=words) as caught:
        call(environment.open(one), tool, **arguments)
    assert caught.value.outcome == "refused"


# Services -----------------------------------------------------------------------------------------------------------


def test_accounts_are_made_changed_and_deleted() -> None:
    made = services()
    assert use(made, "RegisterUser", username="bob", password="x", email="b@b.example") == {"token": "777"}
    with pytest.raises(ToolError, match="is taken"):
        use(made, "RegisterUser", username="bob", password="x", email="b@b.example")
    assert use(made, "CheckToken", token="777") == "bob"
    use(made, "ModifyPassword", token="777", old_password="x", new_password="y")
    assert use(made, "GetUserToken", username="bob", password="y") == {"token": "777"}
    code = use(made, "ForgotPassword", status="Forgot Password", username="bob", email="b@b.example")
    with pytest.raises(ToolError, match="code is incorrect"):
        use(made, "ForgotPassword", status="Verification Code", verification_code=1, new_password="z")
    use(made, "ForgotPassword", status="Verification Code", verification_code=code, new_password="z")
    assert use(made, "GetUserToken", username="bob", password="z") == {"token": "777"}
    assert use(made, "DeleteAccount", token="777") == {"status": "success"}
    assert TABLES["Account"].keys() == made.tables["Account"].keys() == {"ann"}


def test_a_calendar_row_is_found_in_the_user_s_words_and_never_another_user_s() -> None:
    made = services()
    row = use(
        made,
        "QueryAgenda",
        token="tok-ann",
        content="meeting the bank",
        time="2031-05-04 09:00:00",
        location="5 High St.",
    )
    assert row["content"] == "Meet the bank"
    with pytest.raises(ToolError, match="ann has no such reminder"):
        use(made, "DeleteReminder", token="tok-ann", content="Ring Max", time="2031-05-03 14:30:00")
    use(made, "ModifyReminder", token="tok-ann", content="Ring Max", time="2031-05-03 14:30:00")
    assert made.tables["Reminder"]["1"]["content"] == "Ring Max"
    use(made, "ModifyAlarm", token="tok-ann", from_time="2031-05-03 07:00:00", to_time="2031-05-03 08:00:00")
    use(made, "AddAlarm", token="tok-ann", time="2031-05-05 08:00:00")
    assert [row["time"] for row in made.tables["Alarm"].values()] == ["2031-05-03 08:00:00", "2031-05-05 08:00:00"]
    made.tables["Account"]["bob"] = {"password": "", "token": "tok-bob", "email": ""}
    with pytest.raises(ToolError, match="bob has no such alarm"):
        use(made, "DeleteAlarm", token="tok-bob", time="2031-05-03 08:00:00")


def test_the_hospital_the_bank_and_the_house() -> None:
    made = services()
    number = use(made, "AppointmentRegistration", patient_name="Bo", date="2031-07-01", doctor_name="Dr. No")
    use(
        made,
        "ModifyRegistration",
        appointment_id=number,
        new_appointment_date="2031-07-02",
        new_appointment_doctor="Dr. Yes",
    )
    assert use(made, "QueryRegistration", patient_name="bo", date="2031-07-02")[number]["doctor_name"] == "Dr. Yes"
    use(made, "CancelRegistration", appointment_id=number)
    with pytest.raises(ToolError, match="no appointment"):
        use(made, "CancelRegistration", appointment_id=number)
    assert use(made, "QueryBalance", token="tok-ann") == 12.5
    assert use(made, "QueryHealthData", user_id="P1", start_time="2031-05-02 00:00:00", end_time="2032") == []
    use(made, "CancelTimedSwitch", name="TV", time="2031-05-03 20:00:00")
    use(made, "TimedSwitch", name="Lamp", time="2031-05-03 20:00:00", on=True)
    assert made.tables["TimeSwitch"] == {"tv": [], "lamp": [{"time": "2031-05-03 20:00:00", "on": True}]}
    use(made, "DeleteScene", name="Party Time")
    assert made.tables["Scenes"] == {}


def test_look_ups() -> None:
    made = services()
    assert use(made, "EmergencyKnowledge", symptom="Cough") == [{"name": "Cold", "aid": "tea"}]
    assert use(made, "QueryHistoryToday", date="05-02") == ["Title: A day, Date: 1900-05-02"]
    assert use(made, "DocumentQA", url="http://a.example/1.txt", question="who wrote it") == "Eve did."
    assert use(made, "ImageCaption", url="http://a.example/1.jpg") == "a cat"
    assert [found["title"] for found in use(made, "SearchEngine", keyword="bees")] == ["On bees", "On honey"]
    assert use(made, "Calculator", formula="(2+3)*4") == 20.0
    for wrong in ("9**9**9", "import os", "(-8)**0.5"):
        with pytest.raises(ToolError, match="cannot evaluate"):
            use(made, "Calculator", formula=wrong)


# Values -------------------------------------------------------------------------------------------------------------


def test_values_that_come_to_the_same() -> None:
    assert alike("content", "Hand in the lost parcels", "handing in lost parcels")
    assert alike("attendees", ["Ann", "Bo"], ["bo", "Ann."])
    assert alike("patient_name", "ann lee", "Ann Lee")
    assert not alike("patient_name", "Ann", "Ann Lee")
    assert not alike("password", "pw1", "Pw1")
    assert not alike("attendees", ["Ann"], ["Ann", "Ann"])
    assert not alike("location", "", "the")
    assert words("The cats of Dr. Who") == {"cat", "who"}
    assert measured([{"name": "heart rate", "value": "80 bpm"}]) == {"heart_rate": 80.0}


@pytest.mark.parametrize(
    ("value", "kind", "made"),
    [("2", "integer", 2), ("x", "integer", "x"), ("True", "boolean", True), (5, "string", "5"), ("[1", "array", "[1")],
)
def test_a_value_is_brought_to_its_type_where_it_can_be(value: Any, kind: str, made: Any) -> None:
    assert typed(value, {"type": kind}) == made


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("time", "2031-05-04 15:00:00", "on may 4th at 3 pm"),
        ("time", "2031-05-04 15:30:00", "at 3:30pm on the 4th of may"),
        ("date", "2031-05-02", "do it today"),
        ("date", "2031-05-03", "do it tomorrow"),
        ("date", "2030-01-02", "on 2030-01-02"),
        ("time", "2031-05-04 12:00:00", "noon of may 4"),
        ("room_count", 2, "two rooms"),
        ("content", "Paint the fence", "paint my fence"),
        ("tgt_lang", "fr", "into french"),
        ("formula", "7*7", "the square of 7"),
    ],
)
def test_a_text_says_a_value_in_its_own_words(name: str, value: Any, text: str) -> None:
    assert in_text(name, value, text, TODAY)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("time", "2031-05-04 15:00:00", "on may 4th at 5 pm"),
        ("time", "2031-05-04 15:00:00", "on may 14th at 3 pm"),
        ("date", "2030-05-04", "on may 4th"),
        ("date", "2031-05-03", "next monday"),
        ("room_count", 2, "some rooms"),
        ("username", "ann", "hannah"),
        ("content", "Don", "write: don't go"),
        ("tgt_lang", "fr", "into german"),
    ],
)
def test_a_text_does_not_say_what_can_only_be_guessed(name: str, value: Any, text: str) -> None:
    assert not in_text(name, value, text, TODAY)


def test_a_search_finds_nothing_where_no_word_fits() -> None:
    assert best_two("zebra", [["on", "bees"], ["on", "cars"]]) == []


def test_without_its_data_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="api_bank has no data"):
        ApiBank(tmp_path).tasks()


# With the data ------------------------------------------------------------------------------------------------------


@needs_data
def test_every_recorded_solution_that_can_be_played_solves_its_task() -> None:
    environment = ApiBank(DATA)
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (124, [], [], [])
    assert len(environment.left_out) == 13
    assert sum(one.stated for one in environment.tasks()) > 100


@needs_data
def test_no_solution_of_one_dialogue_solves_another_that_wants_something_else() -> None:
    environment = ApiBank(DATA)
    tasks = environment.tasks()
    for one in tasks[::6]:
        for other in tasks[::6]:
            gold, wanted = environment.gold(other).calls, environment.gold(one).calls
            if not {tool for tool, _ in wanted} <= {tool for tool, _ in gold}:
                episode = environment.open(Task(one.id, one.text, (*one.tools, *(set(other.tools) - set(one.tools)))))
                for tool, arguments in gold:
                    with_errors = episode.tools[tool].transport
                    assert with_errors is not None
                    try:
                        asyncio.run(with_errors(dict(arguments)))
                    except ToolError:
                        continue
                assert not episode.check(None), (one.id, other.id)
