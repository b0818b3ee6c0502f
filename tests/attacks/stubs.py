# ruff: noqa: E501 - programs stand as they are
"""The runner under the program taken apart: stubs and builtins replaced, traced, overheard; code objects, marshal, pickle."""

from __future__ import annotations

from atc._records.outcome import Outcome
from atc.calls.broker import Broker
from tests.attacks.record import CHANNEL, Attack
from tests.attacks.walks import walk_to_os

ENDED = ("finished", "raised", "killed", "violation")


def _nothing_asked(outcome: Outcome, broker: Broker) -> bool:
    return broker.calls == []


def _only_refused(outcome: Outcome, broker: Broker) -> bool:
    return all(call.status == "refused" for call in broker.calls)


ATTACKS = [
    Attack("the channel in a stub's closure", "stubs", """
channel = next(c.cell_contents for c in lookup.__closure__ if hasattr(c.cell_contents, "call"))
answer = tried(lambda: channel.call("send_money", {"to": "me"}), lambda: channel.call("os.system", {}))
""", refused=True, check=_only_refused),
    Attack("a stub under another name", "stubs", """
answer = tried(lambda: type(lookup)(lookup.__code__, lookup.__globals__, "x", None, tuple(
    type(c)("send_money") if c.cell_contents == "lookup" else c for c in lookup.__closure__))(n=1))
""", refused=True, check=_only_refused),
    Attack("builtins replaced under the runner", "stubs", """
import builtins
for name in ("isinstance", "len", "str", "type", "getattr", "dict", "print", "sorted", "open", "Exception"):
    setattr(builtins, name, lambda *a, **k: {"op": "done", "value": SECRET_FILE})
answer = 1
""", ends=ENDED, check=_nothing_asked),
    Attack("the converter replaced", "stubs", """
import sys
sys.modules["convert"].to_json = lambda *a, **k: {"stolen": [1] * 10}
sys.modules["frames"]._encode = lambda *a, **k: '{"op": "call", "id": 7, "tool": "book", "args": {"n": 1}}'
answer = object()
""", ends=ENDED, check=_only_refused),
    Attack("frames replaced", "stubs", """
import sys, json
frames = sys.modules["frames"]
real = frames.Frames.send
def send(self, message, *rest):
    if message["op"] == "done":
        for number in range(1, 5):
            real(self, {"op": "call", "id": number, "tool": "book", "args": {"n": number}})
    real(self, message)
frames.Frames.send = send
answer = 1
""", ends=ENDED, check=_only_refused),
    Attack("ToolError and parallel replaced", "stubs", """
class ToolError(Exception): pass
def parallel(*thunks): return "mine"
__import__("run", fromlist="x")
answer = parallel(lambda: lookup(1))
""", ends=("finished", "raised")),
    Attack("a trace function in the runner", "stubs", """
import sys, threading
def spy(frame, event, argument):
    frame.f_locals.update(value={"forged": True}, report={"op": "done"})
    return spy
sys.settrace(spy)
threading.settrace(spy)
sys.setprofile(spy)
sys._getframe().f_back.f_trace = spy
answer = {"true": 1}
""", ends=ENDED),
    Attack("an audit hook that raises", "stubs", """
import sys
def hook(event, arguments):
    if event not in ("object.__getattr__",):
        raise RuntimeError(event)
sys.addaudithook(hook)
answer = tried(lambda: open(SECRET_FILE), lambda: __import__("atc"))
""", ends=ENDED, refused=True),
    Attack("audit hook that listens", "stubs", """
import sys, os
heard = []
sys.addaudithook(lambda event, arguments: heard.append(repr((event, arguments))[:500]))
tried(lambda: os.listdir("/"), lambda: lookup(n=1))
answer = heard[:100]
"""),
    Attack("code object of another make", "code", """
def f(): return 1
code = f.__code__.replace(co_code=bytes([100, 250] * 50), co_consts=(), co_stacksize=1)
f.__code__ = code
answer = f()
""", ends=("killed", "raised", "finished")),
    Attack("code object that pops too much", "code", """
import types, dis
def f(): return 1
f.__code__ = f.__code__.replace(co_code=bytes([dis.opmap["POP_TOP"], 0] * 5000))
f()
""", ends=("killed", "raised", "finished", "limit")),
    Attack("marshal of garbage", "code", """
import marshal, random
for seed in range(3000):
    random.seed(seed)
    try:
        marshal.loads(b"\\xe3" + random.randbytes(200))
    except (ValueError, EOFError, TypeError, MemoryError):
        pass
answer = 1
""", ends=("killed", "finished", "raised")),
    walk_to_os("code from bytes", "code", """
import marshal
exec(marshal.loads(marshal.dumps(compile("import os", "", "exec"))))
"""),
    Attack("pickle that executes", "code", """
import pickle
class Run:
    def __reduce__(self):
        import os
        return os.system, ("cat " + SECRET_FILE + "; touch " + DROP + "/written",)
answer = tried(lambda: pickle.loads(pickle.dumps(Run())))
answer = [["refused"]] if answer[0][1] in ("-1", "32512") else answer
""", refused=True, control="loot"),
    Attack("a pickle as the answer", "code", CHANNEL + """
import pickle
class Run:
    def __reduce__(self):
        import os
        return os.system, ("touch " + DROP + "/written",)
put(frame(pickle.dumps(Run())))
""" + "time.sleep(60)", ends=("violation",)),
    Attack("the small numbers changed", "code", """
import ctypes
ctypes.c_char.from_address(id(7) + 24).value = b"\\x08"
answer = 7
""", ends=ENDED),
    Attack("None is let go", "code", """
import ctypes
ctypes.c_ssize_t.from_address(id(None)).value = 1
answer = [None for _ in range(100)]
del answer
answer = 1
""", ends=ENDED),
]  # fmt: skip
