# ruff: noqa: E501 - programs stand as they are
"""Walks through Python's own objects: frames, classes, modules. What they lead to is a process with nothing
in it: each goes on to take what it came for."""

from __future__ import annotations

from typing import Any

from atc._records.outcome import Outcome
from atc.calls.broker import Broker
from tests.attacks.record import Attack


def _all_refused(outcome: Outcome, broker: Broker) -> bool:
    """``answer`` is the plunder of a walk: reading the secret and the folder failed, the environment is empty."""
    read, environment, listed = outcome.value
    return read[0] == listed[0] == "refused" and environment[1] in ("{}", "{'LC_CTYPE': 'C.UTF-8'}")


def walk_to_os(name: str, family: str, program: str, **more: Any) -> Attack:
    """A walk that ends at ``os``."""
    return Attack(name, family, f"{program}\nanswer = loot(os)", check=_all_refused, control="loot", **more)


FRAMES = [
    Attack("climb to the outermost frame", "frames", """
import sys
frame, answer = sys._getframe(), []
while frame:
    answer.append(repr([frame.f_globals, frame.f_locals])[:200_000])
    frame = frame.f_back
"""),
    walk_to_os("os in the frames above", "frames", """
import sys
frame = sys._getframe()
while frame:
    os = frame.f_globals.get("os", globals().get("os"))
    frame = frame.f_back
import os
"""),
    Attack("frames of a traceback", "frames", """
answer = []
try:
    lookup(object())
except TypeError as error:
    trace = error.__traceback__
    while trace:
        answer.append(repr(trace.tb_frame.f_globals)[:100_000])
        above = trace.tb_frame.f_back
        while above:
            answer.append(repr(above.f_locals)[:100_000])
            above = above.f_back
        trace = trace.tb_next
"""),
    Attack("back from a running generator", "frames", """
answer = []
def walk():
    frame = generator.gi_frame.f_back
    while frame:
        answer.append(repr(frame.f_globals)[:100_000])
        frame = frame.f_back
    yield 1
generator = walk()
next(generator)
"""),
    Attack("back from a coroutine", "frames", """
import asyncio
answer = []
async def walk():
    frame = coroutine.cr_frame
    while frame:
        answer.append(repr(frame.f_globals)[:100_000])
        frame = frame.f_back
coroutine = walk()
asyncio.run(coroutine)
"""),
    Attack("back from an asynchronous generator", "frames", """
import asyncio
answer = []
async def walk():
    frame = made.ag_frame
    while frame:
        answer.append(repr([frame.f_globals, frame.f_builtins])[:100_000])
        frame = frame.f_back
    yield 1
made = walk()
async def main():
    async for _ in made:
        pass
asyncio.run(main())
"""),
    Attack("all objects by the garbage collector", "frames", """
import gc
gc.unfreeze()
answer = [repr(o)[:3000] for o in gc.get_objects() if isinstance(o, (dict, list, tuple))][:20_000]
answer = [text for text in answer if "file-" in text or "environment-" in text or "memory-" in text]
answer = [text for text in answer if SECRET_FILE not in text]
"""),
    Attack("who refers to a stub", "frames", """
import gc
found, todo = set(), [lookup]
while todo and len(found) < 3000:
    for other in gc.get_referrers(todo.pop()):
        if id(other) not in found:
            found.add(id(other))
            todo.append(other)
answer = [repr(o)[:500] for o in todo[:300]]
"""),
    Attack("every thread's frame", "frames", """
import sys, threading
answer = [repr(f.f_globals)[:100_000] for f in sys._current_frames().values()]
import inspect
answer += [repr(level.frame.f_locals)[:100_000] for level in inspect.stack()]
"""),
    Attack("contexts of exceptions", "frames", """
def deeper(n):
    try:
        return deeper(n + 1)
    except RecursionError as error:
        raise ValueError(n) from error
try:
    deeper(0)
except ValueError as error:
    answer = []
    while error is not None and len(answer) < 50:
        answer.append(repr(error.__traceback__.tb_frame.f_back)[:500])
        error = error.__context__ or error.__cause__
"""),
]  # fmt: skip

FORMAT = [
    Attack("globals of a stub by str.format", "format", "answer = '{0.__globals__}'.format(lookup)[:200_000]"),
    Attack("modules of a stub by str.format", "format",
           "answer = tried(lambda: '{0.__globals__[os].environ}'.format(lookup), "
           "lambda: '{0.__closure__[0].cell_contents.__dict__}'.format(lookup))"),
    Attack("string.Formatter", "format", """
import string
walk = string.Formatter()
answer = tried(lambda: walk.get_field("0.__globals__[origin].types.sys", [lookup], {}),
               lambda: walk.vformat("{0.__globals__[sys].modules[os].environ}", [lookup], {}))
"""),
    Attack("format_map", "format", """
class Any(dict):
    def __missing__(self, key):
        return lookup
answer = "{x.__code__.co_consts} {y.__globals__[channel]} {z.__builtins__}".format_map(
    Any(y=type("", (), {"__globals__": lookup.__globals__ | {"channel": 1}})()))[:200_000]
"""),
    walk_to_os("operator.attrgetter", "format", """
import operator
os = operator.attrgetter("__init__.__globals__")(__import__("tempfile")._TemporaryFileCloser)["_os"]
"""),
    Attack("percent and template", "format", """
import string
answer = tried(lambda: string.Template("$x").substitute(x=lookup.__globals__)[:1000], lambda: "%(a)r" % {"a": vars()})
"""),
]  # fmt: skip

CLASSES = [
    walk_to_os("subclasses of object", "classes", """
found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == "_wrap_close"]
os = __import__("sys").modules[found[0].__init__.__globals__["__name__"]]
"""),
    walk_to_os("metaclass", "classes", """
class Meta(type):
    def __prepare__(name, bases, **kw):
        import os
        return {"taken": os}
    def __instancecheck__(cls, other):
        return True
class Trap(metaclass=Meta):
    pass
os = Trap.taken
"""),
    walk_to_os("decorator that executes", "classes", """
@exec
@"import os; globals()['os'] = os".__add__
@lambda function: ""
def nothing(): pass
import os
"""),
    walk_to_os("default argument", "classes", "def f(os=__import__('os')): return os\nos = f()"),
    walk_to_os("class getitem and set name", "classes", """
class Hook:
    def __set_name__(self, owner, name): owner.taken = __import__("os")
    def __class_getitem__(cls, item): return __import__(item)
class Owner:
    hook = Hook()
os = Owner.taken if Hook["os"] is Owner.taken else None
"""),
    walk_to_os("a descriptor out of __dict__", "classes", """
classes = type.__dict__["__subclasses__"](object)
found = [c for c in classes if c.__name__ == "_wrap_close"]
os = __import__("sys").modules[found[0].__dict__["__init__"].__globals__["__name__"]]
"""),
    walk_to_os("__reduce_ex__ to its module", "classes", """
make = object.__reduce_ex__(object(), 2)[0]
names = make.__globals__["__builtins__"]
os = (names if isinstance(names, dict) else names.__dict__)["__import__"]("os")
"""),
    walk_to_os("__getattr__ and __class__ of its own", "classes", """
class Proxy:
    def __getattr__(self, name): return getattr(__import__("os"), name)
    def __setattr__(self, name, value): self.__dict__[name] = value
class Other: pass
proxy = Other()
proxy.__class__ = Proxy
proxy.__dict__.update(Proxy.__dict__)
os = proxy
"""),
    Attack("the dicts of what the runner gave", "classes", """
answer = tried(lambda: lookup.__dict__.update(x=1) or repr(lookup.__dict__), lambda: ToolError.__dict__.update(x=1),
               lambda: setattr(ToolError, "__init__", lambda *a: None), lambda: repr(vars(type(lookup)))[:1000])
del parallel.__dict__, globals()["parallel"]
""", ends=("finished", "raised")),
    Attack("a destructor at the end", "classes", """
class Late:
    def __del__(self):
        import os
        os.write(1, repr(loot(os)).encode())
late = Late()
late.itself = late
answer = 1
"""),
    Attack("every class is asked for the world", "classes", """
import os
answer = []
for cls in object.__subclasses__():
    for name in ("__init__", "__new__", "__call__", "__repr__"):
        world = getattr(getattr(cls, name, None), "__globals__", None)
        if world and "environ" in world:
            answer.append(repr(world["environ"])[:1000])
"""),
    Attack("a class that claims to be a stub", "classes", """
class Stub: pass
answer = tried(lambda: setattr(lookup, "__class__", Stub), lambda: setattr(type(lookup), "__call__", lambda *a: 1), lambda: type(lookup)(lookup.__code__, {})())
"""),
]  # fmt: skip

MODULES = [
    Attack("json.codecs.builtins.open", "modules",
           "import json\nanswer = tried(lambda: json.codecs.builtins.open(SECRET_FILE).read(), "
           "lambda: json.codecs.open(SECRET_FILE).read())", refused=True, control="loot"),
    walk_to_os("random._os", "modules", "import random\nos = random._os"),
    walk_to_os("os.path.os", "modules", "from os import path\nos = path.os"),
    walk_to_os("what os.path is made of", "modules", "import os.path as p\nos = p.genericpath.os"),
    walk_to_os("pathlib's own imports", "modules", "import pathlib, sys\nos = sys.modules[pathlib.PurePath.__module__].os"),
    walk_to_os("http's own imports", "modules", "import http.cookies\nos = http.cookies.re.enum.sys.modules['os']"),
    Attack("paths that open files", "modules", """
import pathlib
path = pathlib.Path(SECRET_FILE)
answer = tried(path.read_text, path.open, path.unlink, path.touch, lambda: list(path.parent.iterdir()),
               lambda: path.rename(DROP + "/x"), lambda: path.chmod(0o777), lambda: path.symlink_to(DROP + "/y"),
               lambda: (path.parent / "drop" / MARK).write_text("x"), lambda: (path.parent / "drop" / MARK).mkdir(parents=True))
""", refused=True, control="loot"),
    walk_to_os("re.enum.sys.modules", "modules", "import re\nos = re.enum.sys.modules['os']"),
    walk_to_os("json.decoder to sys", "modules", "import json\nos = json.decoder.scanner.re.enum.sys.modules['os']"),
    walk_to_os("asyncio's own imports", "modules", "import asyncio\nos = asyncio.base_events.os"),
    walk_to_os("import by name", "modules", "os = __builtins__['__import__' if isinstance(__builtins__, dict) else 0]('os') "
          "if isinstance(__builtins__, dict) else __builtins__.__import__('os')"),
    Attack("importlib's loader as a reader", "modules", """
import importlib.machinery, importlib.util
answer = tried(lambda: importlib.machinery.SourceFileLoader("x", SECRET_FILE).get_data(SECRET_FILE),
               lambda: importlib.util.spec_from_file_location("x", SECRET_FILE).loader.load_module(),
               lambda: importlib.util.decode_source(open(SECRET_FILE, "rb").read()))
""", refused=True, control="loot"),
    Attack("modules that read files", "modules", """
import codecs, io, linecache, pathlib
answer = tried(lambda: pathlib.Path(SECRET_FILE).read_bytes(), lambda: io.FileIO(SECRET_FILE).readall(),
               lambda: __import__("tokenize").open(SECRET_FILE).read(), lambda: __import__("runpy").run_path(SECRET_FILE),
               lambda: list(__import__("fileinput").input(SECRET_FILE)), lambda: __import__("shutil").copy(SECRET_FILE, DROP + "/copy"),
               lambda: linecache.getlines(SECRET_FILE)[0], lambda: io.open_code(SECRET_FILE).read(),
               lambda: codecs.open(SECRET_FILE).read())
""", refused=True, control="loot"),
    Attack("an import hook", "modules", """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        sys.modules[name] = sys.modules["os"]
sys.meta_path.insert(0, Finder())
sys.path.insert(0, DROP)
sys.path_hooks.insert(0, lambda path: Finder())
answer = tried(lambda: __import__("secret"), lambda: __import__("atc"))
""", refused=True),
    Attack("packages beside the standard library", "modules", """
import os, sysconfig
folder = sysconfig.get_path("stdlib")
answer = [name for hidden in ("site-packages", "dist-packages")
          for made in tried(lambda: os.listdir(folder + "/" + hidden)) if made[0] == "got" and made[1] != "[]"
          for name in made]
""", check=lambda outcome, broker: outcome.value == []),
]  # fmt: skip

ATTACKS = [*FRAMES, *FORMAT, *CLASSES, *MODULES]
