"""What the jail does not have is refused by name; what only computes, or is prepared for, is not."""

from __future__ import annotations

import ast
import sys
import time

import pytest

from atc import Effect, Protocol, wording
from atc.programs.check.checker import Checker
from atc.programs.check.policy import INSTEAD, LACKING, lacking_findings
from atc.programs.program import Program
from tests.support.agent import agent
from tests.support.sandbox import in_sandbox

COMPUTES = {
    "import os\nanswer = os.path.splitext('a/Desk.txt')[1]": ".txt",
    "import os\nanswer = [os.sep, os.linesep, os.path.join('a', 'b'), os.fspath('c')]": ["/", "\n", "a/b", "c"],
    "import os, json\nanswer = json.loads('1')": 1,
    "import os.path\nanswer = os.path.basename('a/b')": "b",
    "import os.path as p\nanswer = p.dirname('a/b')": "a",
    "from os import path\nanswer = path.normpath('a/../b')": "b",
    "from os.path import join, splitext\nanswer = join(*splitext('a.b'))": "a/.b",
    "from os import environ\nanswer = environ.get('HOME', 'none')": "none",
    "from pathlib import PurePosixPath\nanswer = PurePosixPath('a/Desk.txt').suffix": ".txt",
    "from pathlib import Path\nanswer = [Path('a/b.txt').stem, str(Path('a') / 'b'), Path('a/b').parts]": [
        "b",
        "a/b",
        ["a", "b"],
    ],
    "import pathlib\nanswer = pathlib.PureWindowsPath('a\\\\b.txt').name": "b.txt",
    "from http import HTTPStatus\nanswer = HTTPStatus.OK.phrase": "OK",
    "import http\nanswer = http.HTTPStatus(404).value": 404,
    "from http.cookies import SimpleCookie\nanswer = SimpleCookie('a=b')['a'].value": "b",
    "import subprocess, socket, shutil, tempfile, ctypes\nanswer = 1": 1,
    "import sqlite3\nanswer = sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0]": 2,
    "import pickle\nanswer = pickle.loads(pickle.dumps({'a': [1]}))": {"a": [1]},
    "import builtins\nanswer = builtins.sum([1, 2])": 3,
    "import ctypes\nanswer = ctypes.c_int32(2**31).value": -(2**31),
    "import gc\ngc.collect()\nanswer = 1": 1,
    "answer = __import__('math').floor(2.5)": 2,
    "name = 'ma' + 'th'\nanswer = __import__(name).floor(2.5)": 2,
    "import importlib\nanswer = importlib.import_module('os.path').basename('a/b')": "b",
    "try:\n    import numpy as np\n    mean = np.mean\nexcept ImportError:\n    from statistics import mean\n"
    "answer = mean([1, 2])": 1.5,
    "try:\n    import pandas\nexcept Exception:\n    pandas = None\nanswer = pandas is None": True,
    "import contextlib\nwith contextlib.suppress(ModuleNotFoundError):\n    import requests\nanswer = 1": 1,
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas\nanswer = 1": 1,
    "try:\n    text = open('notes.txt').read()\nexcept OSError:\n    text = 'none'\nanswer = text": "none",
    "import os\ntry:\n    size = os.path.getsize('a')\nexcept FileNotFoundError:\n    size = 0\nanswer = size": 0,
    "def open(name):\n    return name\nanswer = open('a')": "a",
    "def compile(text):\n    return text\ninput = lambda: 2\nanswer = [compile('a'), input()]": ["a", 2],
    "import os\nclass Os:\n    listdir = 3\nos = Os()\nanswer = os.listdir": 3,
    "def f(os):\n    return os.upper()\nimport os\nanswer = f('a')": "A",
    "from pathlib import Path\nclass Note:\n    def read_text(self): return 'x'\nanswer = Note().read_text()": "x",
    # names with two underscores
    "class A:\n    pass\na = A()\na.t = 1\nanswer = [a.__dict__, a.__class__.__name__, A.__module__]": [
        {"t": 1},
        "A",
        "__main__",
    ],
    "class Lazy:\n    def __getattr__(self, name): return name\n    def __setattr__(self, n, v): self.__dict__[n] = v\n"
    "    def __new__(cls): return super().__new__(cls)\n    def __reversed__(self): return [2, 1]\n"
    "l = Lazy()\nl.b = 2\nanswer = [l.a, l.b, reversed(l)]": ["a", 2, [2, 1]],
    "class A:\n    made = []\n    def __init_subclass__(cls): A.made.append(cls.__qualname__)\n"
    "class B(A): pass\nanswer = A.made": ["B"],
    "def f(a: int = 2): pass\nanswer = [f.__defaults__, sorted(f.__annotations__), f.__doc__]": [[2], ["a"], None],
    "try:\n    1 / 0\nexcept Exception as e:\n    answer = [e.__cause__, type(e).__name__]": [
        None,
        "ZeroDivisionError",
    ],
}
LACKS = {
    "import os\nanswer = os.listdir('.')": ("files", "os.listdir"),
    "import os as o\nanswer = o.getcwd() + o.walk('.')": ("files", "os.walk"),
    "from os import path, mkdir\nmkdir('a')": ("files", "os.mkdir"),
    "import os\nanswer = os.path.getsize('a')": ("files", "os.path.getsize"),
    "import os\nanswer = os.path.os.listdir('a')": ("files", "os.path.os"),
    "from os.path import getsize as size\nanswer = size('a')": ("files", "os.path.getsize"),
    "answer = __import__('os').listdir('.')": ("files", "os.listdir"),
    "import importlib\nanswer = importlib.import_module('os.path').getsize('a')": ("files", "os.path.getsize"),
    "answer = open('a').read()": ("files", "open()"),
    "with open('a', 'w') as f:\n    f.write('x')": ("files", "open()"),
    "try:\n    open('a')\nexcept ValueError:\n    pass": ("files", "open()"),
    "try:\n    raise OSError\nexcept OSError:\n    open('a')": ("files", "open()"),
    "try:\n    pass\nexcept OSError:\n    pass\nelse:\n    open('a')": ("files", "open()"),
    "from pathlib import Path\nPath('out.txt').write_text('x')": ("files", ".write_text()"),
    "import pathlib\np = pathlib.Path('a')\nanswer = p.read_text()": ("files", ".read_text()"),
    "import tempfile\ntempfile.mkdtemp()": ("files", "tempfile.mkdtemp"),
    "import os\nhere = os.path.dirname(__file__)": ("files", "__file__"),
    "import os\nos.system('ls')": ("processes", "os.system"),
    "import subprocess\nsubprocess.run(['ls'])": ("processes", "subprocess.run"),
    "from multiprocessing import Pool\nPool(2)": ("processes", "multiprocessing.Pool"),
    "import urllib.request\nanswer = urllib.request.urlopen('http://a')": ("network", "urllib.request.urlopen"),
    "from urllib.request import urlopen\nanswer = urlopen('http://a')": ("network", "urllib.request.urlopen"),
    "import http.client\nhttp.client.HTTPConnection('127.0.0.1').request('GET', '/')": (
        "network",
        "http.client.HTTPConnection",
    ),
    "import socket\ns = socket.socket()": ("network", "socket.socket"),
    "import requests": ("network", "requests"),
    "import ctypes\nlibc = ctypes.CDLL(None)": ("inside", "ctypes.CDLL"),
    "import gc\nanswer = gc.get_objects()": ("inside", "gc.get_objects"),
    "import builtins\nbuiltins.eval('1')": ("inside", "builtins.eval"),
    "import numpy as np": ("", "numpy"),
    "from google.cloud import storage": ("", "google.cloud"),
    "__import__('numpy')": ("", "numpy"),
    "try:\n    import numpy\nexcept KeyError:\n    pass": ("", "numpy"),
    "try:\n    pass\nexcept ImportError:\n    import numpy": ("", "numpy"),
    "from . import tools": ("", "."),
}


def lacks(source: str) -> list[tuple[str, object]]:
    found = lacking_findings(ast.parse(source))
    assert {finding.kind for finding in found} <= {"forbidden_import"}
    return [(finding.case, finding.name) for finding in found]


@pytest.mark.parametrize("source", COMPUTES)
def test_what_only_computes_or_is_prepared_for_is_not_refused_and_runs(source: str) -> None:
    found = Checker([Protocol(name="find", effect=Effect.READ)]).check(Program(source))
    assert {finding.kind for finding in found} <= {"no_call"}


def test_what_is_not_refused_runs_in_the_jail() -> None:
    """One process for all: each program is run as it would be alone."""
    whole = "answer = []\n" + "".join(
        f"scope = {{'__name__': '__main__'}}\nexec({source!r}, scope)\nanswer.append(scope['answer'])\n"
        for source in COMPUTES
    )
    outcome = in_sandbox(whole)
    assert outcome.error is None
    assert outcome.value == list(COMPUTES.values())


@pytest.mark.parametrize("source", LACKS)
def test_what_the_jail_lacks_is_refused_by_name(source: str) -> None:
    assert LACKS[source] in lacks(source)
    assert len({case for case, _ in lacks(source)}) == 1


@pytest.mark.parametrize("source", [source for source, (case, _) in LACKS.items() if case not in ("inside", "")])
def test_what_is_refused_would_have_failed_there(source: str) -> None:
    outcome = in_sandbox(f"{source}\nanswer = 1")
    # a shell that does not start is a status, not an exception
    assert outcome.kind == "raised" or "os.system" in source


def test_the_sentence_says_what_is_missing_and_what_to_write_instead() -> None:
    said = {
        wording.finding(finding)
        for source in ("import os\nos.listdir()", "import numpy", "import left_pad", "import socket\nsocket.socket()")
        for finding in lacking_findings(ast.parse(source))
    }
    assert said == {
        "line 2: the sandbox has no files, so os.listdir cannot work: take what you need from the tools and give "
        "results in `answer`; io.StringIO is a file in memory",
        "line 1: the sandbox does not have the module 'numpy': write it with statistics or math",
        "line 1: the sandbox does not have the module 'left_pad': use the tools and the standard library",
        "line 2: the sandbox has no network, so socket.socket cannot work: call the tools",
    }


def test_packages_are_left_to_the_run_where_the_jail_may_have_some() -> None:
    tree = ast.parse("import numpy as np, pandas\nimport socket\nsocket.socket()")
    names = {finding.name for finding in lacking_findings(tree)}
    assert names == {"numpy", "pandas", "socket.socket"}
    assert [finding.name for finding in lacking_findings(tree, packages=True)] == ["socket.socket"]


def test_every_module_that_is_named_is_one_and_what_is_written_instead_is_there() -> None:
    gone = {"telnetlib", "distutils", "lib2to3"}  # in some versions
    assert {name.partition(".")[0] for name in LACKING} - gone <= sys.stdlib_module_names
    instead = {name for names in INSTEAD.values() for name in names}
    assert in_sandbox(f"for name in {sorted(instead)!r}: __import__(name)\nanswer = 1").value == 1


def test_it_is_linear_whatever_the_depth() -> None:
    deep: ast.expr = ast.Name("os", ast.Load(), lineno=7, col_offset=0)
    for _ in range(20_000):
        deep = ast.Attribute(deep, "path", ast.Load(), lineno=1, col_offset=0)
    tree = ast.Module(
        body=[ast.Import([ast.alias("os")], lineno=1, col_offset=0), ast.Expr(deep, lineno=1, col_offset=0)],
        type_ignores=[],
    )
    began = time.process_time()
    lacking_findings(tree)
    assert time.process_time() - began < 2
    while isinstance(deep, ast.Attribute):  # taken apart by hand: so deep a tree overflows the stack as it is freed
        deep = deep.value


def test_a_run_with_preloaded_packages_lets_programs_import_them() -> None:
    """The setting is the jail's, and so the check's."""

    def find(name: str) -> str:
        """Find."""
        return name

    program = "```python\nimport no_such_package\nanswer = find(name='a')\n```"
    for preload, kinds in (((), ["forbidden_import"]), (("numpy",), [])):
        result = agent(program, tools=(find,), max_revisions=0, sandbox_preload=preload).run("Find a")
        assert [f.kind for revision in result.revisions for f in revision.findings][:1] == kinds
