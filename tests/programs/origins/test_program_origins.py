"""An argument has the origins that it has and no others; what cannot be followed is unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from atc._records.origins import UNKNOWN, CallOrigins, Origin, OriginKind, Origins
from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program
from atc.schemas.protocol import Protocol

TOOLS = ("read_mail", "list_mails", "get_contact", "list_contacts", "send")


def origins(
    source: str,
    arguments: tuple[str, ...] = ("to",),
    *,
    task: str = "",
    text: OriginKind = "literal",
    inputs: Mapping[str, Origins] | None = None,
) -> CallOrigins:
    """Return the origins of the arguments of the last line's call of ``send``."""
    followed = ProgramOrigins(Program(source), TOOLS, task=task, text=text, inputs=inputs)
    return followed.of_call("send", len(source.rstrip("\n").split("\n")), arguments)


def shown(found: Origins) -> set[str]:
    """Return origins in brief; the program's own text is left out where it only chose."""
    return {
        ".".join((origin.tool or origin.kind, *origin.path)) + ("" if origin.how == "value" else f" ({origin.how})")
        for origin in found
        if not (origin.kind == "literal" and origin.how != "value")
    }


MAIL = "mail = read_mail(id=1)\n"
PRECISE = {
    "a field": (MAIL + 'send(to=mail["from"])', {"read_mail.from"}),
    "a field of a field": (MAIL + 'send(to=mail["head"]["from"])', {"read_mail.head.from"}),
    "a method for it": (MAIL + 'send(to=mail.get("from", "x"))', {"read_mail.from", "literal"}),
    "items of a list": (
        'for m in list_mails()["mails"]:\n    send(to=m["from"])',
        {"list_mails.mails.from", "list_mails.mails (choice)"},
    ),
    "by position": ('send(to=list_mails()[0]["from"])', {"list_mails.from"}),
    "a variable that is used again": (MAIL + 'mail = get_contact(name="Bo")\nsend(to=mail["a"])', {"get_contact.a"}),
    "a row that is built": (
        MAIL + 'row = {"to": "a@x.org", "body": mail["text"]}\nsend(to=row["to"])',
        {"literal"},
    ),
    "pairs": (
        'rows = [(m["from"], m["id"]) for m in list_mails()]\nfor who, number in rows:\n    send(to=who)',
        {"list_mails.from", "list_mails (choice)"},
    ),
    "an f-string": (MAIL + "send(to=f\"{mail['from']}.\")", {"read_mail.from", "literal"}),
    "a helper": (
        'def address(m):\n    return m["from"].lower()\n' + MAIL + "send(to=address(mail))",
        {"read_mail.from"},
    ),
    "what a sort chose": (
        'send(to=sorted(list_contacts(), key=lambda c: c["date"])[0]["email"])',
        {"list_contacts.email", "list_contacts.date (choice)", "list_contacts (choice)"},
    ),
    "what a filter chose": (
        'send(to=next(c for c in list_contacts() if c["name"] == "Bo")["email"])',
        {"list_contacts.email", "list_contacts.name (choice)", "list_contacts (choice)"},
    ),
    "through a call": (
        MAIL + 'c = get_contact(name=mail["from"])\nsend(to=c["email"])',
        {"get_contact.email", "read_mail.from (call)"},
    ),
    "a branch": (
        MAIL + 'to = "a@x.org"\nif mail["urgent"]:\n    to = "b@x.org"\nsend(to=to)',
        {"literal", "read_mail.urgent (choice)"},
    ),
    "after a branch": (MAIL + 'if mail["urgent"]:\n    print(1)\nsend(to="a@x.org")', {"literal"}),
    "after a loop": ('for m in list_mails():\n    print(m)\nsend(to="a@x.org")', {"literal"}),
    "after a check": (
        MAIL + 'if mail["spam"]:\n    raise SystemExit\nsend(to="a@x.org")',
        {"literal", "read_mail.spam (choice)"},
    ),
    "after a try": (
        "try:\n    x = read_mail(id=1)\nexcept ToolError:\n    x = None\nsend(to=\"a@x.org\")",
        {"literal"},
    ),
    "parsed text": (
        "import json\n" + MAIL + 'send(to=json.loads(mail["body"])["to"])',
        {"read_mail.body", "literal"},
    ),
    "a match": (
        "import re\n" + MAIL + 'send(to=re.search("<(.*)>", mail["text"]).group(1))',
        {"read_mail.text", "literal"},
    ),
    "another alias": (
        MAIL + 'a, b = [], []\nc = a\nc.append(mail["from"])\nb.append("x@y.org")\nsend(to=b[0])',
        {"literal"},
    ),
    "a list that grew": (
        "mails = []\nfor page in range(3):\n    mails += list_mails(page=page)\nsend(to=mails[0][\"from\"])",
        {"list_mails.from", "list_mails (choice)"},
    ),
    "what was copied": (MAIL + 'd = {**mail, "to": "x"}\nsend(to=d["to"])', {"read_mail.to", "literal"}),
    "a thunk": (
        'x, y = parallel(lambda: read_mail(id=1), lambda: get_contact(name="Bo"))\nsend(to=y["email"])',
        {"get_contact.email"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRECISE)
def test_an_argument_has_the_origins_that_it_has(name: str) -> None:
    source, expected = PRECISE[name]
    assert shown(origins(source)["to"]) == expected


def test_a_text_of_the_task_is_the_users() -> None:
    found = origins(
        'send(to="bo@x.org", n=12, b="someone", c=2)', ("to", "n", "b", "c"), task="Write to BO@x.org 12 times"
    )
    assert [shown(found[name]) for name in ("to", "n", "b", "c")] == [{"task"}, {"task"}, {"literal"}, {"literal"}]


def test_other_text_is_the_authors_where_a_client_wrote_the_program() -> None:
    assert shown(origins('send(to="bo@x.org")', text="author")["to"]) == {"author"}


def test_inputs_have_the_origins_that_they_had() -> None:
    before: Origins = frozenset({Origin(kind="tool", tool="read_mail", path=("from",))})
    found = origins('send(to=who["x"], cc=given)', ("to", "cc"), inputs={"who": before})
    assert found == {"to": before, "cc": frozenset({Origin(kind="task")})}


def test_parts_of_a_display_have_origins_of_their_own() -> None:
    found = origins(MAIL + 'send(message={"to": "a@x.org", "head": {"re": mail["id"]}})', ("message",))
    assert {name: shown(each) for name, each in found.items()} == {
        "message": {"literal", "read_mail.id"},
        "message.to": {"literal"},
        "message.head": {"literal", "read_mail.id"},
        "message.head.re": {"read_mail.id"},
    }


def test_a_part_that_something_else_may_have_written_is_no_part_by_itself() -> None:
    source = MAIL + 'message = {"to": "a@x.org"}\nmessage[mail["key"]] = 1\nsend(message=message)'
    assert "message.to" not in origins(source, ("message",))


def _protocol() -> Protocol:
    properties = {"cc": {"type": "string"}, "to-whom": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["to-whom"]}
    return Protocol(name="send", description="", parameters=schema)


def test_positional_arguments_have_the_names_of_the_protocol() -> None:
    program = Program('send(read_mail(id=1)["a"], "b")')
    followed = ProgramOrigins(program, {"send": _protocol(), "read_mail": _protocol()})
    found = followed.of_call("send", 1, ["to-whom", "cc"])
    assert {name: shown(each) for name, each in found.items()} == {"to-whom": {"read_mail.a"}, "cc": {"literal"}}


def test_what_is_given_behind_two_stars_has_names() -> None:
    found = origins(MAIL + 'kwargs = {"to": mail["a"]}\nkwargs["cc"] = "x"\nsend(**kwargs)', ("to", "cc"))
    assert {name: shown(each) for name, each in found.items()} == {"to": {"read_mail.a"}, "cc": {"literal"}}


@pytest.mark.parametrize(
    "call", ['send(mail["a"], "b")', 'send(*[mail["a"], "b"])', 'send(**{mail["k"]: mail["a"], 1: 1})']
)
def test_an_argument_whose_place_is_not_known_counts_for_all(call: str) -> None:
    found = origins(MAIL + call, ("to", "cc"))
    assert all({"read_mail.a"} <= shown(each) for each in found.values())


def test_a_place_where_no_such_call_stands_is_not_followed() -> None:
    followed = ProgramOrigins(Program('send(to="a")\nread_mail(id=1)\n'), TOOLS)
    assert followed.of_call("send", 2, ["to"]) == {"to": UNKNOWN}
    assert followed.of_call("get_contact", 1, ["to"]) == {"to": UNKNOWN}
    assert followed.of_call("send", 1, ["to", "cc"])["cc"] == UNKNOWN


def test_a_tool_that_something_else_calls_may_be_called_at_any_line() -> None:
    source = "todo = map(lambda m: m, list_mails())\nsent = map(send, todo)\nprint(list(sent))\n"
    followed = ProgramOrigins(Program(source), ("list_mails", "send"))
    for line in (0, 3):
        assert all(origin.tool == "list_mails" for origin in followed.of_call("send", line, ["to"])["to"])


def test_a_variable_has_the_origins_that_it_has_wherever_the_program_ends() -> None:
    source = 'answer = "x"\nm = read_mail(id=1)\nif m["a"]:\n    raise SystemExit\nanswer = m["b"]\n'
    followed = ProgramOrigins(Program(source), TOOLS)
    assert shown(followed.of_variable("answer")) == {"literal", "read_mail.b", "read_mail.a (choice)"}
    assert followed.of_variable("nothing") == frozenset()


NOT_FOLLOWED = {
    "code out of text": 'exec("x = 1")',
    "its value": 'x = eval("1")',
    "names out of text": 'globals()["x"] = 1',
    "attributes out of text": "x = getattr(x, str(mail))",
    "what is behind an object": "x = print.__globals__",
    "what is behind it, in a format": 'x = "{0.__globals__}".format(print)',
    "the same by a getter": 'import operator\nx = operator.attrgetter("a" + "b")(1)',
    "special methods": "class A:\n    def __add__(self, other):\n        return other",
    "metaclasses": "class A(metaclass=type):\n    pass",
    "files": 'x = open("x").read()',
    "a module that is not known": "import ctypes",
    "a part of one": "from functools import singledispatch",
    "star imports": "from json import *",
    "threads": "import threading",
    "coroutines": "async def f():\n    pass",
    "an attribute of a function": "def f(): pass\nf.x = 1",
    "an attribute of a module": "import json\njson.x = 1",
    "what may be anything": "mail['f']()",
    "frames of generators": "g = (x for x in mail)\nx = g.gi_frame",
    "the same in a format": 'x = "{0.gi_frame}".format(mail)',
    "a format that is not known": "def f(): pass\nx = mail['text'].format(f)",
    "frames": "import sys\nsys._getframe()",
    "an unknown decorator of a class": "def d(c): return c\n@d\nclass A:\n    pass",
}


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_what_cannot_be_followed_makes_everything_unknown(name: str) -> None:
    source = MAIL + NOT_FOLLOWED[name] + '\nsend(to="a@x.org")'
    assert origins(source)["to"] >= UNKNOWN


def test_text_that_is_no_program_has_no_origins() -> None:
    followed = ProgramOrigins(Program("send(to="), TOOLS)
    assert followed.of_call("send", 1, ["to"]) == {"to": UNKNOWN}
    assert followed.of_variable("answer") == UNKNOWN


def test_a_program_that_needs_too_much_work_is_not_followed() -> None:
    rows = "".join(f"x{i} = [*x{i - 1}, y, x{i - 1}]\ny.append(x{i})\n" for i in range(1, 1_500))
    found = origins(f"x0, y = [], []\n{rows}send(to='a')")
    assert found["to"] >= UNKNOWN


def test_a_decorator_that_is_a_tool_is_called_at_its_own_line() -> None:
    source = '@[send, send(to="x")][0]\n@(lambda f: read_mail(id=1)["iban"])\ndef f():\n    pass\n'
    followed = ProgramOrigins(Program(source), {"send": _protocol(), "read_mail": _protocol()})
    assert "read_mail.iban" in shown(followed.of_call("send", 1, ["to-whom", "cc"])["to-whom"])
