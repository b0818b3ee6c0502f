"""`atc permissions`, `atc permissions audit`, and the options of the commands that run tasks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from atc.calls.permissions import Who
from atc.calls.permissions.audit import AuditLog
from atc.result import Effect
from tests.support.cli import atc, settle
from tests.support.permissions import file_of

RULES = '[[rules]]\nallow = "book"\narguments = {n = {max = 3}}\n[[rules]]\ndeny = "slow"\n[[rules]]\nask = "none"\n'


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path, monkeypatch)
    file_of(tmp_path, RULES)


def test_check_says_of_each_tool_what_would_happen_and_by_which_rule() -> None:
    ran = atc("permissions", "check", "permissions.toml", "--tools", "tools.py")
    assert ran.exit_code == 0
    rows = [line.split("  ")[0] for line in ran.stdout.splitlines()]
    assert rows[:1] == ["permissions.toml: 3 rules"]
    assert "rule 1: allow where n: to 3" in ran.stdout
    assert "rule 3 fits none of these tools" in ran.stdout
    told = json.loads(atc("permissions", "check", "permissions.toml", "--tools", "tools.py", "--json").stdout)
    assert [(each["tool"], each["verdict"], each["by"]) for each in told["tools"]] == [
        ("double", "allow", "default"),
        ("book", "ask", "default"),
        ("evil", "allow", "default"),
        ("slow", "deny", "rule 2"),
    ]
    assert told["in_vain"] == ["rule 3 fits none of these tools"]


def test_check_says_how_patterns_are_read_that_look_like_commands_or_addresses(tmp_path: Path) -> None:
    rules = "".join(
        f'[[rules]]\n{verdict} = "run"\narguments = {{ v = ["{pattern}", "main"] }}\n'
        for verdict, pattern in (("allow", "git *"), ("deny", "*@x.example"), ("allow", "bash *"))
    )
    file_of(tmp_path, rules)
    told = json.loads(atc("permissions", "check", "permissions.toml", "--json").stdout)["read"]
    assert [line.partition(":")[0::2] for line in told] == [
        ("rule 1", " v `git *` fits one command: its wildcard covers no ; & | < > ( ) ` $ and no line break"),
        (
            "rule 2",
            " v `*@x.example` fits each address of a text: in a name, a list or a link, in any letter case",
        ),
        ("rule 3", " v `bash *` fits every command, for `bash` runs others"),
    ]
    ran = atc("permissions", "check", "permissions.toml")
    assert " ".join(told) in " ".join(ran.stdout.split())


def test_check_says_which_calls_are_sent_again_and_which_tables_name_nothing(tmp_path: Path) -> None:
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://shop.example"}],
        "paths": {
            "/orders": {
                "post": {
                    "operationId": "order",
                    "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
    }
    (tmp_path / "shop.json").write_text(json.dumps(document))
    file_of(
        tmp_path,
        "[tools.order]\nidempotency_key = {window_s = 60}\n[tools.gone]\nidempotency_key = {window_s = 60}\n"
        '[tools.book]\nidempotency_key = {header = "X-Key"}\n',
    )
    ran = atc("permissions", "check", "permissions.toml", "--tools", "shop.json", "--tools", "tools.py")
    assert "60 s, header Idempotency-Key" in ran.stdout
    assert "no: its calls bear no header" in ran.stdout
    assert "[tools.gone] names none of these tools" in ran.stdout
    assert "[tools.order] names none" not in ran.stdout


def test_check_of_a_wrong_file_is_wrong_use(tmp_path: Path) -> None:
    file_of(tmp_path, '[[rules]]\nalow = "x\\u001b[2J"')
    ran = atc("permissions", "check", "permissions.toml", "--json")
    assert ran.exit_code == 2
    assert "rule 1, `alow`: there is no such key" in json.loads(ran.stdout)["error"]["message"]
    assert atc("permissions", "check", "none.toml").exit_code == 2
    assert "no file: the defaults" in atc("permissions", "check").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["book", "n=3"], 0, "allow: rule 1, effect write"),
        (["book", "n=4"], 0, "ask: default, effect write"),
        (["slow", "n=4"], 4, "deny: rule 2, effect write"),
        (["double"], 0, "allow: default, effect read"),
        (["nothing"], 2, ""),
        (["book", "n"], 2, ""),
    ],
)
def test_explain_says_which_rule_decides(arguments: list[str], code: int, said: str) -> None:
    ran = atc("permissions", "explain", *arguments, "--permissions", "permissions.toml", "--tools", "tools.py")
    assert ran.exit_code == code
    assert said in ran.stdout
    assert ('this would allow it unasked:\n[[rules]]\nallow = "book"' in ran.stdout) is said.startswith("ask")


def test_explain_goes_by_the_settings_and_wants_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = atc("permissions", "explain", "double", "--tools", "tools.py", "--json")
    told = {"verdict": "allow", "by": "default", "waits": False, "effect": "read", "line": ""}
    assert json.loads(ran.stdout) == told | {"untrusted": [], "unsaid": []}
    assert "say with --tools where the tool is" in atc("permissions", "explain", "double").stderr
    monkeypatch.setenv("ATC_READ_ONLY", "true")
    ran = atc("permissions", "explain", "book", "--tools", "tools.py")
    assert (ran.exit_code, ran.stdout) == (4, "deny: read-only, effect write\n")


def test_check_and_explain_say_which_call_waits(tmp_path: Path) -> None:
    rules = '[[rules]]\nask = "book"\n[[rules]]\nask = "book"\nwait = "park"\narguments = {n = {min = 5}}\n'
    file = ("--permissions", str(file_of(tmp_path, rules)), "--tools", "tools.py")
    assert (
        "ask: rule 2, effect write, and it waits for approval"
        in atc("permissions", "explain", "book", "n=7", *file).stdout
    )
    assert "waits" not in atc("permissions", "explain", "book", "n=4", *file).stdout
    checked = atc("permissions", "check", file[1], "--tools", "tools.py", "--json")
    book = next(row for row in json.loads(checked.stdout)["tools"] if row["tool"] == "book")
    assert (book["verdict"], book["but"]) == ("ask", ["rule 2: ask, waits where n: from 5"])


def test_explain_judges_a_call_by_where_its_arguments_come_from(tmp_path: Path) -> None:
    text = 'untrusted = "double"\n[[rules]]\nallow = "book"\nfrom = {n = ["task", "tool:slow.x"]}\n'
    file = ("--permissions", str(file_of(tmp_path, text)), "--tools", "tools.py")

    def explained(*more: str) -> str:
        return atc("permissions", "explain", "book", "n=3", *more, *file).stdout

    assert explained("--from", "n=task").startswith("allow: rule 1, effect write")
    assert explained("--from", "n=task", "--from", "n=tool:slow.x.y").startswith("allow: rule 1")
    asked = explained("--from", "n=task", "--from", "n=tool:double.z")
    assert asked.startswith("ask: default, effect write\nan untrusted tool may have chosen n\n")
    assert 'from = { n = ["task", "tool:double.z"] }' in asked
    assert 'n = ["task", "via tool:double"]' in explained("--from", "n=task", "--from", "n=via tool:double")
    assert "--from n=" not in asked
    for unsaid in (explained(), explained("--from", "n=unknown")):
        assert unsaid.startswith("ask: default")
    assert "where n comes from counts, too: add `--from n=…`" in explained()
    told = json.loads(explained("--from", "n=tool:double", "--json"))
    assert (told["verdict"], told["untrusted"], told["unsaid"]) == ("ask", ["n"], [])
    for wrong in ("n", "n=", "n=mail", ".=task", "n=tool:1", "n=tool:nope"):
        assert atc("permissions", "explain", "book", "--from", wrong, *file).exit_code == 2


def test_a_rule_that_allows_is_asked_about_where_an_untrusted_tool_chose(tmp_path: Path) -> None:
    (tmp_path / "pay.py").write_text(PAY.replace("amount: int, ", ""))
    rules = 'untrusted = "read_*"\n[[rules]]\nallow = "send_money"\n'
    file = ("--tools", "pay.py", "--permissions", str(file_of(tmp_path, rules)))
    ran = atc("permissions", "explain", "send_money", "--from", "to=tool:read_mail.sender", *file)
    assert ran.stdout.startswith("ask: rule 1")
    assert 'from = { to = ["tool:read_mail.sender"] }' in ran.stdout
    ran = atc("permissions", "explain", "send_money", "--from", "text=tool:read_mail", "--from", "to=task", *file)
    assert ran.stdout.startswith("allow: rule 1")
    (tmp_path / "pay.py").write_text(PAY.replace("to: str, amount: int", "message: dict[str, str]"))
    of_part = file_of(tmp_path, '[[rules]]\nallow = "send_money"\nfrom = {message = "task"}\n')
    part = ("message.to=task", "--tools", "pay.py", "--permissions", str(of_part))
    assert atc("permissions", "explain", "send_money", "--from", *part).stdout.startswith("allow")


def test_check_says_which_tools_are_untrusted_by_what_and_which_names_name_nothing(tmp_path: Path) -> None:
    text = (
        'untrusted = ["dou*", "web_*", "mcp:notes"]\ntrusted = "mcp:crm"\n'
        '[[rules]]\nallow = "book"\nfrom = ["task", "tool:gone.x"]\n'
    )
    file = file_of(tmp_path, text)
    ran = atc("permissions", "check", str(file), "--tools", "tools.py")
    assert "untrusted by" in ran.stdout
    told = json.loads(atc("permissions", "check", str(file), "--tools", "tools.py", "--json").stdout)
    marks = {row["tool"]: row["untrusted"] for row in told["tools"]}
    assert told["tools"][1]["but"] == ["rule 1: allow if every origin of each target is one of task, tool:gone.x"]
    assert marks == {"double": "dou*", "book": "", "evil": "", "slow": ""}
    assert (told["untrusted"], told["after_untrusted"]) == (["dou*", "web_*", "mcp:notes"], "ask")
    in_vain = ["untrusted: web_*", "untrusted: mcp:notes", "trusted: mcp:crm", "rule 1: tool:gone"]
    assert told["in_vain"] == [f"{each} names none of these tools" for each in in_vain]
    assert all(each in ran.stdout for each in told["in_vain"])


PAY = '''
from atc import tool

@tool(effect="read", untrusted=True)
def read_mail() -> dict[str, str]:
    """The newest mail."""
    return {}

@tool(effect="write")
def send_money(to: str, amount: int, text: str = "") -> str:
    """Send money."""
    return ""

@tool(effect="write")
def post_note(room: str, text: str) -> str:
    """Post a note."""
    return ""
'''


def test_check_shows_the_targets_and_says_which_argument_no_tool_has(tmp_path: Path) -> None:
    (tmp_path / "pay.py").write_text(PAY)
    text = (
        'targets = ["whom", "text"]\nafter_untrusted = "allow"\n[tools.send_money]\ntargets = ["ammount", "to"]\n'
        '[[rules]]\nallow = "send_*"\nfrom = {too = "task"}\nnot_from = "tool:read_mail"\n'
        '[[rules]]\ndeny = "post_*"\nnot_from = "tool:read_mail"\narguments = {text = "a*"}\n'
    )
    given = ("permissions", "check", str(file_of(tmp_path, text)), "--tools", "pay.py")
    told = json.loads(atc(*given, "--json").stdout)
    assert [row["targets"] for row in told["tools"]] == [[], ["to"], []]
    assert told["in_vain"] == [
        "targets: whom is no argument of read_mail, send_money, post_note",
        "[tools.send_money] targets: ammount is no argument of send_money",
        "rule 1: too is no argument of send_money",
    ]
    (allows,), (denies,) = told["tools"][1]["but"], told["tools"][2]["but"]
    assert allows == "rule 1: allow if every origin of too is one of task, unless a target may come from tool:read_mail"
    assert denies.startswith("rule 2: deny where text")
    assert denies.endswith(" and if a target may come from tool:read_mail")
    shown = atc(*given).stdout
    assert "rule 1: too is no argument of send_money\n" in shown
    assert "all arguments" in shown
    assert 'after_untrusted = "allow": ' in shown
    file_of(tmp_path, "")
    assert "after_untrusted" not in atc(*given).stdout


def test_a_tool_that_takes_any_key_is_not_said_to_lack_one(tmp_path: Path) -> None:
    (tmp_path / "pay.py").write_text(PAY.replace("room: str", "room: dict"))
    given = ("permissions", "check", str(file_of(tmp_path, 'targets = "whom"')), "--tools", "pay.py", "--json")
    assert json.loads(atc(*given).stdout)["in_vain"] == []


def test_explain_proposes_what_is_known_and_says_what_is_not(tmp_path: Path) -> None:
    (tmp_path / "pay.py").write_text(PAY)

    def explained(*more: str, rules: str = "") -> str:
        file = file_of(tmp_path, rules)
        given = ("permissions", "explain", "send_money", "to=x", "amount=3", *more, "--tools", "pay.py")
        ran = atc(*given, "--permissions", str(file))
        assert ran.exit_code == (0 if ran.stdout else 2)
        return ran.stdout or " ".join(ran.stderr.split())

    assert "unasked, as long as no target comes from an untrusted tool:" in explained()
    known = explained("--from", "to=tool:read_mail.iban")
    assert "where amount comes from counts, too: add `--from amount=…`" in known
    assert "unasked" not in known
    both = ("--from", "to=tool:read_mail.iban", "--from", "amount=author")
    line = explained(*both).partition("unasked:\n")[2]
    assert 'from = { to = ["tool:read_mail.iban"] }' in line
    assert explained(*both, rules=line).startswith("allow: rule 1")
    assert explained("--from", "to=tool:read_mail", "--from", "amount=author", rules=line).startswith("ask")
    assert "there is no tool raed_mail" in explained("--from", "to=tool:raed_mail")
    assert "send_money has no such argument: it has to, amount, text" in explained("--from", "iban=task")


def test_the_audit_is_read_back_filtered_and_cleaned(tmp_path: Path) -> None:
    without = atc("permissions", "audit").stdout
    for way in (
        "no decision in",
        str(tmp_path / "audit.jsonl"),
        "the setting `permissions`",
        "permissions.toml",
        "atc runs show",
    ):
        assert way in without
    log = AuditLog(tmp_path / "audit.jsonl")
    for number, (principal, name) in enumerate((("ann", "\x1b[2Jeditor"), ("bob", "shell"), ("ann", "editor"))):
        for tool in ("book", "drop\u202e"):
            noting = log.note(
                Who(principal, name),
                tool=tool,
                effect=Effect.WRITE,
                arguments={"n": number, "text": "\x1b]0;x\x07"},
                verdict="allowed" if tool == "book" else "refused",
                by="user",
                run=f"run{number}",
            )
            asyncio.run(noting)
    with log.path.open("a") as file:
        file.write("no json\n")
    ran = atc("permissions", "audit")
    assert ran.exit_code == 0
    assert len(ran.stdout.splitlines()) == 7
    assert not {"\x1b", "\x07", "\u202e"} & set(ran.stdout)
    assert "1 lines of" in ran.stderr

    def shown(*options: str) -> list[tuple[str, str]]:
        return [
            (each["run"], each["tool"]) for each in json.loads(atc("permissions", "audit", "--json", *options).stdout)
        ]

    assert len(shown()) == 6
    assert shown("--limit", "1") == [("run2", "drop\u202e")]
    assert shown("--tool", "bo*", "--client", "ann") == [("run0", "book"), ("run2", "book")]
    assert shown("--client", "sh*", "--verdict", "refused") == [("run1", "drop\u202e")]
    assert shown("--run", "run1", "--verdict", "allowed") == [("run1", "book")]
    log.path.write_text("")
    assert "fits. `atc mcp`" in atc("permissions", "audit", "--tool", "none").stdout


def test_a_run_takes_a_permissions_file_and_read_only_mode(tmp_path: Path) -> None:
    for options in (["--set", "permissions=none.toml"], ["--set", "permissions=permissions.toml", "--only", "slow"]):
        ran = atc("run", "Do it", "--tools", "tools.py", *options)
        assert ran.exit_code == 2
    assert "leaves none of the 1 tools" in ran.stderr
    ran = atc("run", "Do it", "--tools", "tools.py", "--only", "book", "--read-only")
    assert "read-only mode leaves none" in ran.stderr
