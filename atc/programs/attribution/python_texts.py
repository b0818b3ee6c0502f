"""What CPython writes into its exceptions, as far as attribution reads it: the one table of these texts.

They are no interface of Python's, and versions differ. Each form has programs that raise it; a test runs them on the
Python at hand, so that another wording is seen where Python changes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """One form of a message.

    Attributes:
        says: finds it; groups are what it names.
        examples: expressions that raise it.
        before: the version of Python from which on nothing raises it.
    """

    says: re.Pattern[str]
    examples: tuple[str, ...]
    before: tuple[int, int] = (9, 0)

    def find(self, message: str) -> re.Match[str] | None:
        """The form in a message; ``None`` where the message has another one."""
        return self.says.search(message)


TEXTS = {
    "null": Text(
        re.compile("NoneType"),
        (
            "dict().get(1)['a']",
            "None.a",
            "len(None)",
            "[*None]",
            "1 + None",
            "int(None)",
            "list()[None]",
            "float(None)",
            "dict().get(1)()",
        ),
    ),
    "empty": Text(
        re.compile("empty|at least|not enough|mean requires|no median"),
        (
            "max([])",
            "min(x for x in [])",
            "(lambda: [0 for a, b in [[]]])()",
            "__import__('statistics').mean([])",
            "__import__('statistics').median([])",
            "__import__('statistics').stdev([1])",
            "__import__('functools').reduce(max, [])",
        ),
    ),
    "sliced": Text(re.compile("^unhashable type: 'slice'$"), ("{}[0:1]",), before=(3, 12)),
    "indices": Text(
        re.compile(r"^(list|str|tuple)\w* indices must be (?!.*NoneType$)"),
        ("list()['a']", "str()['b']", "tuple()['a']"),
    ),
    "operands": Text(re.compile(r"'(\w+)' and '(\w+)'$"), ("1 + 'a'", "[] < {}", "{} - []", "'a' > 1", "sum(['a'])")),
    "types": Text(  # not the functions of these names: `int() argument must be …`
        re.compile(r"\b(NoneType|dict|list|str|int|float|bool)\b(?!\(\))"),
        (
            "{}.a",
            "[].get",
            "'a'.items",
            "(1).get",
            "int()()",
            "len(1)",
            "int([])",
            "float({})",
            "'' .join([1])",
            "[*1]",
        ),
    ),
    "name": Text(
        re.compile(r"'(\w+)'"),
        ("missing", "(lambda: [missing for _ in [0]])()", "exec('def f():\\n if 0: x = 1\\n return x\\nf()')"),
    ),
}
