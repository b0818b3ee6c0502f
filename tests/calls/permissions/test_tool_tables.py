"""The tables of tools in a permissions file: what they say, and what is wrong in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from atc.calls.permissions.patterns import Reader
from atc.calls.permissions.tool_tables import Reference, said_of
from atc.errors import SettingsError
from atc.schemas.protocol import Protocol, Source
from atc.tools.keys import KeyPlace
from tests.support.permissions import written

FILE = """
[tools.create_order]
idempotency_key = {header = "Idempotency-Key", window_s = 60}
settle = {read = "get_order(order_id=$order_id, full=true)", done = {"body.state" = ["paid", "sent"]}}
undo = 'cancel_order( order_id = $result.items[0].id , why="undone, \\"all\\"", times=-1)'

[tools."create_*"]
idempotency_key = {meta = "com.example/key"}
undo = "delete(id=$id)"
"""


def test_a_table_speaks_of_the_tools_that_it_names_and_the_first_that_says_a_thing_counts(tmp_path: Path) -> None:
    tables = written(tmp_path, FILE).tools
    order, event = Protocol(name="create_order"), Protocol(name="create_event")
    undo, general = (said_of(tables, each, lambda table: table.undo) for each in (order, event))
    key, other = (said_of(tables, each, lambda table: table.key) for each in (order, event))
    assert (key.place, key.window_s) == (KeyPlace("header", "Idempotency-Key"), 60)
    assert (other.place, other.window_s) == (KeyPlace("meta", "com.example/key"), None)
    assert (undo.tool, dict(undo.arguments)) == (
        "cancel_order",
        {"order_id": Reference("response", ("items", 0, "id")), "why": 'undone, "all"', "times": -1},
    )
    assert general.arguments == (("id", Reference("arguments", ("id",))),)
    assert said_of(tables, event, lambda table: table.settle) is None
    settle = said_of(tables, order, lambda table: table.settle)
    assert settle is not None
    assert dict(settle.read.arguments)["full"] is True
    answer = {"status": 200, "body": {"state": "paid"}}
    assert [each.allows(answer, Reader()) for each in settle.done] == [True]


def test_a_table_widens_so_a_name_at_a_source_is_not_enough(tmp_path: Path) -> None:
    tables = written(tmp_path, FILE).tools
    renamed = Protocol(
        name="shop_create_order",
        source=Source(kind="mcp", operation="create_order", name="create_order", title="Shop"),
    )
    assert said_of(tables, renamed, lambda table: table.key) is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("idempotency = {}", "tools 'a*', `idempotency`: there is no such key"),
        ('idempotency_key = {header = "Authorization"}', "`idempotency_key`: `header` takes the name of a header"),
        ('idempotency_key = {header = "a b"}', "`header` takes the name of a header"),
        ('idempotency_key = {header = "A", meta = "b"}', "takes `header` (of an HTTP service) or `meta`"),
        ('idempotency_key = {meta = "a b"}', "`meta` takes a key of `_meta`"),
        ('idempotency_key = {meta = "io.modelcontextprotocol/x"}', "`meta` takes a key of `_meta`"),
        ("idempotency_key = {window_s = -1}", "`idempotency_key.window_s`: Input should be greater than or equal to 0"),
        ("idempotency_key = {window_s = inf}", "`idempotency_key.window_s`: Input should be"),
        ('settle = {read = "get(id=$id)"}', "`settle`: takes `done`, `not_done` or both"),
        ('settle = {read = "get(id=$id)", done = {state = 1}}', "`state`: the path begins with `status` or `body`"),
        ('settle = {read = "get(id=$id)", done = "x"}', "takes a table of 1 to 20 conditions"),
        ('settle = {read = "get(id=$id)", done = {status = {mx = 1}}}', "`status`: there is no key 'mx' here"),
        ('settle = {read = "get(id=$result.id)", done = {status = 1}}', "`$result` stands in `undo` alone"),
        ("undo = 1", "`undo`: takes a call as text"),
        *((f"undo = '{call}'", "`undo`: takes a call with named arguments") for call in (
            "", "delete", "delete(", "delete($id)", "delete(id=)", "delete(id=$id", "delete(id=$id,)",
            "delete(id=$id) x", "delete(id=id)", "delete(id=$id b=$b)", "a.b(id=$id)", "delete(id=[1])", "delete(id=$)",
            "1(id=$id)",
        )),
        ("undo = 'delete(id=\"\\q\")'", "is no value of JSON"),
        ("undo = 'delete(id=$id, id=$id)'", "gives `id` twice"),
        (f"undo = 'delete(id=\"{'a' * 2_000}\")'", "has 2,013 characters; 2,000 at most"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_table_is_said_with_its_place(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)) as told:
        written(tmp_path, f'[tools."a*"]\n{table}')
    assert "tools 'a*'" in str(told.value)


def test_the_pattern_of_a_table_is_held_to_the_rules_of_patterns(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="`tools`: the pattern"):
        written(tmp_path, f'[tools."{"*a" * 13}"]\nundo = "a()"')
