"""Programs that are never meant to run: sources that want to bring down whoever parses, walks or type-checks them."""

from __future__ import annotations

_N = 60_000
DEPTH = {
    "open brackets": "(" * _N,
    "nested lists": "[" * 90 + "]" * 90,
    "nested lists, deeper": "[" * _N + "]" * _N,
    "nested calls": "f(" * 90 + ")" * 90,
    "minus signs": "-" * _N + "1",
    "nots": "not " * (_N // 4) + "1",
    "tildes in an answer": "answer = " + "~" * _N + "1",
    "attributes": "a" + ".a" * (_N // 2),
    "subscripts": "a" + "[0]" * (_N // 3),
    "calls in a row": "a" + "()" * (_N // 2),
    "methods in a row": "a" + ".b()" * (_N // 4),
    "a sum": "answer = " + "+".join(["1"] * (_N // 2)),
    "a sum of texts": "answer = " + "+".join(["'a'"] * (_N // 4)),
    "powers": "answer = " + "**".join(["1"] * (_N // 3)),
    "comparisons": "answer = " + "<".join(["1"] * (_N // 2)),
    "conditions": "answer = " + "1 if x else " * (_N // 12) + "2",
    "ands and ors": "answer = " + " and 1 or ".join(["1"] * (_N // 10)),
    "lambdas": "answer = " + "lambda: " * (_N // 8) + "1",
    "awaits": "async def f():\n    " + "await " * (_N // 6) + "x",
    "stars": "f(" + "*" * _N + "x)",
    "decorators": "@a\n" * (_N // 3) + "def f(): pass",
    "assignments in a row": "a = " * (_N // 4) + "1",
    "walruses": "(a := " * 90 + "1" + ")" * 90,
    "blocks": "".join(" " * depth + "if 1:\n" for depth in range(99)) + " " * 99 + "pass",
    "blocks, deeper": "".join(" " * depth + "if 1:\n" for depth in range(300)) + " " * 300 + "pass",
    "elifs": "if 0: pass\n" + "elif 0: pass\n" * (_N // 13),
    "loops in loops": "".join(" " * depth + f"for i{depth} in x:\n" for depth in range(60)) + " " * 60 + "pass",
    "functions in functions": "".join(" " * depth + f"def f{depth}():\n" for depth in range(90)) + " " * 90 + "pass",
    "tries in tries": "".join(" " * depth + "try:\n" for depth in range(90)) + " " * 90 + "pass",
    "comprehension of comprehensions": "[" * 80 + "x" + " for x in y]" * 80,
    "f-strings in f-strings": "f'" + "{f\"{f'''{1}'''}\"}" + "'",
    "format specifications": "f'{1:{2:{3}}}' + " * 1000 + "''",
}
SIZE = {
    "digits": "answer = " + "9" * _N,
    "hexadecimal digits": "answer = 0x" + "f" * _N,
    "a float of many digits": "answer = 0." + "1" * _N,
    "a huge exponent": "answer = 1e" + "9" * _N,
    "a power that is folded": "answer = 2 ** 10 ** 10 ** 10",
    "a repeated text that is folded": "answer = 'x' * 10 ** 12",
    "a shift that is folded": "answer = 1 << 10 ** 15",
    "a long line": "answer = [" + "1," * (_N // 2) + "]",
    "a long name": "a" * _N + " = 1",
    "many names": "\n".join(f"a{n} = {n}" for n in range(_N // 12)),
    "many arguments": "find(" + ",".join(f"a{n}=1" for n in range(_N // 9)) + ")",
    "many parameters": "def f(" + ",".join(f"a{n}" for n in range(_N // 7)) + "): pass",
    "many imports": "\n".join(f"import a{n}" for n in range(_N // 13)),
    "many calls": "\n".join(f"a{n} = find(name='x')" for n in range(_N // 24)),
    "many branches": "\n".join(f"if x{n}: a = find(name='x')\nelse: a = {{'k{n}': a}}" for n in range(_N // 55)),
    "many backslashes": "x = 1 + \\\n" * (_N // 10) + "1",
    "many semicolons": "1;" * (_N // 2),
    "many global statements": "def f():\n" + "".join(f"    global g{n}\n" for n in range(_N // 16)),
    "a cycle of functions": "\n".join(f"def f{n}(x): return f{(n + 1) % 500}(x)" for n in range(500))
    + "\nanswer = f0(find(name='x'))",
    "names that double": "a = find(name='x')\n" + "\n".join("a = [a, a]" for _ in range(2000)) + "\nanswer = a",
    "dictionaries that double": "a = {'k': find(name='x')}\n"
    + "\n".join("a = {'a': a, 'b': a}" for _ in range(60))
    + "\nanswer = a['a']",
    "a function called by itself and others": "def f(x): return f(f(f(x)))\nanswer = f(f(f(find(name='x'))))",
    "too long": "x = 1\n" * 10**6,
}
TEXT = {
    "a null byte": "answer = 1\0",
    "half a character": "answer = '\ud800'",
    "an encoding of its own": "# -*- coding: utf-7 -*-\nanswer = '+AC8-'",
    "an encoding that is none": "# coding: evil\nanswer = 1",
    "a byte order mark": "\ufeffanswer = 1",
    "the other direction": "answer = 'a\u202e' # \u2066\nx = 1",
    "letters that look alike": "fіnd = fιnd = find(name='x')\nanswer = ﬁnd",
    "tabs and spaces": "if 1:\n\tx = 1\n        y = 2",
    "form feeds": "\x0c" * 1000 + "answer = 1",
    "carriage returns": "answer = 1\r" * 1000,
    "escapes of a terminal": "answer = '\x1b[2J' + \x1b",
    "an escape without end": "answer = '" + "\\N{" * 1000 + "'",
    "a text without end": "answer = '''" + "x" * _N,
    "type comments": "x = [] # type: " + "[" * 5000,
    "warnings, many": "assert (1, 'x')\n" * 2000 + "x is 1\n" * 2000 + "'\\d'\n" * 2000,
    "future": "from __future__ import braces",
    "star imports": "from find import *\nfrom os import *\n" * 1000,
    "patterns": "match x:\n" + "".join(f"    case {{'a': [{n}, *_]}}: pass\n" for n in range(1000)),
    "an or of patterns": "match x:\n    case " + " | ".join(map(str, range(10_000))) + ": pass",
}
SOURCES = {
    f"{kind}: {name}": source
    for kind, sources in {"depth": DEPTH, "size": SIZE, "text": TEXT}.items()
    for name, source in sources.items()
}
