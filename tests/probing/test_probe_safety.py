"""What probing calls: reads alone, and with a word of the user what he named, each call approved."""

from __future__ import annotations

import pytest

from atc.calls.approval import ApprovalRequest
from atc.errors import UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Toolset
from tests.support.probe import Oracle, Service, line, probed, prober, states
from tests.support.probe_services import LIBRARY, add_library
from tests.support.tools import make_tool

TELLTALE = {
    "delete_user": "/a",
    "deletePost": "/b",
    "DeleteComment": "/c",
    "DELETE_ALL": "/d",
    "send_mail": "/e",
    "users_delete": "/f",
    "user.remove": "/g",
    "do_purge": "/h",
    "bulkDelete": "/i",
    "destroy_user": "/j",
    "erase_disk": "/k",
    "logout": "/l",
    "op1": "/x/delete_user",
    "op2": "/users/{user_id}/delete",
    "op3": "/api/v1/purge",
    "op4": "/users/{user_id}/activate",
    "op5": "/admin/shutdown",
    "op6": "/cart/checkout",
}


def add_all(service: Service, templates: dict[str, str]) -> None:
    """Operations by their names; ``op…`` have none, as in a document of methods and paths only."""
    for name, template in templates.items():
        service.route(name, template, {"n": 1}, named=not name.startswith("op"))


def test_a_get_whose_name_tells_of_an_effect_is_not_called(service: Service) -> None:
    add_all(service, TELLTALE)
    report = probed(service.tools())
    assert [hit.target for hit in service.hits] == []
    assert [each.tool for each in report.lines if each.state != "skipped"] == []
    assert all("--allow-effects" in each.reason for each in report.lines)
    assert report.protocols == ()
    assert report.complete


def test_what_writes_is_listed_and_not_called(service: Service) -> None:
    add_library(service)
    methods = ("POST", "PUT", "PATCH", "DELETE")
    for method in methods:
        service.route(f"get_{method.lower()}", f"/{method.lower()}", {"n": 1}, method=method)
    report = probed(
        service.tools(), Oracle({name: {"body": ["x"]} for name in ("get_post", "get_delete", "get_author")})
    )
    assert {hit.method for hit in service.hits} == {"GET"}
    for method in methods:
        found = line(report, f"get_{method.lower()}")
        assert found.state == "skipped"
        assert "write" in found.reason
    assert report.count("documented") == len(LIBRARY)


def test_a_function_of_unknown_effect_is_not_called() -> None:
    called: list[int] = []
    report = probed(Toolset([make_tool("mystery", lambda _: called.append(1), Effect.UNKNOWN)]))
    assert (called, states(report)) == ([], {"mystery": "skipped"})


def test_every_call_with_an_effect_is_asked_about(service: Service) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    service.route("list_rooms", "/rooms", [{"room_id": "r-7"}])
    service.route("book_room", "/rooms/{room_id}/booking", {"booking": 1}, method="POST")
    service.route("cancel_all", "/cancel", {"gone": 3}, method="DELETE")
    report = probed(service.tools(), allow_effects=("book_*",), approve=approve)
    assert states(report) == {"list_rooms": "documented", "book_room": "documented", "cancel_all": "skipped"}
    assert {request.tool for request in asked} == {"book_room"}
    assert len(asked) == len(service.asked("book_room"))


def test_a_get_with_a_telltale_name_that_was_allowed_is_asked_about_too(service: Service) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    service.route("delete_everything", "/everything", {"gone": 3})
    report = probed(service.tools(), allow_effects=("delete_*",), approve=approve)
    assert [request.tool for request in asked] == ["delete_everything"]
    assert service.hits == []
    assert states(report) == {"delete_everything": "undocumented"}


def test_a_call_that_was_denied_is_not_made_and_the_tool_says_so(service: Service) -> None:
    service.route("book_room", "/booking", {"booking": 1}, method="POST")
    asked: list[ApprovalRequest] = []
    report = probed(service.tools(), allow_effects=("*",), approve=lambda request: bool(asked.append(request)))
    assert service.hits == []
    assert len(asked) == 1
    assert line(report, "book_room").state == "undocumented"
    assert "not approve" in line(report, "book_room").reason


def test_effects_that_nobody_approves_are_refused_at_once(service: Service) -> None:
    service.route("book_room", "/booking", {"booking": 1}, method="POST")
    with pytest.raises(UsageError, match="approve"):
        prober(service.tools(), allow_effects=("*",))
    with pytest.raises(UsageError, match="no tool"):
        prober(Toolset())


def test_a_tool_that_can_only_be_shown_is_skipped() -> None:
    report = probed(Toolset([Tool(Protocol(name="shown", effect=Effect.READ)), make_tool("fine", lambda _: {"n": 1})]))
    assert states(report) == {"shown": "skipped", "fine": "documented"}
    assert "transport" in line(report, "shown").reason
