"""Which names tell of an effect, and what an importer and probing make of it."""

from __future__ import annotations

from typing import Any

import pytest

from atc.errors import UsageError
from atc.probing.call_policy import why_not
from atc.result import Effect
from atc.schemas.telltales import disguised_telltale, promises_read, telltale
from atc.tools.openapi.importer import import_openapi
from tests.support.openapi import document


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("GET_TerminateInstances", "terminate"),
        ("GET /#Action=TerminateInstances", "terminate"),
        ("GET /#Action=AdvertiseByoipCidr", "advertise"),  # a call by name that does not say that it reads
        ("deleteGroupUsingGET", "delete"),
        ("users_remove", "remove"),
        ("User_Create", "create"),
        ("chat.postMessage", "post"),
        ("GET /chat.postMessage", "post"),
        ("apps/delete-installation", "delete"),
        ("GET /admin/shutdown/now", "shutdown"),
        ("GET /vault/revoke/{service}/{application}", "revoke"),
        ("GET /users/{id}/activate", "activate"),
        ("GET /createUser", "create"),
        ("GET /deleteuser/{id}", "deleteuser"),
        ("runQuery", ""),
        ("startTraining", "start"),
        ("GET /cart/checkout", "checkout"),
        ("GET /queue/pause", "pause"),
        ("GET /api/mark_as_done", "mark"),
        ("GET /api/set_worker_processes", "set"),
        ("GET /api/re_enable_task", "enable"),
        ("GET /cards/set", ""),
        ("GET /marks", ""),
    ],
)
def test_names_that_tell_of_an_effect(name: str, verb: str) -> None:
    assert telltale(name) == verb


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("delete_file", "delete"),
        ("\uff44elete_file", "delete"),  # full width
        ("del\u200bete_file", "delete"),  # with a letter that nobody sees
        ("d\u0435lete_file", "delete"),  # a Cyrillic letter in it
        ("\u0455\u0435nd", "send"),
        ("\u0441\u04cf\u043e\u0455\u0435_all", "close"),  # no Latin letter at all
        ("\u1d05\u1d07\u029f\u1d07\u1d1b\u1d07_x", "delete"),  # small capitals
        ("\U0001d41d\U0001d41e\U0001d425\U0001d41e\U0001d42d\U0001d41e_x", "delete"),
        ("d\u00e9lete_x", "delete"),
        ("de1ete", "delete"),
        ("d_e_l_e_t_e_x", "delete"),
        ("dElEtE_file", "delete"),
        ("file.de-lete", "delete"),
        ("fileD\uff45lete", "delete"),
        ("read\u0434x", "read\u0434x"),  # no verb that is known, and two alphabets in a word
    ],
)
def test_a_verb_counts_in_whatever_letters_a_stranger_writes_it(name: str, verb: str) -> None:
    assert disguised_telltale(name) == verb


@pytest.mark.parametrize(
    "name",
    [
        "get_file",
        "list_re_move",  # a read, as `list_removed` is
        "created_items",
        "list_address",
        "get_\u0444\u0430\u0439\u043b",
        "\u043f\u043e\u043b\u0443\u0447\u0438\u0442\u044c_\u0444\u0430\u0439\u043b",
        "\u691c\u7d22get",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0646",
        "s3_list",
        "l10n_texts",
    ],
)
def test_names_of_any_language_are_no_disguise(name: str) -> None:
    assert disguised_telltale(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "",
        "GET /",
        "GET /#Action=DescribeInstances",
        "getOrderById",
        "get_post",
        "user_settings",
        "address_book",
        "GET /api/v2/posts",
        "GET /stores/open_hours",
        "GET /removals_firms",
        "GET /pins",
        "GET /project/{user}/{project}/checkout-key",
        "GET /rides/{id}/cancel_fees/total",
        "GET /orders/{id}/lines",
        "GET /posts/{delete}",
        "GET /directory/deletedItems",
        "GET /dcim/cable-terminations/{id}/",
        "ipam_l2vpn-terminations_list",
        "UpdateRuns_Get",
        "StopPoint_GetByType",
        "storeReleases_get",
        "OrderFind",
        "purchaseOrdersCount",
        "getUpdates",
        "pulls/check-if-merged",
        "listDeleted",
    ],
)
def test_names_that_tell_of_none(name: str) -> None:
    assert telltale(name) == ""


def test_a_summary_that_begins_with_a_reading_verb_promises_a_read() -> None:
    assert all(map(promises_read, ["Get a key", "Returns all.", "Lists: keys", "fetches x", "Searches"]))
    assert not any(map(promises_read, ["", "  ", "Deletes a key", "Getaway", "Creates and returns a key"]))


def effect(path: str, method: str = "get", **node: Any) -> Effect:
    (tool,) = import_openapi(document({path: {method: node}}), base_url="https://x.example").values()
    assert tool.transport.operation.reads is (tool.protocol.effect is Effect.READ)  # type: ignore[union-attr]
    return tool.protocol.effect


@pytest.mark.parametrize("method", ["get", "head", "options"])
def test_a_safe_method_with_a_telltale_name_has_an_unknown_effect(method: str) -> None:
    assert effect("/instances/terminate", method) is Effect.UNKNOWN
    assert effect("/x", method, operationId="delete_x_x_" + method) is Effect.UNKNOWN
    assert effect("/instances/{id}", method) is Effect.READ
    assert effect("/pulls/{id}/merge", method, summary="Check if a pull request has been merged") is Effect.READ
    assert effect("/pulls/{id}/merge", method, description="Merges it") is Effect.UNKNOWN


def test_what_the_author_or_the_user_declares_stands(caplog: pytest.LogCaptureFixture) -> None:
    declared = {"/carts/checkout": {"get": {"operationId": "a", "x-atc-effect": "read"}}, "/b": {"post": {}}}
    declared["/c"] = {"get": {"operationId": "c", "x-atc-effect": "write"}}
    declared["/d"] = {"get": {"operationId": "d", "x-atc-effect": ["nonsense"]}}
    tools = import_openapi(document(declared), base_url="https://x.example")
    assert [tool.protocol.effect.value for tool in tools.values()] == ["read", "write", "write", "read"]
    given = {"a": "unknown", "POST /*": "read", "misspelt": "write"}
    tools = import_openapi(document(declared), base_url="https://x.example", effects=given)
    assert [tool.protocol.effect.value for tool in tools.values()] == ["unknown", "read", "write", "read"]
    assert "effects names 'misspelt', which fits no operation" in caplog.text
    with pytest.raises(UsageError, match="take read, write, unknown"):
        import_openapi(document(declared), effects={"a": "reads"})


def test_probing_and_the_importer_judge_names_alike() -> None:
    tools = import_openapi(document({"/keys/rotate": {"get": {}}, "/checkout-key": {"get": {}}}))
    reasons = [why_not(tool.protocol) for tool in tools.values()]
    assert "effect is unknown" in reasons[0]
    assert "'rotate'" in reasons[0]
    assert reasons[1] == ""
