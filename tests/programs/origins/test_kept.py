"""What something keeps is an origin of what comes out of it: objects of the library, caches, factories, callbacks.

Each program of ``kept.txt`` is run with other answers (:mod:`tests.programs.origins.perturbed`); each of ``exits.txt``
may end before its last line, for something that ``read_a`` answers.
"""

from __future__ import annotations

from pathlib import Path

from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program
from tests.programs.origins.perturbed import TOOLS, all_missed


def _programs(name: str) -> list[str]:
    return (Path(__file__).parent / name).read_text().split("\n####\n")


def test_what_goes_in_is_an_origin_of_what_comes_out() -> None:
    assert all_missed(_programs("kept.txt")) == []


def test_what_may_end_a_program_chooses_what_comes_after() -> None:
    wrong = []
    for source in _programs("exits.txt"):
        lines = source.rstrip("\n").split("\n")
        found = ProgramOrigins(Program(source), TOOLS).of_call("send", len(lines), ["to"])["to"]
        if not any(origin.tool == "read_a" or origin.kind == "unknown" for origin in found):
            wrong.append(source)
    assert wrong == []


FOLLOWED = {
    "a hash": 'import hashlib\nh = hashlib.sha256()\nh.update(b"x")\nsend(to=h.hexdigest(), m=read_a())',
    "another hash": (
        "import hashlib\ng, h = hashlib.sha256(), hashlib.sha256()\n"
        'g.update(read_a()["to"].encode())\nsend(to=h.hexdigest())'
    ),
    "an exit that depends on nothing": "import sys\nbye = sys.exit\nm = read_a()\nif 1 > 2:\n    bye()\nsend(to=1)",
    "a factory": (
        "from collections import defaultdict\nd, e = defaultdict(list), defaultdict(lambda: defaultdict(int))\n"
        'd["a"].append(1)\ne["x"]["y"] += 1\ne[read_a()["to"]]["y"] += 1\nsend(to=d["a"])'
    ),
    "a cache": (
        "import functools\n@functools.cache\ndef f(x):\n    return x + 1\nm = read_a()\ndef g(x):\n    return x\n"
        'g(m)\nsend(to=f(1))'
    ),
    "a number": "from decimal import Decimal\nm = read_a()\nsend(to=Decimal(1) / Decimal(3))",
    "a copy of a class": "import copy\nclass E:\n    to = 1\nm = read_a()\nsend(to=copy.copy(E).to)",
    "a moment": "from datetime import datetime\nm = read_a()\nsend(to=datetime(2020, 1, 1).strftime('%d'))",
}  # fmt: skip


def test_nothing_else_is() -> None:
    wrong = []
    for name, source in FOLLOWED.items():
        followed = ProgramOrigins(Program(source), TOOLS)
        found = followed.of_call("send", len(source.split("\n")), ["to"])["to"]
        if {origin.kind for origin in found} != {"literal"}:
            wrong.append((name, followed.gave_up))
    assert wrong == []
