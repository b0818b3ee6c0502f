"""What the permissions decide: the strictest rule counts, doubts restrict, and a claimed name widens nothing."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from atc.calls.permissions import Decision, Permissions, Who
from atc.calls.permissions.facts import Grant
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Tool, Toolset
from tests.support.permissions import written

READ, WRITE, UNKNOWN = Effect.READ, Effect.WRITE, Effect.UNKNOWN
STRICT = {"allow": 0, "ask": 1, "deny": 2}


def tool(
    name: str, effect: Effect = WRITE, *, kind: str = "mcp", location: str = "hub (npx hub)", operation: str = ""
) -> Protocol:
    return Protocol(name=name, effect=effect, source=Source(kind=kind, location=location, operation=operation or name))


def verdict(permissions: Permissions, protocol: Protocol, *who: str, **arguments: Any) -> str:
    return permissions.decide(Who(*who), protocol, arguments).verdict


# -- the order ---------------------------------------------------------------------------------------------------------


def test_the_strictest_rule_counts_wherever_it_stands(tmp_path: Path) -> None:
    rules = ['[[rules]]\nallow = "a*"', '[[rules]]\nask = "ab*"', '[[rules]]\ndeny = "abc*"']
    for order in (rules, rules[::-1]):
        permissions = written(tmp_path, "\n".join(order))
        assert [verdict(permissions, tool(name)) for name in ("a", "ab", "abc", "z")] == ["allow", "ask", "deny", "ask"]


def test_the_defaults() -> None:
    permissions = Permissions()
    assert [verdict(permissions, tool("look", each)) for each in (READ, WRITE, UNKNOWN)] == ["allow", "ask", "ask"]
    permissions = Permissions(read_only=True)
    assert [verdict(permissions, tool("look", each)) for each in (READ, WRITE, UNKNOWN)] == ["allow", "deny", "deny"]


def test_read_only_mode_denies_what_rules_allow_and_hides_it(tmp_path: Path) -> None:
    text = '[[rules]]\nallow = "*"\n[clients.ann]\nread_only = true'
    permissions = written(tmp_path, text)
    book, look = tool("book"), tool("look", READ)
    assert [verdict(permissions, book, who) for who in ("local", "ann")] == ["allow", "deny"]
    assert [permissions.sees(Who("ann"), each) for each in (book, look)] == [False, True]
    assert [permissions.sees(Who("bob"), each) for each in (book, look)] == [True, True]
    assert verdict(permissions.reading_only(), book) == "deny"
    assert verdict(Permissions.load(tmp_path / "permissions.toml", read_only=True), book) == "deny"


def test_what_is_denied_as_a_whole_is_not_seen_and_what_is_denied_by_arguments_is(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[[rules]]\ndeny = "drop"\n[[rules]]\ndeny = "book"\narguments = {n = {min = 9}}')
    assert [permissions.sees(Who(), tool(name)) for name in ("drop", "book")] == [False, True]
    assert [verdict(permissions, tool("book"), n=n) for n in (8, 9, "9", None)] == ["ask", "deny", "deny", "deny"]


def test_a_bound_is_held_to_a_number_that_no_float_can_hold(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[[rules]]\nallow = "book"\narguments = {n = {max = 9}}')
    asked = [verdict(permissions, tool("book"), n=n) for n in (5, 10**399, -(10**399), float("nan"))]
    assert asked == ["allow", "ask", "allow", "ask"]


def test_grants_are_the_tools_of_a_principal_whatever_rules_allow(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[[rules]]\nallow = "*"\n[clients.ann]\ntools = ["get_*", "find"]')
    assert [verdict(permissions, tool(name), "ann") for name in ("get_x", "find", "finder")] == [
        "allow",
        "allow",
        "deny",
    ]
    denied = permissions.decide(Who("ann"), tool("finder"), {})
    assert denied.why == "grant"
    assert tomllib.loads(denied.line) == {"clients": {"ann": {"tools": ["get_*", "find", "finder"]}}}


# -- which tools a rule speaks of --------------------------------------------------------------------------------------


def test_a_restriction_holds_for_a_tool_that_was_renamed_and_an_allowance_does_not(tmp_path: Path) -> None:
    renamed = tool("hub_Delete_Repo", operation="Delete_Repo")
    assert verdict(written(tmp_path, '[[rules]]\ndeny = "delete_repo"'), renamed) == "deny"
    assert verdict(written(tmp_path, '[[rules]]\nallow = "Delete_Repo"'), renamed) == "ask"
    assert verdict(written(tmp_path, '[[rules]]\nallow = "hub_Delete_Repo"'), renamed) == "allow"


def test_rules_by_source_effect_and_principal(tmp_path: Path) -> None:
    permissions = written(
        tmp_path,
        '[[rules]]\nallow = "*"\nsource = "mcp:hub *"\nprincipal = "ann"\n[[rules]]\ndeny = "*"\neffect = "unknown"',
    )
    assert verdict(permissions, tool("a"), "ann") == "allow"
    assert verdict(permissions, tool("a"), "bob") == "ask"
    assert verdict(permissions, tool("a", location="hubris"), "ann") == "ask"
    assert verdict(permissions, tool("a", kind="openapi"), "ann") == "ask"
    assert verdict(permissions, tool("a", UNKNOWN), "ann") == "deny"


@pytest.mark.parametrize(
    ("name", "operation", "kind", "effect"),
    [
        ("delete_file", "", "mcp", UNKNOWN),
        ("remove", "purgeAll", "mcp", UNKNOWN),
        ("look", "deleteFile", "mcp", UNKNOWN),
        ("x", "\uff44elete_file", "mcp", UNKNOWN),
        ("x", "del\u200bete_file", "mcp", UNKNOWN),
        ("x", "d\u0435lete_file", "mcp", UNKNOWN),
        ("get_file", "", "mcp", READ),
        ("delete_file", "", "function", READ),
    ],
)
def test_a_server_that_says_it_reads_is_doubted_where_its_name_says_otherwise(
    name: str, operation: str, kind: str, effect: Effect
) -> None:
    assert Permissions().effect(tool(name, READ, kind=kind, operation=operation)) is effect


def test_the_user_corrects_effects_and_the_gravest_word_counts(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[effects]\n"query_*" = "read"\nquery_drop = "write"\nlook = "write"')
    tools = [tool("query_a", UNKNOWN), tool("query_drop", UNKNOWN), tool("look", READ)]
    assert [permissions.effect(each) for each in tools] == [READ, WRITE, WRITE]
    assert verdict(permissions, tools[0]) == "allow"
    assert permissions.effect(tool("hub_query_a", UNKNOWN, operation="query_a")) is UNKNOWN


def test_tools_are_graded_once_for_all_that_look_at_them(tmp_path: Path) -> None:
    tools = Toolset([Tool(tool("look", READ)), Tool(tool("delete_x", READ))])
    graded = Permissions().graded(tools)
    assert [each.protocol.effect for each in graded.values()] == [READ, UNKNOWN]
    assert Permissions().graded(graded) is graded
    assert list(Permissions(read_only=True).offered(Who(), tools)) == ["look"]


def test_what_is_closed_to_all_is_not_served_and_what_is_closed_to_some_is(tmp_path: Path) -> None:
    tools = Toolset(Tool(tool(name)) for name in ("drop", "book", "paint"))
    text = (
        '[[rules]]\ndeny = "drop"\n[[rules]]\ndeny = "book"\nprincipal = "ann"\n[[rules]]\ndeny = "paint"\nclient = "x"'
    )
    permissions = written(tmp_path, text)
    assert list(permissions.served(tools)) == ["book", "paint"]
    assert list(permissions.offered(Who("ann"), tools)) == ["paint"]
    assert list(permissions.offered(Who("bob", "x"), tools)) == ["book"]
    assert list(permissions.reading_only().served(tools)) == []


# -- arguments ---------------------------------------------------------------------------------------------------------

FITS = {
    'repo = "me/*"': ["me/x", ["me/x", "me/y"]],
    'n = {max = 10}': [10, -1, 2.5],
    'n = {min = 1, max = 2}': [1, 2],
    "n = 5": [5, 5.0],
    "n = true": [True],
    'n = ["a", 7]': ["a", 7],
    'n = {max_length = 3}': ["abc", ""],
    'n = {is = "a*"}': ["a*"],
    '"n.to.mail" = "*@me.org"': [{"to": [{"mail": "a@me.org"}, {"mail": "b@me.org"}]}],
}  # fmt: skip
MISSES = {
    'repo = "me/*"': ["you/x", ["you/x"], 7],
    "n = {max = 10}": [11, 10.5],
    "n = {min = 1, max = 2}": [0, 3],
    "n = 5": [6, "six"],
    "n = true": [False],
    'n = ["a", 7]': ["b", 8],
    "n = {max_length = 3}": ["abcd"],
    'n = {is = "a*"}': ["ab"],
    '"n.to.mail" = "*@me.org"': [{"to": [{"mail": "a@you.org"}]}, {"to": []}, {"to": "a@me.org"}, 7],
}
DOUBTS = {
    'repo = "me/*"': [None, {"a": 1}, "me/" + "x" * 20_000, ["me/x", None]],
    "n = {max = 10}": ["10", None, True, [], [9, "9"]][:3],
    "n = 5": ["5", " 5 ", None],
    "n = true": ["true", None, {"a": 1}],
    "n = {max_length = 3}": [7, None],
}


def both(folder: Path, condition: str, value: Any) -> tuple[str, str]:
    """What a rule that allows, and one that denies, make of a call with this value."""
    name = "repo" if condition.startswith("repo") else "n"
    made = []
    for word in ("allow", "deny"):
        permissions = written(folder, f'[[rules]]\n{word} = "book"\narguments = {{{condition}}}')
        made.append(verdict(permissions, tool("book"), **{name: value}))
    return made[0], made[1]


def test_conditions_on_arguments(tmp_path: Path) -> None:
    for condition, values in FITS.items():
        assert {both(tmp_path, condition, value) for value in values} == {("allow", "deny")}, condition
    for condition, values in MISSES.items():
        assert {both(tmp_path, condition, value) for value in values} == {("ask", "ask")}, condition


def test_what_nobody_can_judge_is_denied_by_a_rule_that_denies_and_not_allowed_by_one_that_allows(
    tmp_path: Path,
) -> None:
    for condition, values in DOUBTS.items():
        assert {both(tmp_path, condition, value) for value in values} == {("ask", "deny")}, condition


def test_an_allowance_wants_all_of_a_list_and_a_denial_one(tmp_path: Path) -> None:
    assert both(tmp_path, 'repo = "me/*"', ["me/x", "you/y"]) == ("ask", "deny")


@pytest.mark.parametrize("value", ["me/../you/x", "me/..", "me/%2e%2e/you", "me/%252e%252e%252fyou", "me\\..\\you"])
def test_a_wildcard_does_not_lead_out_of_a_folder(tmp_path: Path, value: str) -> None:
    assert both(tmp_path, 'repo = "me/*"', value)[0] == "ask"


def test_a_denial_does_not_mind_letter_case_or_forms_of_letters(tmp_path: Path) -> None:
    for value in ("/etc/x", "/ETC/x", "\uff0fetc/x"):
        assert both(tmp_path, 'repo = "/etc/*"', value)[1] == "deny"
    assert both(tmp_path, 'repo = "/etc/*"', "/ETC/x")[0] == "ask"


def test_an_argument_that_is_left_out_meets_no_condition(tmp_path: Path) -> None:
    for word in ("allow", "deny"):
        permissions = written(tmp_path, f'[[rules]]\n{word} = "book"\narguments = {{repo = "*"}}')
        assert verdict(permissions, tool("book")) == "ask"


def test_hostile_arguments_cost_no_more_than_their_size(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    wide = [["x"] * 200] * 200
    permissions = written(tmp_path, '[[rules]]\nallow = "book"\narguments = {"n" = "*a*b*c*d*e*f*g*h*i*j*k*l"}')
    for value in (deep, wide, "abcdefghijk" * 900, ["abcdefghijk" * 900] * 20):
        assert verdict(permissions, tool("book"), n=value) == "ask"


# -- for all files -----------------------------------------------------------------------------------------------------

NAMES = ["get", "send", "delete_x", "x"]
PATTERNS = some.sampled_from(["*", "get", "s*", "delete_*", "?", "[xg]*"])
VALUES = some.one_of(
    some.none(), some.booleans(), some.integers(-3, 3), some.text("ab/.*", max_size=4), some.just([1, "a"])
)
CONDITIONS = some.sampled_from([None, {"n": "a*"}, {"n": {"max": 1}}, {"n": [1, "a"]}, {"n.m": True}])


@some.composite
def rules(draw: Any) -> dict[str, Any]:
    word = draw(some.sampled_from(["allow", "ask", "deny"]))
    made: dict[str, Any] = {word: draw(PATTERNS)}
    if (conditions := draw(CONDITIONS)) is not None:
        made["arguments"] = conditions
    if draw(some.booleans()):
        made["principal"] = draw(some.sampled_from(["ann", "*", "b*"]))
    if word != "allow" and draw(some.booleans()):
        made["client"] = draw(some.sampled_from(["editor", "*", "[!e]*"]))
    if draw(some.booleans()):
        made["effect"] = draw(some.sampled_from(["read", "write", "unknown"]))
    return made


CALLS = some.tuples(
    some.sampled_from(NAMES), some.sampled_from(list(Effect)), some.dictionaries(some.just("n"), VALUES, max_size=1)
)


def of(made: list[dict[str, Any]]) -> Permissions:
    def value(given: Any) -> str:
        if isinstance(given, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {value(each)}" for key, each in given.items()) + "}"
        return json.dumps(given)

    text = "\n".join("[[rules]]\n" + "\n".join(f"{key} = {value(each)}" for key, each in rule.items()) for rule in made)
    with tempfile.TemporaryDirectory() as folder:
        return written(Path(folder), text)


def decided(permissions: Permissions, call: Any, principal: str, name: str) -> Decision:
    tool_name, effect, arguments = call
    return permissions.decide(Who(principal, name), tool(tool_name, effect), arguments)


@given(some.lists(rules(), max_size=6), CALLS, some.sampled_from(["ann", "bob", "local"]), some.integers(0, 6))
def test_a_denial_always_wins(made: list[dict[str, Any]], call: Any, principal: str, at: int) -> None:
    denial = {"deny": call[0]}
    permissions = of([*made[:at], denial, *made[at:]])
    found = decided(permissions, call, principal, "")
    assert found.verdict == "deny"
    assert found.line == ""
    assert not permissions.sees(Who(principal), tool(call[0], call[1]))


@given(some.lists(rules(), max_size=6), CALLS, some.sampled_from(["ann", "bob"]), some.text(max_size=6))
def test_a_claimed_name_never_widens(made: list[dict[str, Any]], call: Any, principal: str, name: str) -> None:
    permissions = of(made)
    nameless = of([rule for rule in made if "client" not in rule])
    claimed, plain = (decided(each, call, principal, name).verdict for each in (permissions, nameless))
    assert STRICT[claimed] >= STRICT[plain]
    assert decided(nameless, call, principal, name) == decided(nameless, call, principal, "")
    assert not [each for each in permissions.rules if isinstance(each, Grant) and hasattr(each, "clients")]


@given(some.lists(rules(), max_size=5), rules(), CALLS)
def test_one_more_restriction_never_widens(made: list[dict[str, Any]], more: dict[str, Any], call: Any) -> None:
    before, after = decided(of(made), call, "ann", "e").verdict, decided(of([*made, more]), call, "ann", "e").verdict
    assert "allow" in more or STRICT[after] >= STRICT[before]


@given(some.text('ab*?[]!-"\\\x1f\x7fé𝔸', min_size=1, max_size=8), some.sampled_from(NAMES))
def test_the_line_that_is_told_allows_the_call_for_its_principal_alone(principal: str, name: str) -> None:
    asked = Permissions().decide(Who(principal), tool(name), {})
    with tempfile.TemporaryDirectory() as folder:
        permissions = written(Path(folder), asked.line)
    assert verdict(permissions, tool(name), principal) == ("allow" if asked.line else "ask")
    others = {"x", principal + "x", principal[1:], "local", "*"} - {principal}
    assert principal == "local" or {verdict(permissions, tool(name), other) for other in others} == {"ask"}


def test_a_grant_has_no_place_for_a_claimed_name() -> None:
    assert "clients" not in {each.name for each in dataclasses.fields(Grant)}


# -- names with their source in front ----------------------------------------------------------------------------------


def of_service(title: str, name: str, operation: str, *, shared: bool = False) -> Protocol:
    made = Protocol(
        name=name, effect=WRITE, source=Source(kind="openapi", location=title, operation=operation, title=title)
    )
    return Tool(made).called(made.full_name).protocol if shared else made


PAY = "pay_order_orders__id__pay_post"


@pytest.mark.parametrize(
    ("rule", "alone", "shared"),
    [
        ('allow = "pay_order"', "allow", "ask"),  # with two of them nobody knows which one was meant
        ('allow = "shop_pay_order"', "allow", "allow"),
        ('allow = "shop_*"', "ask", "allow"),  # a wildcard widens to no name that programs do not use
        ('deny = "pay_order"', "deny", "deny"),
        ('deny = "pay_*"', "deny", "deny"),
        ('deny = "shop_pay_order"', "deny", "deny"),
    ],
)
def test_a_rule_holds_for_a_tool_that_is_called_after_its_source(
    tmp_path: Path, rule: str, alone: str, shared: str
) -> None:
    permissions = written(tmp_path, f"[[rules]]\n{rule}")
    found = [verdict(permissions, of_service("Shop", "pay_order", PAY, shared=each)) for each in (False, True)]
    assert found == [alone, shared]


@pytest.mark.parametrize("shared", [False, True])
def test_a_grant_and_an_effect_take_the_full_name(tmp_path: Path, shared: bool) -> None:
    text = '[effects]\nshop_pay_order = "read"\n[clients.ann]\ntools = ["shop_pay_order"]'
    permissions = written(tmp_path, text)
    protocol = of_service("Shop", "pay_order", PAY, shared=shared)
    assert permissions.effect(protocol) is READ
    assert verdict(permissions, protocol, "ann") == "allow"
    assert permissions.effect(of_service("Bank", "pay_order", PAY, shared=shared)) is WRITE
