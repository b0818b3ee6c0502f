"""Rules over where arguments came from: an allowance lists each origin, a restriction needs one, doubts restrict."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from atc._records.origins import UNKNOWN, CallOrigins, Origin, Origins
from atc.calls.permissions import Decision, Permissions, Who
from atc.calls.permissions.document import _RuleText
from atc.calls.permissions.origins import MAX_ORIGINS, origin_of
from atc.calls.permissions.strangers import Strangers
from atc.calls.untrusted import targets_of
from atc.errors import SettingsError
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from tests.support.permissions import written

SEND = Protocol(
    name="send",
    effect=Effect.WRITE,
    parameters={"type": "object", "properties": {"to": {}, "cc": {}, "text": {}, "message": {}}},
)
ALLOW = '[[rules]]\nallow = "send"\n'


def of(*texts: str, how: Any = "value") -> Origins:
    return frozenset(origin_of(each).model_copy(update={"how": how}) for each in texts)


def decided(permissions: Permissions, origins: CallOrigins | None, /, **more: Any) -> Decision:
    arguments = more.pop("arguments", None) or dict.fromkeys(origins or {"to": 1}, 1)
    return permissions.decide(Who(), more.pop("protocol", SEND), arguments, origins, **more)


# -- from --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "verdict"),
    [
        (of("task"), "allow"),
        (of("tool:contacts"), "allow"),
        (of("tool:contacts.people.email"), "allow"),
        (of("task", "tool:contacts.email"), "allow"),
        (of("tool:mail.sender"), "allow"),
        (of("tool:mail.sender.name"), "allow"),
        (of("tool:mail"), "ask"),
        (of("tool:mail.body"), "ask"),
        (of("tool:contacts_2"), "ask"),
        (of("task", "tool:read_mail.sender"), "ask"),
        (of("tool:contacts") | of("tool:read_mail", how="call"), "ask"),
        (of("tool:contacts") | of("tool:read_mail", how="choice"), "ask"),
        (of("literal"), "ask"),
        (of("task") | of("literal", how="choice"), "allow"),
        (of("task") | of("literal", how="call"), "allow"),
        (of("task") | of("author", how="choice"), "ask"),
        (of("task") | of("tool:read_mail", how="author"), "ask"),
        (of("task", "unknown"), "ask"),
        (UNKNOWN, "ask"),
    ],
)
def test_an_allowance_lists_every_origin_whatever_part_it_had(to: Origins, verdict: str, tmp_path: Path) -> None:
    permissions = written(tmp_path, f'{ALLOW}from = {{to = ["task", "tool:contacts.*", "tool:mail.sender"]}}')
    assert decided(permissions, {"to": to, "text": of("tool:web")}).verdict == verdict


@pytest.mark.parametrize(
    ("to", "verdict"),
    [
        (of("tool:contacts.iban") | of("tool:mail.sender", how="call"), "allow"),
        (of("tool:contacts.iban") | of("tool:mail.sender.name", how="choice"), "allow"),
        (of("tool:contacts.iban", "tool:mail.sender"), "ask"),
        (of("tool:contacts.iban") | of("tool:mail.sender", how="call") | of("tool:mail.sender"), "ask"),
        (of("tool:contacts.iban") | of("tool:mail.sender", how="author"), "ask"),
        (of("tool:contacts.iban") | of("tool:mail", how="call"), "ask"),
    ],
)
def test_an_origin_may_be_listed_as_what_chose_a_value_and_not_as_the_value(
    to: Origins, verdict: str, tmp_path: Path
) -> None:
    permissions = written(tmp_path, f'{ALLOW}from = {{to = ["tool:contacts", "via tool:mail.sender"]}}')
    assert decided(permissions, {"to": to}).verdict == verdict


def test_an_argument_about_which_nothing_is_said_is_unknown_and_one_that_is_not_given_is_no_matter(
    tmp_path: Path,
) -> None:
    permissions = written(tmp_path, f'{ALLOW}from = {{to = "task", cc = "task", "message.to" = "task"}}')
    task = of("task")
    assert decided(permissions, {"to": task}).verdict == "allow"
    assert decided(permissions, {"to": task}, arguments={"to": 1, "cc": None}).verdict == "ask"
    assert decided(permissions, None).verdict == "ask"
    for message, verdict in (({"text": 1}, "allow"), ({"to": 1}, "ask"), ('{"to": 1}', "ask"), ([], "ask")):
        arguments = {"to": 1, "message": message}
        assert decided(permissions, {"to": task, "message": of("tool:web")}, arguments=arguments).verdict == verdict
    arguments = {"message": {"to": 1}}
    origins = {"message": of("task", "tool:web"), "message.to": task}
    assert decided(permissions, origins, arguments=arguments).verdict == "allow"


def test_without_a_table_it_speaks_of_each_target_and_of_all_arguments_where_there_is_none(tmp_path: Path) -> None:
    permissions = written(tmp_path, f'{ALLOW}from = "task"')
    task, web = of("task"), of("tool:web")
    assert decided(permissions, {"to": task, "text": web}).verdict == "allow"
    assert decided(permissions, {"to": task, "cc": web}).verdict == "ask"
    assert decided(permissions, {"text": web}).verdict == "ask"
    assert decided(permissions, {"text": task}).verdict == "allow"


def test_a_key_with_a_dot_in_it_is_never_surely_a_path(tmp_path: Path) -> None:
    dotted: Origins = frozenset({Origin(kind="tool", tool="mail", path=("a.b",))})
    assert decided(written(tmp_path, f'{ALLOW}from = "tool:mail.a.b"'), {"to": dotted}).verdict == "ask"
    assert decided(written(tmp_path, f'{ALLOW}from = "tool:mail.a?b"'), {"to": dotted}).verdict == "allow"
    denying = written(tmp_path, '[[rules]]\ndeny = "send"\nnot_from = "tool:mail.a.b"')
    assert decided(denying, {"to": dotted}).verdict == "deny"


# -- not_from ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "fits"),
    [
        (of("task"), False),
        (of("tool:contacts"), False),
        (of("tool:web_get.links.href"), True),
        (of("task", "tool:Web_Get"), True),
        (of("tool:mail.body"), True),
        (of("tool:mail.body.text"), True),
        (of("tool:mail.Body"), True),
        (of("tool:mail"), True),
        (of("tool:mail.sender"), False),
        (of("task") | of("tool:web_get", how="choice"), True),
        (of("task", "unknown"), True),
        (UNKNOWN, True),
    ],
)
def test_one_origin_that_may_be_listed_is_enough_to_restrict(to: Origins, fits: bool, tmp_path: Path) -> None:
    forbidden = 'not_from = {to = ["tool:web_*", "tool:mail.body"]}'
    for verdict in ("deny", "ask"):
        permissions = written(tmp_path, f'[[rules]]\n{verdict} = "send"\n{forbidden}\n[[rules]]\nallow = "send"')
        assert decided(permissions, {"to": to}).verdict == (verdict if fits else "allow")
    assert decided(written(tmp_path, f"{ALLOW}{forbidden}"), {"to": to}).verdict == ("ask" if fits else "allow")


def test_of_several_arguments_one_is_enough_to_restrict_and_the_conditions_on_values_hold_too(tmp_path: Path) -> None:
    text = '[[rules]]\ndeny = "send"\nnot_from = {to = "tool:web", cc = "tool:web"}\narguments = {text = "x*"}'
    permissions, task, web = written(tmp_path, text), of("task"), of("tool:web")
    for to, cc, value, verdict in (
        (task, web, "x", "deny"),
        (web, task, "x", "deny"),
        (task, task, "x", "ask"),
        (web, web, "y", "ask"),
    ):
        arguments = {"to": 1, "cc": 1, "text": value}
        assert decided(permissions, {"to": to, "cc": cc}, arguments=arguments).verdict == verdict


def test_a_tool_of_a_value_counts_by_its_name_at_its_server_too(tmp_path: Path) -> None:
    renamed = Protocol(name="hub_get_page", source=Source(kind="mcp", location="hub", operation="GetPage"))
    known = {"hub_get_page": renamed}.get
    page = {"to": of("tool:hub_get_page.url")}
    denying = written(tmp_path, '[[rules]]\ndeny = "send"\nnot_from = "tool:getpage"')
    assert decided(denying, page, protocol_of=known).verdict == "deny"
    assert decided(written(tmp_path, f'{ALLOW}from = "tool:GetPage"'), page, protocol_of=known).verdict == "ask"
    assert decided(written(tmp_path, f'{ALLOW}from = "tool:hub_get_page"'), page, protocol_of=known).verdict == "allow"


@pytest.mark.parametrize(
    ("pattern", "denies"),
    [
        ("tool:page.get", True),  # its name there
        ("tool:page.get.items.url", True),
        ("tool:page.get.items.text", False),
        ("tool:getpage.items.0.url", True),  # a position
        ("tool:getpage.items[0].url", True),
        ("tool:getpage.items[].url", True),
        ("tool:getpage.items[].text", False),
        ("tool:page", False),
    ],
)
def test_a_name_with_dots_and_a_position_in_a_list_restrict_as_they_are_meant(
    pattern: str, denies: bool, tmp_path: Path
) -> None:
    source = Source(kind="mcp", location="web", operation="page.get")
    page = Protocol(name="getpage", source=source)
    permissions = written(tmp_path, f'[[rules]]\ndeny = "send"\nnot_from = "{pattern}"')
    made = decided(permissions, {"to": of("tool:getpage.items.url")}, protocol_of=lambda _: page)
    assert (made.verdict == "deny") is denies


def test_more_origins_than_rules_look_at_are_unknown(tmp_path: Path) -> None:
    most = of(*(f"tool:web.k{number}" for number in range(MAX_ORIGINS)))
    allowing = written(tmp_path, f'{ALLOW}from = {{to = "tool:web"}}')
    assert decided(allowing, {"to": most}).verdict == "allow"
    assert decided(allowing, {"to": most | of("tool:web.more")}).verdict == "ask"
    denying = written(tmp_path, '[[rules]]\ndeny = "send"\nnot_from = {to = "tool:mail"}')
    assert decided(denying, {"to": most | of("tool:web.more")}).verdict == "deny"


@pytest.mark.parametrize("name", ["from", "from_"])
def test_an_argument_may_be_named_as_its_tool_names_it_and_as_programs_do(name: str, tmp_path: Path) -> None:
    move = Protocol(name="send", effect=Effect.WRITE, parameters={"type": "object", "properties": {"from": {}}})
    origins = {"from": of("tool:mail.iban")}
    call: dict[str, Any] = {"protocol": move, "arguments": {"from": 1}, "untrusted": ("from",)}
    denying = written(tmp_path, f'[[rules]]\ndeny = "send"\nnot_from = {{{name} = "tool:mail"}}')
    assert decided(denying, origins, **call).verdict == "deny"
    allowing = written(tmp_path, f'{ALLOW}from = {{{name} = "tool:mail"}}')
    assert decided(allowing, origins, **call).asks == "allow"
    other = written(tmp_path, f'{ALLOW}from = {{{name} = "tool:web"}}')
    assert decided(other, origins, **call).asks == "ask"


def test_a_tool_with_such_a_rule_is_seen(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[[rules]]\ndeny = "send"\nnot_from = "tool:web"')
    assert permissions.sees(Who(), SEND)
    assert permissions.needs_origins
    assert not written(tmp_path, ALLOW).needs_origins


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('allow = "a"\nfrom = "mail"', "rule 1, `from`: 'mail' is no origin: it takes `task`, `literal`"),
        ('allow = "a"\nfrom = "tool"', "'tool' is no origin"),
        ('allow = "a"\nfrom = "tool:"', "'tool:' is no origin"),
        ('allow = "a"\nfrom = "tool:x."', "'tool:x.' is no origin"),
        ('allow = "a"\nfrom = []', "takes 1 to 20 origins"),
        ('allow = "a"\nfrom = "via mail"', "'via mail' is no origin"),
        ('deny = "a"\nnot_from = "via tool:mail"', "'via tool:mail': `via` stands in `from` alone"),
        ('allow = "a"\nfrom = {}', "takes origins, or a table"),
        ('allow = "a"\nfrom = 1', "takes an origin, or a list of origins"),
        ('allow = "a"\nfrom = {to = 1}', "`to`: takes an origin, or a list"),
        ('allow = "a"\nfrom = {"" = "task"}', "the path takes 1 to 10 names"),
        ('allow = "a"\nfrom = ["task", "unknown"]', "`unknown` cannot be allowed"),
        ('deny = "a"\nfrom = "task"', "`from` stands beside `allow` alone. Beside `deny` write `not_from`"),
        ('ask = "a"\nfrom_ = "task"', "rule 1, `from_`: there is no such key"),
    ],
)
def test_what_is_no_origin_is_said_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        written(tmp_path, f"[[rules]]\n{text}")


# -- what strangers may have chosen ------------------------------------------------------------------------------------


def test_an_allowance_lifts_what_strangers_chose_only_where_its_own_from_lists_it(tmp_path: Path) -> None:
    mail = {"to": of("tool:read_mail.sender"), "text": of("task")}
    plain = written(tmp_path, ALLOW)
    assert decided(plain, mail).suspect == ()
    doubted = decided(plain, mail, untrusted=("to",))
    assert (doubted.verdict, doubted.suspect) == ("allow", ("origins",))
    for listed in ('"tool:read_mail"', '{to = "tool:read_mail.sender"}'):
        lifting = decided(written(tmp_path, f"{ALLOW}{ALLOW}from = {listed}"), mail, untrusted=("to",))
        assert (lifting.verdict, lifting.suspect) == ("allow", ())
    for other in ('{text = "task"}', '{cc = "tool:read_mail"}', '"task"'):
        lifting = decided(written(tmp_path, f"{ALLOW}{ALLOW}from = {other}"), mail, untrusted=("to",))
        assert (lifting.verdict, lifting.suspect) == ("allow", ("origins",))
    assert decided(written(tmp_path, f'{ALLOW}not_from = "tool:x"'), mail, untrusted=("to",)).suspect == ("origins",)


def test_a_rule_over_one_argument_lifts_nothing_of_another_whose_name_begins_as_its_own(tmp_path: Path) -> None:
    permissions = written(tmp_path, f'{ALLOW}from = {{"message.to" = "task"}}')
    task, web = of("task"), of("tool:web")
    origins = {"message": task | web, "message.to": task, "message.to.cc": web}
    arguments = {"message": {"to": "x", "to.cc": "y"}}
    told = decided(permissions, origins, arguments=arguments, untrusted=("message.to.cc",))
    assert told.suspect == ("origins",)


def test_the_line_that_is_proposed_lifts_it_and_opens_no_more(tmp_path: Path) -> None:
    mail = of("tool:read_mail.sender") | of("task", "literal", how="choice") | of("tool:list_mail", how="choice")
    asked = decided(Permissions(), {"to": mail, "text": of("task")}, untrusted=("to",))
    assert (asked.verdict, asked.suspect) == ("ask", ("origins",))
    rule = {"allow": "send", "from": {"to": ["tool:read_mail.sender", "via tool:list_mail"]}}
    assert tomllib.loads(asked.line) == {"rules": [rule]}
    permissions = written(tmp_path, asked.line)
    lifted = decided(permissions, {"to": mail, "text": of("task")}, untrusted=("to",))
    assert (lifted.verdict, lifted.suspect) == ("allow", ())
    other = decided(permissions, {"to": of("tool:read_mail.body")}, untrusted=("to",))
    assert (other.verdict, other.suspect) == ("ask", ("origins",))


@pytest.mark.parametrize("to", [UNKNOWN, of("tool:read_mail", "unknown")])
def test_no_line_allows_what_cannot_be_followed(to: Origins) -> None:
    assert decided(Permissions(), {"to": to}, untrusted=("to",)).line == ""


def test_a_line_holds_whatever_a_key_is(tmp_path: Path) -> None:
    key = 'a"] }\n[[rules]]\nallow = "*"\n#\u202e*'
    odd: Origins = frozenset({Origin(kind="tool", tool="mail", path=(key,))})
    assert "\n[[rules]]" not in decided(Permissions(), {"to": odd}, untrusted=("to",)).line.lstrip("[rules]\n")
    odd = frozenset({Origin(kind="tool", tool="mail", path=('a"].*}#\u202e',))})
    line = decided(Permissions(), {"to": odd, key: UNKNOWN}, untrusted=("to",)).line
    assert decided(written(tmp_path, line), {"to": odd}, untrusted=("to",)).suspect == ()


def test_what_the_author_saw_is_lifted_by_one_line_alone(tmp_path: Path) -> None:
    task = {"to": of("task")}
    seen = decided(written(tmp_path, f'{ALLOW}from = "task"'), task, author_saw=("read_mail",))
    assert (seen.verdict, seen.suspect) == ("allow", ("author",))
    assert tomllib.loads(seen.line) == {"after_untrusted": "allow"}
    lifted = decided(written(tmp_path, f"{seen.line}\n{ALLOW}"), task, author_saw=("read_mail",))
    assert (lifted.verdict, lifted.suspect) == ("allow", ())
    both = decided(Permissions(), {"to": of("tool:m")}, author_saw=("m",), untrusted=("to",))
    assert both.suspect == ("origins", "author")
    assert tomllib.loads(both.line) == {
        "after_untrusted": "allow",
        "rules": [{"allow": "send", "from": {"to": ["tool:m"]}}],
    }


def test_a_read_is_not_suspect() -> None:
    look = Protocol(name="look", effect=Effect.READ)
    told = decided(Permissions(), {"to": UNKNOWN}, protocol=look, untrusted=("to",), author_saw=("m",))
    assert (told.verdict, told.suspect) == ("allow", ())


# -- untrusted tools ---------------------------------------------------------------------------------------------------


def served(name: str, server: str, *, untrusted: bool | None = None) -> Protocol:
    source = Source(kind="mcp", location=f"{server} (npx {server})", operation=name, server=server)
    return Protocol(name=f"{server}_{name}", untrusted=untrusted, source=source)


def test_what_marks_a_tool_as_untrusted(tmp_path: Path) -> None:
    permissions = written(tmp_path, 'untrusted = ["web_*", "read", "mcp:notes"]\ntrusted = ["mcp:crm"]')
    marks = permissions.strangers.marks
    assert marks(Protocol(name="web_get")) == "web_*"
    assert marks(Protocol(name="Web_get")) == "web_*"
    assert marks(Protocol(name="add")) == ""
    assert marks(Protocol(name="add", untrusted=True)) == "hint"
    assert marks(served("anything", "notes", untrusted=False)) == "mcp:notes"
    assert marks(served("read", "hub")) == "read"
    assert marks(served("read", "hub", untrusted=False)) == "read"
    assert marks(served("read", "crm", untrusted=False)) == ""
    assert marks(served("read", "crm")) == "read"
    assert marks(served("other", "crm", untrusted=True)) == "hint"
    assert marks(Protocol(name="notes", source=Source(kind="openapi", location="notes"))) == ""
    assert not Permissions().is_untrusted(Protocol(name="web_get"))


def test_the_file_says_which_arguments_are_targets(tmp_path: Path) -> None:
    permissions = written(tmp_path, 'targets = ["room*"]\n[tools."se*"]\ntargets = ["text", "message.body"]')
    room = Protocol(name="book")
    given = {"room_id": 1, "to": 1, "x": {"Rooms": 1}, "seats": 1}
    assert {*targets_of(room, given, permissions.targets(room))} == {"room_id", "to", "x.Rooms"}
    only = permissions.targets(SEND)
    assert [only.has(path, path, {}) for path in ("text", "message.body", "to", "room")] == [True, True, False, False]
    other = decided(
        written(tmp_path, f'{ALLOW}from = "task"\n[tools.send]\ntargets = "text"'),
        {
            "to": of("tool:web"),
            "text": of("task"),
        },
    )
    assert other.verdict == "allow"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("untrusted = 1", "`untrusted`: takes a pattern"),
        ('untrusted = "MCP:crm"', "`untrusted`: the pattern 'MCP:crm' would fit nothing: a server is mcp:NAME"),
        ('untrusted = "mcp: crm"', "`untrusted`: the pattern 'mcp: crm' would fit nothing"),
        ('untrusted = ["mcp:"]', "`untrusted`: the pattern 'mcp:' is empty"),
        ('trusted = ["crm"]', "`trusted`: 'crm' is no server by its name"),
        ('trusted = ["mcp:*"]', "`trusted`: 'mcp:*' is no server by its name"),
        ('after_untrusted = "never"', "`after_untrusted`: Input should be 'ask' or 'allow'"),
        ("targets = []", "`targets`: takes 1 to 200 patterns"),
        ("[tools.x]\ntargets = 1", "tools 'x', `targets`: takes a pattern"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        written(tmp_path, text)


# -- whatever the rules are --------------------------------------------------------------------------------------------

STRICT = {"allow": 0, "ask": 1, "deny": 2}
LISTS = ["via tool:mail.a", "via tool:*"]
TEXTS = ["task", "literal", "author", "tool:mail", "tool:mail.a", "tool:mail.a.b", "tool:web", "tool:w*", "tool:*"]
ORIGINS = some.builds(
    Origin,
    kind=some.just("tool"),
    tool=some.sampled_from(["mail", "web", "Web"]),
    path=some.lists(some.sampled_from(["a", "b", "a.b"]), max_size=2).map(tuple),
    how=some.sampled_from(["value", "call", "choice", "author"]),
) | some.builds(
    Origin, kind=some.sampled_from(["task", "literal", "author"]), how=some.sampled_from(["value", "call", "choice"])
)
LISTED = some.lists(some.sampled_from(TEXTS), min_size=1, max_size=3)
CONDITIONS = LISTED | some.dictionaries(some.sampled_from(["to", "cc", "message.to"]), LISTED, min_size=1, max_size=2)
MORE = some.lists(some.sampled_from([*TEXTS, *LISTS]), min_size=1, max_size=4)
RULES = some.lists(
    some.fixed_dictionaries({"allow": some.just("send"), "from": CONDITIONS | MORE})
    | some.fixed_dictionaries({"allow": some.just("send"), "not_from": CONDITIONS})
    | some.fixed_dictionaries({"ask": some.just("send"), "not_from": CONDITIONS})
    | some.fixed_dictionaries({"deny": some.just("send"), "not_from": CONDITIONS})
    | some.just({"allow": "send"}),
    max_size=4,
)
GIVEN = {"to": "x", "cc": "x", "text": "x", "message": {"to": "x"}}
NAMES = some.sampled_from(sorted(GIVEN))
FOUND = some.fixed_dictionaries({name: some.frozensets(ORIGINS, max_size=4) for name in GIVEN})
UNTRUSTED = some.sampled_from([(), ("to",), ("to", "cc"), ("text",)])


def made(rules: list[dict[str, Any]], after: Any = "ask") -> Permissions:
    read = [_RuleText.model_validate(each) for each in rules]
    numbered = tuple(each.rule(number) for number, each in enumerate(read, 1))
    return Permissions(numbered, strangers=Strangers(after=after))


def gravity(permissions: Permissions, origins: CallOrigins, untrusted: tuple[str, ...] = ()) -> int:
    return STRICT[permissions.decide(Who(), SEND, GIVEN, origins, untrusted=untrusted).asks]


@given(RULES, FOUND, NAMES, ORIGINS, UNTRUSTED)
def test_one_more_origin_never_widens(
    rules: list[dict[str, Any]], found: CallOrigins, name: str, more: Origin, untrusted: tuple[str, ...]
) -> None:
    permissions = made(rules)
    wider = [found, {**found, name: found[name] | {more}}, {**found, name: found[name] | {more} | UNKNOWN}]
    unsaid = {key: value for key, value in found.items() if key != name}
    verdicts = [gravity(permissions, each, untrusted) for each in (*wider, {**found, name: UNKNOWN}, unsaid)]
    assert verdicts == sorted(verdicts)


@given(RULES, FOUND, NAMES, ORIGINS.filter(lambda each: bool(each.path)))
def test_the_whole_of_a_response_is_never_less_than_a_part_of_it(
    rules: list[dict[str, Any]], found: CallOrigins, name: str, part: Origin
) -> None:
    whole = part.model_copy(update={"path": part.path[:-1]})
    of_part, of_whole = (gravity(made(rules), {**found, name: found[name] | {each}}) for each in (part, whole))
    assert of_part <= of_whole


@given(RULES, FOUND, UNTRUSTED)
def test_what_strangers_may_have_chosen_never_widens_and_the_lines_that_are_proposed_lift_it(
    rules: list[dict[str, Any]], found: CallOrigins, untrusted: tuple[str, ...]
) -> None:
    assert gravity(made(rules), found) <= gravity(made(rules), found, untrusted)
    about: Any = {"untrusted": untrusted, "author_saw": ("mail",)}
    told = made(rules).decide(Who(), SEND, GIVEN, found, **about)
    assert told.asks != "allow"
    if told.line:
        more = tomllib.loads(told.line)
        lifting = made([*rules, *more.get("rules", [])], more["after_untrusted"])
        assert lifting.decide(Who(), SEND, GIVEN, found, **about).asks == "allow"
