"""Short programs of the kind that models write: the language. Each with the answer that CPython gives."""

from __future__ import annotations

from typing import Any

SNIPPETS: dict[str, tuple[str, Any]] = {
    "classes": ("""
class Account:
    count = 0
    def __init__(self, owner, balance=0):
        self.owner, self.balance = owner, balance
        Account.count += 1
    def deposit(self, amount):
        self.balance += amount
        return self
    def __repr__(self):
        return f"Account({self.owner!r}, {self.balance})"
a = Account("Ann").deposit(5).deposit(7)
answer = [repr(a), Account.count, vars(a)]
""", ["Account('Ann', 12)", 1, {"owner": "Ann", "balance": 12}]),
    "inheritance": ("""
class Shape:
    def area(self): raise NotImplementedError
    def describe(self): return f"{type(self).__name__} of {self.area()}"
class Square(Shape):
    def __init__(self, side): self.side = side
    def area(self): return self.side ** 2
class Tall(Square):
    def area(self): return super().area() * 2
answer = [Square(3).describe(), Tall(3).describe(), isinstance(Tall(1), Shape), [c.__name__ for c in Tall.__mro__]]
""", ["Square of 9", "Tall of 18", True, ["Tall", "Square", "Shape", "object"]]),
    "abstract classes": ("""
from abc import ABC, abstractmethod
class Base(ABC):
    @abstractmethod
    def run(self): ...
class Real(Base):
    def run(self): return "ran"
try:
    Base()
except TypeError as error:
    answer = [Real().run(), "abstract" in str(error)]
""", ["ran", True]),
    "properties, class and static methods": ("""
class Celsius:
    def __init__(self, degrees): self._degrees = degrees
    @property
    def fahrenheit(self): return self._degrees * 9 / 5 + 32
    @fahrenheit.setter
    def fahrenheit(self, value): self._degrees = (value - 32) * 5 / 9
    @classmethod
    def freezing(cls): return cls(0)
    @staticmethod
    def unit(): return "°C"
c = Celsius.freezing()
first = c.fahrenheit
c.fahrenheit = 212
answer = [first, c._degrees, Celsius.unit()]
""", [32.0, 100.0, "°C"]),
    "special methods": ("""
class Vector:
    def __init__(self, *v): self.v = v
    def __add__(self, other): return Vector(*(a + b for a, b in zip(self.v, other.v)))
    def __eq__(self, other): return self.v == other.v
    def __hash__(self): return hash(self.v)
    def __len__(self): return len(self.v)
    def __getitem__(self, at): return self.v[at]
    def __iter__(self): return iter(self.v)
    def __contains__(self, x): return x in self.v
    def __bool__(self): return any(self.v)
    def __call__(self, k): return Vector(*(k * a for a in self.v))
s = Vector(1, 2) + Vector(3, 4)
answer = [list(s), s == Vector(4, 6), len({s, Vector(4, 6)}), s[1], 4 in s, bool(Vector(0, 0)), list(s(2))]
""", [[4, 6], True, 1, 6, True, False, [8, 12]]),
    "metaclasses and __init_subclass__": ("""
class Registry(type):
    known = []
    def __new__(mcls, name, bases, body, **more):
        made = super().__new__(mcls, name, bases, body, **more)
        mcls.known.append(name)
        return made
class A(metaclass=Registry):
    def __init_subclass__(cls, /, tag=None, **kw):
        super().__init_subclass__(**kw)
        cls.tag = tag
class B(A, tag="b"): pass
answer = [Registry.known, B.tag]
""", [["A", "B"], "b"]),
    "slots and descriptors": ("""
class Positive:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, kind=None): return getattr(obj, self.name)
    def __set__(self, obj, value):
        if value <= 0: raise ValueError("not positive")
        setattr(obj, self.name, value)
class Box:
    __slots__ = ("_width",)
    width = Positive()
box = Box()
box.width = 3
caught = []
for act in (lambda: setattr(box, "width", -1), lambda: setattr(box, "colour", 1)):
    try: act()
    except (ValueError, AttributeError) as error: caught.append(type(error).__name__)
answer = [box.width, caught]
""", [3, ["ValueError", "AttributeError"]]),
    "generators": ("""
def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b
def first(n, it):
    for _, value in zip(range(n), it): yield value
def both():
    got = yield from first(3, fibonacci())
    yield "end"
answer = [list(first(8, fibonacci())), list(both()), sum(x * x for x in range(4))]
""", [[0, 1, 1, 2, 3, 5, 8, 13], [0, 1, 1, "end"], 14]),
    "generators that are sent to": ("""
def average():
    total = count = 0
    mean = None
    while True:
        value = yield mean
        if value is None: return mean
        total, count = total + value, count + 1
        mean = total / count
g = average()
next(g)
means = [g.send(v) for v in (10, 20, 30)]
try:
    g.send(None)
except StopIteration as stop:
    answer = [means, stop.value]
""", [[10.0, 15.0, 20.0], 20.0]),
    "iterators": ("""
class Countdown:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n == 0: raise StopIteration
        self.n -= 1
        return self.n + 1
answer = [list(Countdown(3)), max(Countdown(4)), list(zip("ab", Countdown(9))), next(iter([]), "none")]
""", [[3, 2, 1], 4, [["a", 9], ["b", 8]], "none"]),
    "comprehensions": ("""
rows = [{"n": i, "tags": ["x"] * (i % 3)} for i in range(6)]
answer = [
    [r["n"] for r in rows if r["tags"]],
    {r["n"]: len(r["tags"]) for r in rows if r["n"] > 3},
    sorted({len(r["tags"]) for r in rows}),
    [(a, b) for a in "ab" for b in range(2)],
    [[x * y for x in range(3)] for y in range(2)],
]
""", [[1, 2, 4, 5], {"4": 1, "5": 2}, [0, 1, 2], [["a", 0], ["a", 1], ["b", 0], ["b", 1]], [[0, 0, 0], [0, 1, 2]]]),
    "match": ("""
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
def what(v):
    match v:
        case 0 | 1: return "bit"
        case int(n) if n > 100: return "big"
        case str(): return f"text {v}"
        case []: return "empty"
        case [first, *rest]: return f"{first} and {len(rest)}"
        case {"kind": kind, **more}: return f"{kind} {sorted(more)}"
        case Point(x=0, y=y): return f"on the axis at {y}"
        case None: return "nothing"
        case _: return "other"
answer = [what(v) for v in (1, 101, "a", [], [1, 2, 3], {"kind": "k", "b": 1}, Point(0, 5), None, 3.5)]
""", ["bit", "big", "text a", "empty", "1 and 2", "k ['b']", "on the axis at 5", "nothing", "other"]),
    "nonlocal, global and closures": ("""
total = 0
def counter(start):
    n = start
    def step():
        nonlocal n
        global total
        n += 1
        total += 1
        return n
    return step
a, b = counter(0), counter(10)
answer = [a(), a(), b(), total, [f() for f in [lambda i=i: i * i for i in range(4)]]]
""", [1, 2, 11, 3, [0, 1, 4, 9]]),
    "walrus": ("""
data = [3, 8, 1, 9]
found = [half for n in data if (half := n / 2) > 1]
while (last := data.pop()) > 2: pass
answer = [found, last, data, (n := 10) + n]
""", [[1.5, 4.0, 4.5], 1, [3, 8], 20]),
    "decorators": ("""
import functools
def repeat(times):
    def decorate(f):
        @functools.wraps(f)
        def wrapped(*args, **kwargs): return [f(*args, **kwargs) for _ in range(times)]
        return wrapped
    return decorate
@repeat(times=2)
def greet(name, *, mark="!"):
    "Say hello."
    return f"hello {name}{mark}"
answer = [greet("Ann", mark="?"), greet.__name__, greet.__doc__]
""", [["hello Ann?", "hello Ann?"], "greet", "Say hello."]),
    "context managers": ("""
from contextlib import contextmanager, ExitStack, suppress
log = []
class Open:
    def __enter__(self): log.append("in"); return self
    def __exit__(self, kind, error, tb): log.append(kind.__name__ if kind else "out"); return kind is KeyError
@contextmanager
def tagged(name):
    log.append(f"<{name}>")
    try: yield name.upper()
    finally: log.append(f"</{name}>")
with Open(): {}["x"]
with tagged("a") as upper, Open(): log.append(upper)
with ExitStack() as stack, suppress(ZeroDivisionError):
    stack.enter_context(tagged("b"))
    1 / 0
answer = log
""", ["in", "KeyError", "<a>", "in", "A", "out", "</a>", "<b>", "</b>"]),
    "f-strings": ("""
import datetime
name, value, width = "Ann", 1234.5678, 10
answer = [f"{name!r:>8}|{name:<5}|{name:^7}|", f"{value:,.2f} {value:.3e} {value:{width}.1f}",
          f"{42:b} {42:#x} {42:05d}",
          f"{0.256:.1%}", f"{value=:.1f}", f"{datetime.date(2024, 5, 1):%d %b %Y}", f"{{}} {'a' if value else 'b'}"]
""", ["   'Ann'|Ann  |  Ann  |", "1,234.57 1.235e+03     1234.6", "101010 0x2a 00042", "25.6%", "value=1234.6",
      "01 May 2024", "{} a"]),
    "star arguments and unpacking": ("""
def f(a, /, b, *rest, c=3, **more): return [a, b, rest, c, more]
first, *middle, last = range(5)
(x, y), z = (1, 2), 3
answer = [f(1, *[2, 3], c=4, **{"d": 5}), first, middle, last, x + y + z, [*"ab", *range(2)], {**{"a": 1}, "b": 2}]
""", [[1, 2, [3], 4, {"d": 5}], 0, [1, 2, 3], 4, 6, ["a", "b", 0, 1], {"a": 1, "b": 2}]),
    "exceptions": ("""
class AppError(Exception):
    def __init__(self, code): super().__init__(f"code {code}"); self.code = code
def load(kind):
    try:
        if kind == "app": raise AppError(7)
        return {"a": 1}[kind]
    except KeyError as error:
        raise ValueError(f"no {kind}") from error
answer = []
for kind in ("a", "b", "app"):
    try: answer.append(load(kind))
    except (ValueError, AppError) as error:
        answer.append([str(error), type(error.__cause__).__name__, getattr(error, "code", None)])
""", [1, ["no b", "KeyError", None], ["code 7", "NoneType", 7]]),
    "try, else, finally": ("""
def run(n):
    steps = []
    try:
        steps.append(10 / n)
    except ZeroDivisionError:
        steps.append("zero")
    else:
        steps.append("fine")
    finally:
        steps.append("end")
    return steps
def wins():
    for i in range(3):
        try: return "try"
        finally: return "finally"
answer = [run(5), run(0), wins()]
""", [[2.0, "fine", "end"], ["zero", "end"], "finally"]),
    "exception groups": ("""
seen = []
try:
    raise ExceptionGroup("several", [ValueError("v"), TypeError("t"), ExceptionGroup("inner", [ValueError("w")])])
except* ValueError as group:
    seen.append([group.message, len(group.exceptions)])
except* TypeError as group:
    seen.append([str(e) for e in group.exceptions])
answer = seen
""", [["several", 2], ["t"]]),
    "loops with else, break and continue": ("""
def prime(n):
    for d in range(2, n):
        if d * d > n: continue
        if n % d == 0: break
    else:
        return n > 1
    return False
answer = [n for n in range(30) if prime(n)]
""", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    "slices and strings": ("""
s, l = "Hello, World", list(range(10))
l[2:4] = ["x"]
del l[-2:]
answer = [s[::-1], s[-5:], l, l[::3], s.split(", "), "-".join("abc"), s.replace("l", "L", 1), s.title().swapcase(),
          "a,b;c".translate({44: " ", 59: None}), "x".zfill(3), s.partition(", ")[2], s.casefold().count("o")]
""", ["dlroW ,olleH", "World", [0, 1, "x", 4, 5, 6, 7], [0, 4, 7], ["Hello", "World"], "a-b-c", "HeLlo, World",
      "hELLO, wORLD", "a bc", "00x", "World", 2]),
    "sorting": ("""
from operator import itemgetter
people = [{"n": "Bo", "a": 30}, {"n": "Al", "a": 25}, {"n": "Cy", "a": 30}]
answer = [[p["n"] for p in sorted(people, key=lambda p: (-p["a"], p["n"]))], max(people, key=itemgetter("a"))["n"],
          sorted("bca", reverse=True), [p["n"] for p in sorted(people, key=itemgetter("a", "n"))]]
""", [["Bo", "Cy", "Al"], "Bo", ["c", "b", "a"], ["Al", "Bo", "Cy"]]),
    "asyncio": ("""
import asyncio
async def work(n):
    await asyncio.sleep(0.001 * n)
    return n * n
async def numbers(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i
async def main():
    queue = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(queue.put("put"))
        got = group.create_task(queue.get())
    try:
        await asyncio.wait_for(asyncio.sleep(9), 0.01)
    except TimeoutError:
        late = "late"
    return [await asyncio.gather(work(3), work(1)), [i async for i in numbers(3)], got.result(), late]
answer = asyncio.run(main())
""", [[9, 1], [0, 1, 2], "put", "late"]),
    "threads": ("""
import queue, threading
from concurrent.futures import ThreadPoolExecutor, as_completed
lock, total, q = threading.Lock(), 0, queue.Queue()
def add(n):
    global total
    with lock: total += n
    q.put(n)
threads = [threading.Thread(target=add, args=(n,)) for n in range(5)]
for t in threads: t.start()
for t in threads: t.join(timeout=60)
with ThreadPoolExecutor(4) as pool:
    mapped = list(pool.map(lambda n: n * 2, range(4)))
    done = sorted(f.result() for f in as_completed([pool.submit(pow, 2, n) for n in range(3)]))
answer = [total, sorted(q.get() for _ in range(5)), mapped, done]
""", [10, [0, 1, 2, 3, 4], [0, 2, 4, 6], [1, 2, 4]]),
    "recursion and memory of results": ("""
from functools import cache, lru_cache
@cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def flat(x): return [y for item in x for y in flat(item)] if isinstance(x, list) else [x]
def hanoi(n, a="A", b="B", c="C"): return hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c) if n else []
answer = [fib(80), fib.cache_info().misses, flat([1, [2, [3, [4]]]]), len(hanoi(5))]
""", [23416728348467685, 81, [1, 2, 3, 4], 31]),
}  # fmt: skip
