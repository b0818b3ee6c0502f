# ruff: noqa: E501 - programs stand as they are
"""Programs that use up what there is: processes, threads, memory, descriptors, processor, output. In Python and in C."""

from __future__ import annotations

from typing import Any

from tests.attacks.record import LIBC, Attack

SOON = {"wall_s": 0.15}


def _bomb(name: str, program: str, *ends: str, **more: Any) -> Attack:
    return Attack(name, "bombs", program, ends=ends or ("raised", "finished"), **more)


def _endless(name: str, program: str) -> Attack:
    """It never gives the interpreter a chance: only its end from outside helps."""
    return _bomb(name, program, "limit", limits=SOON)


PROCESSES = [
    _bomb("forks", """
import os
made = 0
for _ in range(2000):
    try:
        if os.fork() == 0:
            os._exit(0)
        made += 1
    except OSError:
        pass
answer = made
""", check=lambda outcome, broker: outcome.value == 0),
    _bomb("threads", """
import threading, time
made = 0
try:
    while made < 5000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        made += 1
except (RuntimeError, MemoryError):
    pass
answer = made
""", "finished", "raised", "limit", limits={"wall_s": 1.0}, slow=True,  # one that gets no memory to begin keeps its maker waiting
          check=lambda outcome, broker: outcome.kind == "limit" or 0 < outcome.value < 1000),
    # 3,000 at most: without a limit it would take every number that the machine has for processes
    _bomb("threads by hand, with a stack of 16 bytes", LIBC + """
pause = ctypes.cast(libc.pause, ctypes.c_void_p).value
stack = (ctypes.c_uint64 * 4096)(*[pause] * 4096)
same = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000
made = 0
try:
    while made < 3000:
        syscall(56, same, ctypes.addressof(stack) + 8 + 16 * (made % 1000), 0, 0, 0)
        made += 1
except OSError:
    pass
answer = made
""", "finished", "killed", check=lambda outcome, broker: outcome.kind == "killed" or outcome.value < 2000),
    _bomb("descriptors", """
import os, socket
held = []
for make in (os.pipe, socket.socketpair, lambda: os.dup(1), lambda: os.eventfd(0), lambda: __import__("select").epoll()):
    try:
        while len(held) < 100_000:
            held.append(make())
    except OSError:
        pass
answer = len(held)
""", check=lambda outcome, broker: 0 < outcome.value < 100),
    _bomb("pipes and sockets filled to the brim", """
import os, socket
held = []
for make in (os.pipe, lambda: [s.detach() for s in socket.socketpair()][::-1]):
    try:
        while len(held) < 28:
            held.append(make())
            os.set_blocking(held[-1][1], False)
            while True:
                os.write(held[-1][1], bytes(65536))
    except BlockingIOError:
        pass
answer = len(held)
"""),
]  # fmt: skip

MEMORY = [
    _bomb("a list that grows", "held = []\nwhile True: held.append(bytes(1 << 20))", "raised", "killed"),
    _bomb("one large piece", "held = bytearray(8 << 30)", "raised"),
    _bomb("a string, doubled", "held = 'x'\nwhile True: held += held", "raised", "killed"),
    _bomb("a repeated list", "held = [[0]] * (1 << 40)", "raised"),
    _bomb("a number", "held = 1 << (1 << 40)", "raised"),
    _bomb("mappings by hand", LIBC + """
made = 0
try:
    while made < 100_000:
        syscall(9, 0, 16 << 20, 3, 0x4022, -1, 0)
        made += 1
except OSError:
    pass
answer = made
""", check=lambda outcome, broker: outcome.value < 20),
    _bomb("the heap by hand", LIBC + """
libc.malloc.restype = ctypes.c_void_p
made = 0
while made < 10_000 and libc.malloc(ctypes.c_size_t(4 << 20)):
    made += 1
answer = made
""", "finished", "killed", "raised", check=lambda outcome, broker: outcome.kind != "finished" or outcome.value < 80),
    _bomb("dictionaries", "held = {}\nn = 0\nwhile True:\n    held[n] = {}\n    n += 1", "raised", "killed", "limit"),
    _bomb("a bomb that unpacks", """
import zlib
packed = zlib.compress(bytes(100 << 20))
held = [zlib.decompress(packed) for _ in range(100)]
""", "raised", "killed", "limit", slow=True),
    _bomb("garbage in circles", """
import gc
gc.disable()
while True:
    a = [bytes(100_000)]
    a.append(a)
""", "raised", "killed", "limit"),
]  # fmt: skip

PROCESSOR = [
    _endless("an empty loop", "while True: pass"),
    _endless("a power", "x = 7 ** (10 ** 8)"),
    _endless("a power of a power", "pow(3, 10 ** 9)"),
    _endless("a regular expression", "import re\nre.match('(a+)+$', 'a' * 50 + 'b')"),
    _endless("a sum without end", "import itertools\nsum(itertools.count())"),
    _endless("any of nothing", "import itertools\nany(x < 0 for x in itertools.repeat(1))\n"),
    _endless("a set without end", "import itertools\n0 in itertools.repeat(1)"),
    _endless("all orders", "import itertools\nmax(itertools.permutations(range(20)))"),
    _endless("decimal", "import decimal\ndecimal.getcontext().prec = 10 ** 7\ndecimal.Decimal(2).sqrt()\nwhile True: pass"),
    _endless("factorials", "import math\nmath.factorial(10 ** 7)"),
    _endless("keys that collide", "class K(int):\n    def __hash__(self): return 1\nd = {K(n): n for n in range(100_000)}"),
    _endless("a comparison of lists of lists", """
a, b = [], []
for _ in range(40):
    a, b = [a, a], [b, b]
a == b
"""),
    _endless("json of a tree without leaves", "import json\na = []\nfor _ in range(60): a = [a, a]\njson.dumps(a)"),
    _endless("sleep", "import time\ntime.sleep(10 ** 6)"),
    _endless("a lock that nobody opens", "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()"),
    _endless("a wait in C that restarts", LIBC + "while True: libc.pause()"),
    _endless("signals, a million a second", """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 1e-6, 1e-6)
while True: pass
"""),
    _endless("a busy pair of threads", """
import threading
def on():
    while True: pass
for _ in range(20): threading.Thread(target=on).start()
on()
"""),
    _bomb("processor time, with its signal ignored", """
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True: pass
""", "limit", slow=True),
]  # fmt: skip

DEPTH = [
    _bomb("recursion", "def f(): return f()\nf()", "raised"),
    _bomb("recursion without a limit", "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()", "killed", "raised", "limit", limits=SOON),
    _bomb("recursion in C", "import sys\nsys.setrecursionlimit(10 ** 9)\na = []\nfor _ in range(10 ** 6): a = [a]\nrepr(a)",
          "killed", "raised", "limit", "finished", limits=SOON),
    _bomb("a deep source", "compile('(' * 100_000 + ')' * 100_000, '', 'eval')", "raised", "killed"),
    _bomb("a deep sum", "eval('+'.join(['1'] * 100_000))", "raised", "killed", "finished"),
    _bomb("deep attributes", "eval('a' + '.a' * 200_000)", "raised", "killed"),
    _bomb("a deep pickle", "import pickle\npickle.loads(b'\\x80\\x02' + b'(' * 10 ** 6 + b'l' * 10 ** 6 + b'.')", "raised", "killed", "finished"),
]  # fmt: skip

OUTPUT = [
    _bomb("print without end", "while True: print('x' * 10_000)", "limit", limits=SOON),
    _bomb("errors without end", "import os\nwhile True: os.write(2, b'x' * 65536)", "limit", limits=SOON),
    _bomb("both at once, byte by byte", "import os\nwhile True: os.write(1, b'x'), os.write(2, b'y')", "limit", limits=SOON),
    _bomb("a megabyte of nothing", "import os\nfor _ in range(64): os.write(1, bytes(65536))\nanswer = 1", "finished",
          check=lambda outcome, broker: outcome.value == 1 and "dropped" in outcome.stdout),
    _bomb("an argument of a gigabyte", "lookup(n='x' * (1 << 30))", "raised"),
    _bomb("arguments just under the limit", "for n in range(10): tried(lambda: lookup(n='x' * 2_000_000))\nanswer = 1", "finished"),
    _bomb("an answer just under the limit", "answer = 'x' * (2 * 2 ** 20 - 100)", "finished",
          check=lambda outcome, broker: len(outcome.value) == 2 * 2**20 - 100),
    _bomb("output closed while it is full", "import os\nos.write(1, b'x' * 60_000)\nos.close(1), os.close(2)\nanswer = 1", "finished"),
]  # fmt: skip

ATTACKS = [*PROCESSES, *MEMORY, *PROCESSOR, *DEPTH, *OUTPUT]
