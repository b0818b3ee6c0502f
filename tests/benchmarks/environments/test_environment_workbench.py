"""WorkBench judges by what is left in its tables, and its tools do what their documents say."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.tools.stubs import render_stubs
from benchmarks.environments import Episode
from benchmarks.environments.self_test import judge
from benchmarks.environments.workbench import WorkBench
from benchmarks.environments.workbench_service import Office
from benchmarks.environments.workbench_service import call as serve
from tests.support.tools import call

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(
    DATA is None, reason="ATC_DATA names no data directory: this data is not in the repository"
)

EVENT = {
    "event_id": "00000003",
    "event_name": "Tea",
    "participant_email": "ann@firm.example",
    "event_start": "2024-05-03 10:00:00",
    "duration": "60",
}
MAIL = {
    "email_id": "00000007",
    "inbox/outbox": "inbox",
    "sender/recipient": "ann@firm.example",
    "subject": "Cake",
    "sent_datetime": "2024-05-01 08:00:00",
    "body": "Who brings it?",
}
JOB = {
    "task_id": "00000001",
    "task_name": "Bake",
    "assigned_to_email": "ann@firm.example",
    "list_name": "Backlog",
    "due_date": "2024-05-09",
    "board": "Design",
}
CUSTOMER = {
    "customer_id": "00000002",
    "assigned_to_email": "ann@firm.example",
    "customer_name": "Bo Li",
    "customer_email": "bo.li@else",
    "customer_phone": None,
    "last_contact_date": "2024-04-01",
    "product_interest": "Training",
    "status": "Lead",
    "follow_up_by": "2024-05-20",
    "notes": None,
}
VISITS = [
    {
        "date_of_visit": day,
        "visitor_id": visitor,
        "page_views": "2",
        "session_duration_seconds": seconds,
        "traffic_source": source,
        "user_engaged": engaged,
    }
    for day, visitor, seconds, source, engaged in (
        ("2024-05-01", "11", "4", "direct", True),
        ("2024-05-01", "12", "7", "referral", False),
        ("2024-05-02", "11", "9", "direct", True),
    )
]
STATE = {
    "state": {
        "calendar": [EVENT],
        "email": [MAIL | {"email_id": f"{n:08}", "sent_datetime": f"2024-05-01 0{n}:00:00"} for n in range(1, 8)],
        "analytics": VISITS,
        "project_tasks": [JOB],
        "crm": [CUSTOMER],
    },
    "current_time": "2024-05-03 00:00:00",
    "directory": ["ann@firm.example", "bea@firm.example"],
}
DOCUMENTS = {
    "email.send_email": "Sends an email.\n\nParameters\n----------\nrecipient : str, optional\n    Who gets it.\n"
    "subject: str, optional\n    Its title.\n    Of one line.\n\nReturns\n-------\nmessage : str\n    A word.\n\n"
    'Examples\n--------\n>>> email.send_email("a", "b", "c")\n"Sent."',
    "email.search_emails": "Searches.",
    "email.delete_email": "Deletes an email.",
    "calendar.update_event": "Updates an event.",
    "analytics.create_plot": "Plots.",
    "project_management.create_task": "Creates a new task.",
}
SENT = {"recipient": "ann@firm.example", "subject": "Hello", "body": "First.\nSecond."}
NEW = {
    "inbox/outbox": "outbox",
    "sender/recipient": "ann@firm.example",
    "subject": "Hello",
    "email_id": "8",
    "sent_datetime": "2024-05-03 00:00:00",
    "body": "First.\nSecond.",
}
PLOT = {"time_min": "2024-05-01", "time_max": "2024-05-02", "value_to_plot": "total_visits", "plot_type": "bar"}
TASKS: list[dict[str, Any]] = [
    {
        "id": "mail/1",
        "query": "Write 'First. Second.' to Ann under the title 'Hello'.",
        "gold": [{"tool": "email.send_email", "args": SENT, "output": "Email sent successfully."}],
        "expected_state_diff": {"email": {"removed": [], "added": [NEW]}},
    },
    {
        "id": "calendar/1",
        "query": "Call the tea 'Cake'.",
        "gold": [
            {
                "tool": "calendar.update_event",
                "args": {"event_id": "00000003", "field": "event_name", "new_value": "Cake"},
                "output": "Event updated successfully.",
            }
        ],
        "expected_state_diff": {"calendar": {"removed": [EVENT], "added": [EVENT | {"event_name": "Cake"}]}},
    },
    {
        "id": "plot/1",
        "query": "Plot the visits as bars.",
        "gold": [{"tool": "analytics.create_plot", "args": PLOT, "output": "plots/…"}],
        "expected_state_diff": {
            "analytics": {"removed": [], "added": [{"file_path": "plots/2024-05-01_2024-05-02_total_visits_bar.png"}]}
        },
    },
    {"id": "none/1", "query": "If anyone wrote of pie, delete that.", "gold": [], "expected_state_diff": {}},
]


def written(path: Path, lines: list[Any]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(line) for line in lines))


@pytest.fixture
def bench(tmp_path: Path) -> WorkBench:
    folder = tmp_path / "executable" / "workbench"
    folder.mkdir(parents=True)
    written(folder / "tasks.jsonl.gz", TASKS)
    written(folder / "tools.jsonl.gz", [{"name": name, "description": text} for name, text in DOCUMENTS.items()])
    written(folder / "state.json.gz", [STATE])
    return WorkBench(tmp_path)


def begun(bench: WorkBench, task: str) -> Episode:
    return bench.open(next(one for one in bench.tasks() if one.id == task))


def office(tool: str, **arguments: Any) -> Any:
    return serve(Office(STATE).functions()[tool], arguments)


def test_its_own_solutions_pass_and_spoilt_ones_fail(bench: WorkBench) -> None:
    verdict = asyncio.run(judge(bench))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (4, [], [], [])


def test_a_task_is_told_the_date_and_the_working_hours(bench: WorkBench) -> None:
    assert bench.tasks()[1].text == (
        "Today's date is Friday, 2024-05-03 and the current time is 00:00:00. "
        "Meetings must not start before 9am or end after 6pm. Call the tea 'Cake'."
    )


def test_nothing_is_left_of_an_earlier_try(bench: WorkBench) -> None:
    first = begun(bench, "none/1")
    call(first, "email_delete_email", email_id="00000001")
    assert not first.check(None)
    assert begun(bench, "none/1").check(None)


def test_case_line_breaks_order_and_new_numbers_do_not_count(bench: WorkBench) -> None:
    episode = begun(bench, "mail/1")
    call(episode, "email_send_email", **SENT | {"recipient": "Ann@Firm.Example", "body": "first.\\nsecond."})
    assert episode.check("whatever it answers")


@pytest.mark.parametrize("change", [{"subject": "Hi"}, {"recipient": "bea@firm.example"}, {"body": "First."}])
def test_any_other_mail_fails(bench: WorkBench, change: dict[str, str]) -> None:
    episode = begun(bench, "mail/1")
    call(episode, "email_send_email", **SENT | change)
    assert not episode.check(None)


def test_the_same_mail_twice_fails_and_is_a_repeated_write(bench: WorkBench) -> None:
    episode = begun(bench, "mail/1")
    for _ in range(2):
        call(episode, "email_send_email", **SENT)
    assert not episode.check(None)
    assert (episode.writes, episode.repeated_writes) == (2, 1)


def test_what_was_put_back_is_no_change(bench: WorkBench) -> None:
    episode = begun(bench, "none/1")
    for name in ("Pie", "Tea"):
        call(episode, "calendar_update_event", event_id="00000003", field="event_name", new_value=name)
    assert episode.check(None)


@pytest.mark.parametrize(("end", "solved"), [("2024-05-02", True), ("2024-05-03", True), ("2024-05-01", False)])
def test_a_plot_may_end_yesterday_or_today(bench: WorkBench, end: str, solved: bool) -> None:
    episode = begun(bench, "plot/1")
    call(episode, "analytics_create_plot", **PLOT | {"time_max": end})
    assert episode.check(None) is solved


def test_a_protocol_says_what_the_document_says(bench: WorkBench) -> None:
    send = bench.protocols["email.send_email"]
    assert send.description == "Sends an email. Returns: A word."
    assert send.parameters["properties"]["subject"] == {"type": "string", "description": "Its title. Of one line."}
    assert send.required == ("recipient", "subject", "body")
    assert send.effect is Effect.WRITE
    search = bench.protocols["email.search_emails"]
    assert (search.effect, search.required) == (Effect.READ, ())
    assert search.returns is not None
    assert search.returns["items"]["properties"]["sender/recipient"] == {"type": "string"}
    assert "def email_search_emails(" in render_stubs(tuple(bench.protocols.values()))


def test_searches_find_parts_of_words_and_at_most_five() -> None:
    assert [row["email_id"] for row in office("email.search_emails", query="CAKE brings")] == [
        f"0000000{n}" for n in (7, 6, 5, 4, 3)
    ]
    assert office("email.search_emails", query="cake pie") == []
    assert office("email.search_emails", date_min="2024-05-02") == []
    assert len(office("email.search_emails", date_max="2024-05-01")) == 5
    assert office("calendar.search_events", query="ANN", time_min="2024-05-03 11:00:00") == [EVENT]
    assert office("calendar.search_events", time_min="2024-05-03 11:00:01") == []
    assert office("calendar.search_events", time_max="2024-05-03 09:59:59") == []
    assert office("project_management.search_tasks", task_name="bak", board="design") == [JOB]
    assert office("customer_relationship_manager.search_customers", follow_up_by_max="2024-05-20") == [CUSTOMER]
    assert office("customer_relationship_manager.search_customers", last_contact_date_min="2024-04-02") == []
    assert office("company_directory.find_email_address", name="Bea") == ["bea@firm.example"]


def test_visits_are_counted_by_day() -> None:
    assert office("analytics.total_visits_count") == {"2024-05-01": 2, "2024-05-02": 1}
    assert office("analytics.engaged_users_count", time_max="2024-05-01") == {"2024-05-01": 1}
    assert office("analytics.get_average_session_duration", time_min="2024-05-01") == {
        "2024-05-01": 5.5,
        "2024-05-02": 9.0,
    }
    assert office("analytics.traffic_source_count", traffic_source="referral") == {"2024-05-01": 1, "2024-05-02": 0}
    assert len(office("analytics.get_visitor_information_by_id", visitor_id="11")) == 2


def test_mails_are_known_by_the_names_that_the_document_has_for_their_fields() -> None:
    assert office("email.get_email_information_by_id", email_id="00000001", field="sender") == {
        "sender": "ann@firm.example"
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("email.delete_email", {"email_id": "99"}, "Email not found"),
        ("email.delete_email", {}, "Email id not provided"),
        ("email.delete_email", {"email_id": 7}, "must be a text"),
        ("email.delete_email", {"id": "7"}, "no argument 'id'"),
        ("email.send_email", SENT | {"recipient": "ann"}, "no email address"),
        ("email.search_emails", {"date_min": "yesterday"}, "YYYY-MM-DD"),
        ("calendar.update_event", {"event_id": "00000003", "field": "event_id", "new_value": "1"}, "Field not valid"),
        ("calendar.update_event", {"event_id": "00000003", "field": "duration", "new_value": "1h"}, "minutes"),
        ("calendar.get_event_information_by_id", {"event_id": "00000003", "field": "?"}, "Field not found"),
        ("analytics.create_plot", PLOT | {"plot_type": "pie"}, "Please choose from: 'bar'"),
        ("project_management.search_tasks", {}, "No search parameters provided"),
        ("project_management.update_task", {"task_id": "00000001", "field": "board", "new_value": "x"}, "Board not"),
        ("customer_relationship_manager.add_customer", {"customer_name": "Bo"}, "email not provided"),
    ],
)
def test_wrong_arguments_are_refused_by_name(tool: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        office(tool, **arguments)
    assert caught.value.outcome == "refused"


def test_a_tool_that_is_not_known_says_so(bench: WorkBench, tmp_path: Path) -> None:
    tools = [{"name": "email.burn", "description": "Burns."}]
    written(tmp_path / "executable" / "workbench" / "tools.jsonl.gz", tools)
    with pytest.raises(EnvironmentProblem, match=r"no tool 'email\.burn'"):
        bench.tasks()


# With the data ------------------------------------------------------------------------------------------------------

EMPTY = ("No events found.", "No emails found.")


@needs_data
def test_the_tools_do_what_was_recorded() -> None:
    bench = WorkBench(DATA)
    for example in bench._data.document("io_examples.json.gz"):
        tool, wanted = Office(bench.state).functions()[example["tool"]], example["output"]
        refusal = None
        try:
            got = serve(tool, example["args"])
        except ToolError as error:
            refusal = error.message.casefold()
        if refusal is not None:
            # The original's refusal of a plot names other values than its document does.
            words = " ".join(wanted.split()[:3]).casefold()
            assert refusal.startswith("value to plot" if words.startswith("value to plot") else words), example
            continue
        if wanted in EMPTY:
            assert got == []
        elif example["tool"].startswith("company_directory"):
            assert got == re.findall(r"'(.+?)'", wanted)  # written as the array of a library
        elif isinstance(wanted, str) and (cut := re.search(r"\.\.\.\[\+(\d+) chars\]$", wanted)):
            text = json.dumps(got).replace("null", "NaN")
            assert text.startswith(wanted[: cut.start()])
            assert len(text) == cut.start() + int(cut[1])
        else:
            assert got == json.loads(json.dumps(wanted).replace("NaN", "null")), example


@needs_data
def test_every_call_of_a_recorded_solution_returns_what_was_recorded() -> None:
    bench = WorkBench(DATA)
    for record in bench.records.values():
        functions = Office(bench.state).functions()
        for step in record["gold"]:
            assert serve(functions[step["tool"]], step["args"]) == step["output"], record["id"]


@needs_data
@pytest.mark.slow
def test_every_recorded_solution_of_workbench_passes_and_spoilt_ones_fail() -> None:
    verdict = asyncio.run(judge(WorkBench(DATA)))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (270, [], [], [])
