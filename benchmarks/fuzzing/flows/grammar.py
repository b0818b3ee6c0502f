"""The templates that programs are written from, as data: see :data:`benchmarks.fuzzing.flows.writer.HOLE`.

Types: ``s`` text, ``n`` integer, ``b`` truth, ``m`` mail, ``c`` contact, ``o`` order, ``h`` address, ``[x`` a list.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

TYPES = ("s", "s", "s", "n", "b", "m", "c", "o", "[s", "[s", "[n", "[m", "[c", "[o")
FIELDS: dict[str, dict[str, list[str]]] = {
    "m": {"s": ["id", "sender", "subject", "body"], "n": ["total"], "b": ["urgent"], "[s": ["tags"]},
    "c": {"s": ["name", "iban", "email"], "n": ["limit"], "b": ["vip"], "[s": ["phones"], "h": ["home"]},
    "o": {"s": ["id", "item"], "n": ["amount"], "b": ["paid"]},
    "h": {"s": ["city", "zip"]},
    "r": {"[c": ["items"], "n": ["total"]},
    "q": {"[o": ["orders"], "s": ["note"]},
}
LEAVES: dict[str, list[str]] = {
    "s": ["'ann'", "'x'", "'R-1'", "'a,b'"],
    "n": ["0", "1", "2", "5"],
    "b": ["True", "False"],
    "m": ["read_mail(id='M1')"],
    "c": ["get_contact(name='ann')"],
    "o": ["list_orders(customer='ann')['orders'][0]"],
    "h": ["get_contact(name='ann')['home']"],
    "[s": ["['ann', 'bob']", "['b', 'a', 'b']", "[]"],
    "[n": ["[3, 1, 2]", "[]"],
    "[m": ["list_mails(folder='in')"],
    "[c": ["find_contacts(query='a')['items']"],
    "[o": ["list_orders(customer='bob')['orders']"],
}

STARTS = (
    "<+[m> = list_mails(folder='in')", "<+m> = read_mail(id='M1')", "<+c> = get_contact(name='ann')",
    "<+r> = find_contacts(query='a', limit=3)", "<+q> = list_orders(customer='ann')", "<+s> = get_note(key='k')",
    "<+n> = get_rate(currency='EUR')", "<+b> = has_access(user='bob')",
    "<+m> = read_mail('M2')\n<+c> = get_contact(name='bob')", "<+[c> = find_contacts(query='b')['items']",
    "<+[o> = list_orders(customer='cy')['orders']",
)  # fmt: skip
WRITES = (
    "send_mail(to=<s>, subject=<s>, body=<s>)", "send_mail(to=<s>, subject='hi', body=<s>)",
    "send_mail(<s>, <s>, body=<s>)", "pay(iban=<s>, amount=<n>, memo=<s>)", "pay(<s>, <n>)",
    "invite(event={'title': <s>, 'when': <s>}, guests=<[s>)",
    "invite(event={'title': <s>, 'at': {'city': <s>, 'n': <n>}}, guests=[<s>, <s>])", "delete(ids=<[s>)",
    "delete([<s|$x:m> for $x in <[m>])", "send_mail(**{'to': <s>, 'body': <s>})",
    "send_mail(\n    to=<s>,\n    body=<s>,\n)", "[pay(iban=$x, amount=1) for $x in <[s>]",
    "pay(iban=<s>, amount=<n>); send_mail(to=<s>, body=<s>)",
    'send_mail(to=<s>, body=f"""{pay(iban=<s>, amount=<n>)}""")', "send_mail(*[<s>, <s>], body=<s>)",
    "<+s> = send_mail(to=<s>, body=<s>)['status']", "<+n> = pay(iban=<s>, amount=<n>)['left']",
    "<+[s> = invite(event=<m>, guests=<[s>)['accepted']", "invite(dict(title=<s>), (<s>, <s>))",
    "<b> and send_mail(to=<s>, body='x')", "send_mail(to=<s>, body='x') if <b> else send_mail(to=<s>, body='y')",
    "any(delete(ids=[<s|$x:s>]) for $x in <[s>)", "list(map(lambda $x: pay(<s|$x:s>, 1), <[s>))",
    "parallel(lambda: send_mail(to=<s>, body=<s>), lambda: pay(iban=<s>, amount=<n>))",
    "invite(event=<c>, guests=[$x['email'] for $x in <[c> if <b|$x:c>])", "delete(ids=sorted(<[s>))",
)  # fmt: skip


class Template(NamedTuple):
    """A statement, and how often it is used."""

    text: str
    weight: int = 2


def _templates(file: str) -> tuple[Template, ...]:
    """Return the templates of a file: each has a line ``#WEIGHT`` above it."""
    found = []
    for each in re.split(r"\n(?=#)", (Path(__file__).parent / file).read_text().strip()):
        head, _, body = each.partition("\n")
        found.append(Template(body, int(head.strip("# ") or 2)))
    return tuple(found)


def _expressions(file: str) -> dict[str, list[str]]:
    """Return the templates of a file by type: each type has a line ``#TYPE`` above its templates, one a line."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / file).read_text().splitlines():
        if line.startswith("#"):
            kind = line[1:]
        else:
            found.setdefault(kind, []).append(line)
    return found


EXPRESSIONS, TRICKY = _expressions("expressions.txt"), _expressions("expressions_tricks.txt")
STATEMENTS = (
    tuple(Template(each, 1) for each in WRITES)
    + tuple(Template(each, 1) for each in STARTS)
    + _templates("statements.txt")
)
TRICKS = _templates("tricks.txt")
_MODULES = (
    "asyncio", "bisect", "collections", "contextlib", "copy", "csv", "dataclasses", "datetime", "enum", "functools",
    "hashlib", "heapq", "io", "itertools", "json", "math", "operator", "os", "random", "re", "string", "sys", "textwrap",
    "types",
)  # fmt: skip
_NAMES = ("Counter", "defaultdict", "deque", "namedtuple")
_USED = re.compile(rf"\b(?:({'|'.join(_MODULES)})\.\w|({'|'.join(_NAMES)})\()")


def with_imports(body: str) -> str:
    """Return a program with the imports that it uses."""
    used = _USED.findall(body)
    lines = [f"import {each}" for each in sorted({module for module, _ in used if module})]
    if found := sorted({name for _, name in used if name}):
        lines.append(f"from collections import {', '.join(found)}")
    return "\n".join([*lines, body])
