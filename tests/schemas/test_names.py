"""Names of tools and arguments: safe, unique, readable, always the same."""

from __future__ import annotations

import builtins
import keyword
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host.invisible import is_invisible
from atc.schemas.names import MAX_NAME, UniqueNames, operation_names, parameter_name, tool_name
from atc.schemas.protocol import Protocol


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("getUserByID", "get_user_by_id"),
        ("HTTPServerStatus", "http_server_status"),
        ("GET /users/{id}/posts", "get_users_by_id_posts"),
        ("calendar.acl.delete", "calendar_acl_delete"),
        ("repos/get-content", "repos_get_content"),
        ("Größe abrufen", "grosse_abrufen"),
        ("__private__", "private"),
        ("3d-model", "tool_3d_model"),
        ("print", "print_"),
        ("match", "match_"),
        ("import", "import_"),
        ("List", "list_"),
        ("answer", "answer_"),  # a program sets it
        ("Parallel", "parallel_"),
    ],
)
def test_a_tools_name_reads_like_its_original(original: str, name: str) -> None:
    assert tool_name(original) == name


@pytest.mark.parametrize(
    ("original", "name"),
    [
        ("userId", "userId"),
        ("id", "id"),
        ("from", "from_"),
        ("page[size]", "page_size"),
        ("X-Request-Id", "x_request_id"),
        ("_links", "links"),
        ("$filter", "filter"),
        ("@type", "type"),
        ("2fa", "arg_2fa"),
    ],
)
def test_an_arguments_name_stays_as_it_is_where_python_allows_it(original: str, name: str) -> None:
    assert parameter_name(original) == name


@given(st.text(max_size=200))
def test_any_text_becomes_a_name_that_a_protocol_takes(text: str) -> None:
    name = tool_name(text)
    assert Protocol(name=name).name == name
    assert name == tool_name(text) == name.lower()
    assert len(name) <= MAX_NAME
    assert name not in dir(builtins)
    assert not keyword.issoftkeyword(name)
    argument = parameter_name(text)
    assert argument == unicodedata.normalize("NFKC", argument)  # as Python reads it
    assert not any(map(is_invisible, argument))
    assert argument.isidentifier()
    assert not keyword.iskeyword(argument)
    assert not argument.startswith("_")


def test_names_that_ascii_cannot_hold_stay_apart() -> None:
    assert tool_name("获取用户") != tool_name("删除用户")
    assert tool_name("获取user") != tool_name("删除user")


def test_long_names_are_cut_and_stay_apart() -> None:
    first, second = tool_name("x" * 100 + "a"), tool_name("x" * 100 + "b")
    assert first != second
    assert len(first) <= MAX_NAME


@given(st.lists(st.sampled_from(["a", "a_2", "b", "a_2_2", "x" * 64]), max_size=30))
def test_a_name_is_handed_out_once(wanted: list[str]) -> None:
    names = UniqueNames()
    taken = [names.take(name) for name in wanted]
    assert len(set(taken)) == len(taken)
    assert all(len(name) <= MAX_NAME and name.isidentifier() for name in taken)


def test_an_alternative_is_preferred_to_a_number() -> None:
    names = UniqueNames(["id"])
    assert names.take("id", "id_query") == "id_query"
    assert names.take("id", "id_query") == "id_2"


def names(*operations: tuple[str, str]) -> list[str]:
    """The tool names of operations: an operation id (or ``""``) and ``"GET /path"`` of each."""
    labels = [label.partition(" ") for _, label in operations]
    return operation_names(
        [(given or label, m.lower(), path) for (given, label), (m, _, path) in zip(operations, labels, strict=True)]
    )


def test_what_fastapi_appends_to_a_functions_name_is_left_out() -> None:
    assert names(("get_product_products__pid__get", "GET /products/{pid}")) == ["get_product"]
    assert names(("Get_default_v1_voices_settings_default_get", "GET /v1/voices/settings/default")) == ["get_default"]
    assert names(("get_product_products__pid__get", "POST /products/{pid}")) == ["get_product_products_pid_get"]
    assert names(("get_users_get", "GET /people")) == ["get_users_get"]
    assert names(("_items_get", "GET /items")) == ["items_get"]  # nothing would be left


def test_a_short_name_that_two_operations_could_have_is_nobodys() -> None:
    both = [("read_a_get", "GET /a"), ("read_b_get", "GET /b")]
    assert names(*both) == ["read_a_get", "read_b_get"]
    assert names(*reversed(both)) == ["read_b_get", "read_a_get"]
    assert names(both[0], ("read", "GET /c")) == ["read_a_get", "read"]
    assert names(both[0], ("read", "GET /c"), ("read", "GET /d")) == ["read_a_get", "read", "read_2"]


def test_long_names_lose_words_in_the_middle() -> None:
    assert names(
        ("actions/set-github-actions-default-workflow-permissions-repository", "PUT /a"),
        ("me.calendarGroups.calendarGroup.calendars.calendar.events.event.tentativelyAccept", "POST /b"),
        ("", "GET /organizations/{id}/projects/{project}/environments/{environment}/settings/{setting}"),
        ("ArticleConfigurationItemCategoryAssociations_UrlParameterQueryCount", "GET /c"),
        ("short.enough", "GET /d"),
    ) == [
        "actions_set_workflow_permissions_repository",
        "me_calendar_events_event_tentatively_accept",
        "get_projects_environments_settings_by_setting",
        "article_associations_url_parameter_query_count",
        "short_enough",
    ]


def test_a_long_name_stays_where_its_short_one_is_not_its_alone() -> None:
    tail = ".and".join("abcdefgh")
    made = names(*((f"first.{word}.second.third.fourth.fifth{tail}", "GET /a") for word in ("one", "two")))
    assert len(set(made)) == 2
    assert made == names(*((f"first.{word}.second.third.fourth.fifth{tail}", "GET /a") for word in ("one", "two")))


@given(st.lists(st.text(max_size=90), max_size=8))
def test_the_names_of_a_document_are_unique_and_usable(originals: list[str]) -> None:
    made = operation_names([(original, "get", f"/{original}") for original in originals])
    assert len(set(made)) == len(made) == len(originals)
    assert all(Protocol(name=name).name == name and len(name) <= MAX_NAME for name in made)
