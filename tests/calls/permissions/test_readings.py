"""What rules make of other spellings, of keys with dots, and of more than one call may cost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from atc.calls.approval import ApprovalRequest
from atc.calls.permissions import Permissions, Who
from atc.calls.permissions.conditions import condition_of
from atc.calls.permissions.guard import Guard
from atc.calls.permissions.patterns import MAX_JUDGED, MAX_NAME, MAX_WORK, Reader, patterns_of, reading_of
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from tests.support.permissions import written

PUT = Protocol(name="put", effect=Effect.WRITE, source=Source(kind="mcp", location="hub", operation="put"))


def verdict(permissions: Permissions, protocol: Protocol = PUT, **arguments: Any) -> str:
    return permissions.decide(Who(), protocol, arguments).verdict


def denies(folder: Path, conditions: str, **arguments: Any) -> bool:
    rules = f'[[rules]]\nallow = "*"\n[[rules]]\ndeny = "put"\narguments = {{ {conditions} }}'
    return verdict(written(folder, rules), **arguments) == "deny"


def allows(folder: Path, conditions: str, **arguments: Any) -> bool:
    return verdict(written(folder, f'[[rules]]\nallow = "put"\narguments = {{ {conditions} }}'), **arguments) == "allow"


# -- paths -------------------------------------------------------------------------------------------------------------

CLIMBS = (
    "..",
    "%2e%2e",
    "%2E.",
    "%252e%252e",
    "%25252e%25252e",
    "%25252525252e%2e",
    "%u002e%u002e",
    "%c0%ae%c0%ae",
    "%e0%80%ae.",
    ".\t.",
    ".\n.",
    ". .",
    ".. ",
    "..\0",
    "..%00",
    "..;",
    "..;x=1",
    "..?",
    "..#",
    "...",
    ".\u200b.",
    ".\u00ad.",
    "\uff0e\uff0e",
    "\u2025",
    "\u2024\u2024",
    "\u3002\u3002",
    "%ef%bc%8e%ef%bc%8e",
)
SLASHES = ("/", "\\", "%2f", "%5c", "%252f", "\uff0f", "\u2215", "\u2044", "\uff3c", "%c0%af")


@pytest.mark.parametrize("dots", CLIMBS)
def test_a_path_that_climbs_in_any_spelling_fits_no_rule_that_allows(tmp_path: Path, dots: str) -> None:
    permissions = written(tmp_path, '[[rules]]\nallow = "put"\narguments = { path = "/public/*" }')
    for slash in SLASHES:
        for path in (f"/public/{dots}{slash}etc", f"/public/a{slash}{dots}", f"/public/{slash}{dots}{slash}"):
            assert verdict(permissions, path=path) == "ask", ascii(path)


@pytest.mark.parametrize("control", ["\0", "%00", "\x1b", "\x7f", "\n", "%0a", "%250a", "\r", "\t", "\u2028"])
def test_a_path_with_a_control_character_fits_no_rule_that_allows(tmp_path: Path, control: str) -> None:
    assert not allows(tmp_path, 'path = "/public/*"', path=f"/public/a{control}.txt")


PLAIN = ("a", "a/b.txt", "a..b", ".a", "..a", "a.", "100%", "50%25", "a%20b", "\u691c", "a;b", "a?b=..", "caf\u00e9")


@pytest.mark.parametrize("path", PLAIN)
def test_a_plain_path_fits(tmp_path: Path, path: str) -> None:
    assert allows(tmp_path, 'path = "/public/*"', path=f"/public/{path}")


def test_the_same_text_as_the_pattern_fits_whatever_it_is(tmp_path: Path) -> None:
    assert allows(tmp_path, 'path = "/public/../x"', path="/public/../x")


def test_a_text_of_lines_fits_a_pattern_that_is_of_no_path(tmp_path: Path) -> None:
    assert allows(tmp_path, 'sql = "SELECT *"', sql="SELECT a\nFROM b\n")
    assert not allows(tmp_path, 'sql = "SELECT *"', sql="SELECT a\0")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x",
        "/ETC/x",
        "//etc//x",
        "/./etc/x",
        "/a/../etc/x",
        "/a/%2e%2e/etc/x",
        "/%65tc/x",
        "/%2565tc/x",
        "\\etc\\x",
        "/e\u200btc/x",
        "/e\0tc/x",
        " /etc/x",
        "/etc/x\n",
        "/\uff45tc/x",
        "\u2215etc\u2215x",
    ],
)
def test_a_denial_holds_for_every_way_to_write_a_path(tmp_path: Path, path: str) -> None:
    assert denies(tmp_path, 'path = "/etc/*"', path=path), ascii(path)


@pytest.mark.parametrize("path", ["/etcetera", "/a/etc/x", "/home/etc", "etc", "/etc/../a", "%"])
def test_a_denial_holds_for_no_other_path(tmp_path: Path, path: str) -> None:
    assert denies(tmp_path, 'path = "/etc/*"', path=path) is (path == "/etc/../a")  # this one as it stands


# -- single values -----------------------------------------------------------------------------------------------------

MET = {
    "true": [True, 1, 1.0, -2, "true", "TRUE", " Yes ", "on", "y", "1", "1.0", "enabled", "\uff54rue", [0, 1]],
    "false": [False, 0, 0.0, "false", "No", "off", "0", "0.0", "", "null", "disabled"],
    "5": [5, 5.0, "5", " 5 ", "5.0", "05", "+5", "5e0", "0x5", "0b101", "\u0665", "\uff15", "5\u200b", [4, "05"]],
    "6": ["9" * 600],
    "1": [1, True, "1", "01"],
    "1000": [1000, "1,000", "1_000", "1e3"],
    '{is = "main"}': ["main", "MAIN", "\uff4dain", " main\n", "ma\u200bin", "ma\u0131n"],
    '"5"': ["5", 5, 5.0, "\uff15"],
}  # fmt: skip
NOT_MET = {
    "true": [False, 0, "false", "no", "0", ""],
    "false": [True, 1, "yes", 2, "1"],
    "5": [4, 6, 5.5, "six", "55", "0x6", "", True, "5 apples"],
    '{is = "main"}': ["mainly", "refs/heads/main", 5],
    '"5"': ["05", 6, "55"],
}  # fmt: skip


@pytest.mark.parametrize("given", MET)
def test_a_denial_meets_what_a_service_may_take_for_its_value(tmp_path: Path, given: str) -> None:
    for value in MET[given]:
        assert denies(tmp_path, f"n = {given}", n=value), repr(value)
    for value in (None, {}, {"a": 1}, b"1", 10**600):
        assert denies(tmp_path, f"n = {given}", n=value), "what nobody can judge"


@pytest.mark.parametrize("given", NOT_MET)
def test_a_denial_meets_nothing_else(tmp_path: Path, given: str) -> None:
    for value in NOT_MET[given]:
        assert not denies(tmp_path, f"n = {given}", n=value), repr(value)


@pytest.mark.parametrize("given", MET)
def test_an_allowance_meets_its_value_and_no_other_spelling(tmp_path: Path, given: str) -> None:
    exact: dict[str, list[Any]] = {
        "true": [True],
        "false": [False],
        "5": [5, 5.0],
        "1": [1],
        "6": [],
        "1000": [1000],
        '{is = "main"}': ["main"],
        '"5"': ["5"],
    }
    for value in [*MET[given], None, {}, 10**5000]:
        assert allows(tmp_path, f"n = {given}", n=value) is (value in exact[given] and not _confused(value, given)), (
            value
        )


def _confused(value: Any, given: str) -> bool:
    return isinstance(value, bool) is not (given in ("true", "false"))


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter.name": "secret1"},
        {"filter": {"name": "secret1"}},
        {"filter": [{"name": "a"}, {"name": "secret1"}]},
        {"filter.name": "a", "filter": {"name": "secret1"}},
        {"filter.name": ["a", "secret1"]},
        {"filter": '{"name": "secret1"}'},
        {"filter": ' [{"name": "a"}]'},
        {"filter": "\ufeff" + ' {"name": "a"}'},
        {"filter": " " * 5_000 + '{"name": "a"}'},
    ],
)
def test_a_denial_names_a_parameter_with_a_dot_in_it(tmp_path: Path, arguments: dict[str, Any]) -> None:
    assert denies(tmp_path, '"filter.name" = "secret*"', **arguments)


def test_a_path_of_several_keys_with_dots(tmp_path: Path) -> None:
    for arguments in ({"a.b": {"c.d": 5}}, {"a": {"b.c": {"d": 5}}}, {"a.b.c.d": 5}, {"a": [{"b": {"c.d": 5}}]}):
        assert denies(tmp_path, '"a.b.c.d" = 5', **arguments)
        assert allows(tmp_path, '"a.b.c.d" = 5', **arguments)
    assert not denies(tmp_path, '"a.b" = 5', a={"c": 5}, b=5)
    assert not denies(tmp_path, '"a.b" = 5', a="5")
    assert not denies(tmp_path, '"a.b" = 5', a="")


@pytest.mark.parametrize(
    "to",
    [
        [{"mail": "a@me.org"}, "evil@x.org"],
        [{"mail": "a@me.org"}, {"address": "evil@x.org"}],
        [{"mail": "a@me.org"}, None],
        '[{"mail": "a@me.org"}]',
    ],
)
def test_an_allowance_wants_its_key_in_every_item(tmp_path: Path, to: Any) -> None:
    assert not allows(tmp_path, '"to.mail" = "*@me.org"', to=to)
    assert allows(tmp_path, '"to.mail" = "*@me.org"', to=[{"mail": "a@me.org"}, {"mail": "b@me.org"}])


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_denial_meets_a_name_with_letters_that_nobody_sees(tmp_path: Path) -> None:
    permissions = written(tmp_path, '[[rules]]\ndeny = "send_*"\n[[rules]]\ndeny = "put"\nclient = "evil*"')
    hidden = PUT.model_copy(update={"source": Source(kind="mcp", location="hub", operation="send\u200b_mail")})
    assert verdict(permissions, hidden) == "deny"
    for name in ("evil", "ev\u200bil", "\uff25vil", "x" * (MAX_NAME + 1)):
        assert permissions.decide(Who("ann", name), PUT, {}).verdict == "deny"
    assert permissions.decide(Who("ann", "x" * MAX_NAME), PUT, {}).verdict == "ask"


# -- the budget --------------------------------------------------------------------------------------------------------


def test_a_text_is_bounded_before_and_after_it_is_read() -> None:
    assert reading_of("a" * MAX_JUDGED) is not None
    for text in ("a" * (MAX_JUDGED + 1), "\ufdfa" * (MAX_JUDGED // 18 + 1)):
        assert reading_of(text) is None
        assert patterns_of(["*b*"]).may_fit_argument(text, Reader())
        assert not patterns_of(["*"]).fit_argument(text, Reader())


def test_a_text_is_read_once_and_what_it_costs_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from atc.calls.permissions import patterns

    seen: list[str] = []
    monkeypatch.setattr(patterns, "reading_of", lambda text: seen.append(text) or reading_of(text))
    rules = "\n".join(f'[[rules]]\ndeny = "put"\narguments = {{ path = "*secret{number}*" }}' for number in range(30))
    assert verdict(written(tmp_path, rules), path=["/a/b", "/a/b", "\u00e9"]) == "ask"
    assert sorted(each for each in seen if "/a" in each or "\u00e9" in each) == ["/a/b", "\u00e9"]


def test_what_is_more_than_one_call_may_cost_is_denied_and_not_allowed(tmp_path: Path) -> None:
    values = [f"{number:06}{'a' * 9_000}" for number in range(400)]
    for pattern in ("*a", "*"):
        allowing = written(tmp_path, f'[[rules]]\nallow = "put"\narguments = {{ path = "{pattern}" }}')
        decision = allowing.decide(Who(), PUT, {"path": values})
        assert (decision.verdict, decision.unjudged) == ("ask", True)
        assert verdict(allowing, path=values[:20]) == "allow"
    none = written(tmp_path, '[[rules]]\ndeny = "put"\narguments = { path = "*b*" }')
    decision = none.decide(Who(), PUT, {"path": values})
    assert (decision.verdict, decision.unjudged) == ("deny", True)
    guard = Guard(none, Who(), lambda request: True)
    refused = guard.judge(ApprovalRequest("put", {"path": values}, Effect.WRITE, "", protocol=PUT)).denied
    assert refused is not None
    assert "more than the rules can judge" in refused.reason
    assert none.decide(Who(), PUT, {"path": values[:20]}).verdict == "ask"


def test_no_work_is_done_beyond_the_budget() -> None:
    """Operations are counted, so the machine's load does not matter: what is spent stays near the budget."""
    hostile: list[Any] = [
        [f"{number}{'a' * 9_000}" for number in range(2_000)],
        ["a"] * 9_999,
        [[["x"] * 90] * 90] * 90,
        [f"{number}{'../' * 3_000}" for number in range(2_000)],
        [f"{number}{chr(0xFDFA) * 500}" for number in range(9_000)],
    ]
    condition = condition_of("n", [*(f"*secret{number}*" for number in range(190)), 5, True])
    for value in hostile:
        reader = Reader()
        assert condition.restricts({"n": value}, reader)
        assert not condition.allows({"n": value}, reader)
        assert reader.left > -MAX_WORK // 5


def test_a_call_is_decided_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    permissions, decided = written(tmp_path, '[[rules]]\nask = "put"'), []
    real = Permissions.decide
    monkeypatch.setattr(
        Permissions, "decide", lambda self, *given, **more: decided.append(given) or real(self, *given, **more)
    )
    guard = Guard(permissions, Who(), lambda request: True)
    approval = guard.approval()
    request = ApprovalRequest("put", {"n": 1}, Effect.WRITE, "", protocol=PUT)
    asks = approval.decide(request)
    assert callable(asks)
    assert asyncio.run(asks(request)) is True  # type: ignore[arg-type]
    assert len(decided) == 1
