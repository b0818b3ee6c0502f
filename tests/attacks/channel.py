# ruff: noqa: E501 - programs stand as they are
"""What a program writes straight on the channel: forged, replayed, half, garbage, huge, and without end."""

from __future__ import annotations

from typing import Any

from atc._records.outcome import Outcome
from atc.calls.broker import Broker
from tests.attacks.record import CHANNEL, LIBC, STAY, Attack

ANY_END = ("finished", "raised", "killed", "limit", "violation")


def _garbage(name: str, data: str) -> Attack:
    """Bytes that are no frame: seen as such at once."""
    return Attack(name, "garbage frames", f"{CHANNEL}put({data}){STAY}", ends=("violation",))


def _no_call(outcome: Outcome, broker: Broker) -> bool:
    return broker.calls == []


def _refused(outcome: Outcome, broker: Broker) -> bool:
    return broker.calls != [] and all(call.status == "refused" for call in broker.calls)


def _once(outcome: Outcome, broker: Broker) -> bool:
    return len(broker.calls) == 1


def _plain_claim(outcome: Outcome, broker: Broker) -> bool:
    """Odd claims in an error were dropped, and what was kept is short."""
    error = outcome.error
    assert error is not None
    return (error.line, error.span, error.origin) == (0, None, None) and len(error.message) <= 2000


GARBAGE = [
    _garbage("zero bytes of JSON", "bytes(4)"),
    _garbage("length of 4 GiB", "b'\\xff' * 4"),
    _garbage("length just over the limit", "(4 * 2**20 + 1).to_bytes(4, 'big') + b' ' * 100"),
    _garbage("random bytes", "b'\\x00\\x00\\x00\\x40' + os.urandom(64)"),
    _garbage("half an object", "frame(b'{')"),
    _garbage("a list", "frame(b'[1]')"),
    _garbage("a number", "frame(b'1')"),
    _garbage("two objects in one frame", "frame(b'{\"op\": \"done\"}{\"op\": \"done\"}')"),
    _garbage("deep lists", "frame(b'[' * 1_000_000 + b']' * 1_000_000)"),
    _garbage("deep objects", "frame(b'{\"a\":' * 600_000)"),
    _garbage("deep behind a string of brackets", "frame(b'{\"op\": \"' + b']' * 1000 + b'\", \"v\": ' + b'[' * 200_000)"),
    _garbage("a string that hides the depth", "frame(b'{\"a\\\\\\\\\": ' + b'[' * 100_000 + b'\"')"),
    _garbage("a string without end", "frame(b'{\"op\": \"' + b'\\\\\\\\' * 1_000_000)"),
    _garbage("NaN", "frame(b'{\"op\": \"done\", \"answered\": true, \"value\": NaN}')"),
    _garbage("minus infinity", "frame(b'{\"op\": \"done\", \"answered\": true, \"value\": -Infinity}')"),
    _garbage("1e999", "frame(b'{\"op\": \"done\", \"answered\": true, \"value\": 1e999}')"),
    _garbage("the same key twice", "frame(b'{\"op\": \"call\", \"op\": \"done\"}')"),
    _garbage("half of a surrogate pair",
             "frame(b'{\"op\": \"done\", \"answered\": true, \"value\": \"\\\\\\\\ud800\"}'.replace(b'\\\\\\\\', b'\\\\'))"),
    _garbage("bytes that are no UTF-8", "frame(b'{\"op\": \"done\", \"value\": \"\\xff\\xfe\"}')"),
    _garbage("a byte order mark", "frame(b'\\xef\\xbb\\xbf{\"op\": \"done\"}')"),
    _garbage("UTF-16", "frame('{\"op\": \"done\"}'.encode('utf-16'))"),
    _garbage("an integer of a million digits", "frame(b'{\"op\": \"done\", \"value\": ' + b'9' * 1_000_000 + b'}')"),
    _garbage("an operation that is none", "frame({'op': 'please'})"),
    _garbage("an operation that is a list", "frame({'op': [['call']]})"),
    _garbage("an operation with escapes", "frame({'op': '\\x1b]0;owned\\x07\\x1b[2J'})"),
    _garbage("the host's own frame sent back", "frame({'op': 'run', 'program': 'answer = 1', 'tools': {}})"),
    _garbage("a reply to itself", "frame({'op': 'reply', 'id': 1, 'value': 1})"),
    _garbage("a call without a number", "frame({'op': 'call', 'tool': 'lookup', 'args': {}})"),
    *[
        _garbage(f"a call whose number is {shown}", f"frame({{'op': 'call', 'id': {value}, 'tool': 'lookup', 'args': {{}}}})")
        for shown, value in [
            ("text", "'1'"), ("true", "True"), ("negative", "-1"), ("a fraction", "1.5"), ("huge", "2**60"), ("null", "None"),
        ]
    ],
    _garbage("a call of no tool", "frame({'op': 'call', 'id': 1, 'tool': None, 'args': {}})"),
    _garbage("a call whose arguments are a list", "frame({'op': 'call', 'id': 1, 'tool': 'lookup', 'args': [1]})"),
    _garbage("an error that is none", "frame({'op': 'raised', 'error': 1})"),
    _garbage("an HTTP request", "b'GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'"),
]  # fmt: skip

FORGED = [
    Attack("a frame's half, then the end", "forged frames", CHANNEL + "put(frame({'op': 'done'})[:9])\nos._exit(0)",
           ends=("violation",)),
    Attack("a frame's half, then silence", "forged frames", CHANNEL + "put(frame({'op': 'done'})[:9])" + STAY,
           ends=("limit",), limits={"wall_s": 0.3}),
    Attack("a frame byte by byte", "forged frames", CHANNEL + """
for byte in frame({"op": "done", "answered": True, "value": "slow"}):
    put(bytes([byte]))
""" + STAY, check=lambda outcome, broker: outcome.value == "slow"),
    Attack("two reports: the first one counts", "forged frames", CHANNEL + """
put(frame({"op": "done", "answered": True, "value": 1}) + frame({"op": "done", "answered": True, "value": 2}))
""" + STAY, check=lambda outcome, broker: outcome.value == 1),
    Attack("calls after the report", "forged frames", CHANNEL + """
put(frame({"op": "done"}) + b"".join(
    frame({"op": "call", "id": n, "tool": "lookup", "args": {"n": n}}) for n in range(1, 50)))
""" + STAY, check=_no_call),
    Attack("a call sent twice", "forged frames", CHANNEL + """
one = frame({"op": "call", "id": 1, "tool": "lookup", "args": {"n": 1}})
put(one + one)
""" + STAY, ends=("violation",)),
    Attack("numbers that fall", "forged frames", CHANNEL + """
for number in (5, 4):
    say({"op": "call", "id": number, "tool": "lookup", "args": {"n": 1}})
""" + STAY, ends=("violation",)),
    Attack("a tool that was not granted", "forged frames", CHANNEL + """
for number, tool in enumerate(["send_money", "Lookup", "lookup ", "lookup\\0", "__class__", "", "../lookup"], 1):
    say({"op": "call", "id": number, "tool": tool, "args": {"n": 1}})
hear(7)
say({"op": "done"})
""" + STAY, check=_refused),
    Attack("a tool's name of a megabyte", "forged frames", CHANNEL + """
say({"op": "call", "id": 1, "tool": "x" * 1_000_000, "args": {}})
hear()
say({"op": "done"})
""" + STAY, check=lambda outcome, broker: _refused(outcome, broker) and len(broker.calls[0].tool) <= 200),
    Attack("arguments that a class would trip over", "forged frames", CHANNEL + """
say({"op": "call", "id": 1, "tool": "lookup",
     "args": {"__class__": "x", "__proto__": {"admin": True}, "self": 1, "n": {"__reduce__": ["os.system", "id"]}}})
hear()
say({"op": "done"})
""" + STAY, check=_refused),
    Attack("a line number from beyond", "forged frames", CHANNEL + """
for number, line in enumerate([-1, 2**70, "1; DROP", [1], None, 1e300, True], 1):
    say({"op": "call", "id": number, "tool": "lookup", "args": {"n": 1}, "line": line})
hear(7)
say({"op": "done"})
""" + STAY, check=lambda outcome, broker: {call.line for call in broker.calls} == {0}),
    *[
        Attack(f"an error with {name}", "forged frames", f"{CHANNEL}say({{'op': 'raised', 'error': {error}}}){STAY}",
               ends=("raised",), check=_plain_claim)
        for name, error in {
            "odd positions": "{'type': 7, 'line': -5, 'span': [1, 2], 'origin': ['x'], 'trace': [[1], 2, [{}, []]]}",
            "a huge message": "{'type': 'x' * 10**6, 'message': ['y'] * 10**5, 'line': 2**80}",
            "a deep type": "{'type': eval('[' * 80 + ']' * 80), 'message': {'a': {'b': 1}}, 'line': '1'}",
            "a long origin": "{'type': 'E', 'origin': [1, ['a'] * 10**5], 'span': [2**70, 0, 0, 0], 'line': 1.5}",
        }.items()
    ],
    Attack("a success that never was", "forged frames", CHANNEL + """
say({"op": "done", "answered": "yes", "value": {"answered": True}})
""" + STAY, check=lambda outcome, broker: outcome.answered is False),
    Attack("the channel copied over stdout", "descriptors", CHANNEL + """
os.dup2(3, 1)
print("not a frame " * 100, flush=True)
""" + STAY, ends=("violation",)),
    Attack("stdout copied over the channel", "descriptors", CHANNEL + """
os.dup2(1, 3)
say({"op": "call", "id": 1, "tool": "lookup", "args": {"n": 1}})
""", ends=("killed", "violation"), check=_no_call),
    Attack("every descriptor is written to", "descriptors", CHANNEL + """
import fcntl
answer = []
for number in range(0, 4096):
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        continue
    answer.append(number)
    if number != 3:
        os.write(number, b"hello")
""", check=lambda outcome, broker: outcome.value == [1, 2, 3]),
    Attack("every descriptor is read", "descriptors", CHANNEL + """
import fcntl
answer = [[number, fcntl.fcntl(number, 3)] for number in (1, 2, 3)]
got = tried(lambda: os.read(1, 10), lambda: os.read(2, 10))
answer = got
""", refused=True),
    Attack("the channel closed, and on it runs", "descriptors", "import os\nos.closerange(0, 64)\nwhile True: pass",
           ends=("violation", "limit"), slow=True),
    Attack("the channel half closed", "descriptors", """
import socket
s = socket.socket(fileno=3)
s.shutdown(socket.SHUT_RD)
answer = 1
lookup(n=1)
""", ends=("raised", "finished", "killed", "violation")),
    Attack("answers that are never read", "descriptors", CHANNEL + """
for number in range(1, 2000):
    say({"op": "call", "id": number, "tool": "lookup", "args": {"n": number}})
""" + STAY, ends=("limit", "finished"), limits={"wall_s": 0.5}),
    Attack("out-of-band bytes", "descriptors", LIBC + """
import time
for _ in range(50):
    libc.send(3, b"x", 1, 1)
time.sleep(30)
""", ends=("limit", "violation", "killed", "finished"), limits={"wall_s": 0.3}),
    Attack("descriptors sent to the host", "descriptors", """
import socket, array
s = socket.socket(fileno=3)
fds = array.array("i", [1, 2])
answer = tried(lambda: s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]),
               lambda: socket.send_fds(s, [b"x"], [1]), lambda: s.recvmsg(1, 1000, socket.MSG_DONTWAIT))
""", refused=True),
    Attack("a handle on the host by its end of the channel", "descriptors", LIBC + """
import socket
s = socket.socket(fileno=3)
def taken(option):
    handle = s.getsockopt(socket.SOL_SOCKET, option)
    return [syscall(424, handle, 0, None, 0), syscall(438, handle, 0, 0)]
answer = tried(lambda: taken(77))
""", ends=("finished", "killed"), check=lambda o, b: o.kind == "killed" or o.value[0][0] == "refused"),
    Attack("the host's own end is turned around", "descriptors", """
import socket
s = socket.socket(fileno=3)
answer = tried(lambda: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1), lambda: s.bind("\\0mine"),
               lambda: s.listen(), lambda: s.connect(ABSTRACT), lambda: s.connect(NAMED), lambda: s.accept())
""", refused=True),
]  # fmt: skip


def _flood(name: str, body: str, wall_s: float = 2.0, **more: Any) -> Attack:
    return Attack(name, "floods of frames", CHANNEL + body + STAY, ends=ANY_END, limits={"wall_s": wall_s}, **more)


_LARGE = """
for number in range(1, COUNT + 1):
    say(b'{"op": "call", "id": %d, "line": 1, "tool": "TOOL", "args": {"n": ' % number + ITEM + b"}}")
say({"op": "done"})
"""


def _large(tool: str, item: str, count: int) -> str:
    """Calls whose argument is megabytes."""
    return _LARGE.replace("COUNT", str(count)).replace("TOOL", tool).replace("ITEM", item)


_TEXT, _LISTS = "b'\"' + b'x' * 4_000_000 + b'\"'", "b'[' + b'[],' * 1_390_000 + b'[]]'"
FLOODS = [
    _flood("ten thousand calls", """
put(b"".join(frame({"op": "call", "id": n, "tool": "lookup", "args": {"n": n}}) for n in range(1, 10_001)))
say({"op": "done"})
""", wall_s=0.7, slow=True),
    # the first goes ahead: on a machine that has little time, making the others may take all there is
    _flood("ten thousand calls that are refused", """
put(frame({"op": "call", "id": 1, "tool": "send_money", "args": {"n": 1}}))
put(b"".join(frame({"op": "call", "id": n, "tool": "send_money", "args": {"n": n}}) for n in range(2, 10_001)))
say({"op": "done"})
""", wall_s=1.5, check=_refused),
    _flood("refused calls with megabytes of arguments", _large("send_money", _TEXT, 24)),
    _flood("denied calls with megabytes of arguments", _large("book", _TEXT, 24)),
    _flood("an answer of a million empty lists", """
say(b'{"op": "done", "answered": true, "value": [' + b"[]," * 1_390_000 + b"[]]}")
"""),
    _flood("an answer of half a million keys", """
say(b'{"op": "done", "answered": true, "value": {' + b",".join(b'"%x":0' % n for n in range(420_000)) + b"}}")
"""),
    _flood("an error of a million empty objects", """
say(b'{"op": "raised", "error": {"type": "E", "message": [' + b"{}," * 1_390_000 + b"{}]}}")
"""),
    _flood("calls of a million empty lists", _large("send_money", _LISTS, 3)),
    _flood("an answer of wide characters", """
say(b'{"op": "done", "answered": true, "value": "' + b"a" * 2_000_000 + "😀".encode() + b'"}')
"""),
    _flood("an answer of escapes", """
say(b'{"op": "done", "answered": true, "value": "' + b"\\\\u00e4" * 340_000 + b'"}')
"""),
    _flood("an answer of a fraction of four million digits", """
say(b'{"op": "done", "answered": true, "value": 0.' + b"1" * 2_000_000 + b"}")
"""),
    _flood("an answer of many long integers", """
say(b'{"op": "done", "answered": true, "value": [' + b",".join([b"7" * 399] * 10_000) + b"]}")
"""),
    _flood("frames without end", """
number = 0
while True:
    number += 1
    put(frame({"op": "call", "id": number, "tool": "lookup", "args": {"n": number}}))
""", wall_s=0.5),
]  # fmt: skip

ATTACKS = [*GARBAGE, *FORGED, *FLOODS]
