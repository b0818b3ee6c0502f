"""No origin is missed: an argument that changes with what a tool answers names that tool, whatever Python does."""

from __future__ import annotations

import pytest

from atc.programs.origins.program import ProgramOrigins
from atc.programs.program import Program
from tests.programs.origins.perturbed import TOOLS, all_missed, missed

PROGRAMS = r"""
a = read_a()
send(to=a["to"], n=a["n"])
###
a = read_a()
x = []
y = x
y.append(a["to"])
send(to=x)
###
a = read_a()
if a["flag"]:
    t = "one"
else:
    t = "two"
send(to=t)
###
a = read_a()
t = "one" if a["flag"] else "two"
send(to=t, b=a["flag"] and "x" or "y")
###
a = read_a(); b = read_b()
for i in a["items"]:
    if i["ok"]:
        break
    b["to"] = "changed"
send(to=b["to"])
###
a = read_a()
n = 0
while n < a["n"]:
    n += 1
send(to=n)
###
a = read_a()
def f():
    if a["flag"]:
        return "p"
    return "q"
send(to=f())
###
a = read_a()
names = ["u", "v", "w", "x", "y", "z"]
send(to=names[a["n"]], b=names[: a["n"]])
###
a = read_a()
send(to=sorted(["b", "aa", "c"], key=lambda x: len(x) * (a["n"] - 3))[0])
###
a = read_a()
d = {"x": "1", "y": "2"}
d[a["name"]] = "3"
send(to=list(d), n=len(d), k=d.get("read_a name", "none"))
###
a = read_a()
try:
    x = a["name"]
    t = "ok"
except KeyError:
    t = "no"
send(to=t)
###
t = "start"
try:
    a = read_a()
    t = "got"
except ToolError as e:
    t = "failed"
send(to=t)
###
try:
    a = read_a()
    m = ""
except ToolError as e:
    m = str(e)
send(to=m)
###
a = read_a()
log = []
def g():
    log.append(1)
    a["name"].upper()
    log.append(2)
try:
    g()
except Exception:
    pass
send(to=log)
###
a = read_a()
it = iter(["p", "q", "r"])
if a["flag"]:
    next(it)
send(to=next(it))
###
a = read_a()
def gen():
    yield "p"
    if a["flag"]:
        yield "q"
    yield "r"
g = gen()
next(g)
send(to=next(g), rest=list(g))
###
a = read_a()
def counter():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    return inc
c = counter()
if a["flag"]:
    c()
send(to=c())
###
a = read_a()
total = 0
def add(x):
    global total
    total += x
for i in a["items"]:
    add(i["rank"])
send(to=total)
###
a = read_a()
class Box:
    kind = "k"
    def __init__(self, x):
        self.x = x
        self.items = []
    def put(self, y):
        self.items.append(y)
    @property
    def first(self):
        return self.items[0]
    @staticmethod
    def s(x):
        return x
    @classmethod
    def make(cls, x):
        return cls(x)
b = Box(a["to"])
b.put(a["n"])
send(to=b.x, items=b.items, f=b.first, s=Box.s(a["name"]), m=Box.make(a["flag"]).x)
###
from dataclasses import dataclass, field, asdict
a = read_a()
@dataclass
class R:
    who: str
    tags: list = field(default_factory=list)
rs = [R(i["who"]) for i in a["items"]]
rs[0].tags.append(a["to"])
rs.sort(key=lambda r: r.who)
send(to=rs[0].who, t=rs[0].tags, d=asdict(rs[0]))
###
a = read_a(); b = read_b()
x, (y, *z) = a["to"], [b["to"], a["n"], b["n"]]
send(to=x, y=y, z=z)
x, y = y, x
send(to=x, y=y)
###
import json, re
a = read_a()
d = json.loads(a["body"])
d["z"] = 1
m = re.search("n(.)", a["name"])
send(to=d["k"], l=d["l"], g=m.group(1), j=json.dumps(a, sort_keys=True))
###
from collections import defaultdict, Counter, namedtuple, OrderedDict, deque
a = read_a()
g = defaultdict(list)
for i in a["items"]:
    g[i["ok"]].append(i["who"])
c = Counter(i["rank"] for i in a["items"])
P = namedtuple("P", "x y")
p = P(a["to"], 1)
q = deque(a["tags"], maxlen=2)
q.append("z")
send(to=g[True], c=c.most_common(1), p=p.x, q=list(q), keys=list(g))
###
import itertools, functools, operator, heapq
a = read_a()
w = sorted(a["items"], key=operator.itemgetter("rank"))
g = {k: [x["who"] for x in v] for k, v in itertools.groupby(a["items"], key=lambda x: x["ok"])}
r = functools.reduce(lambda x, y: x + y["who"], a["items"], "")
h = []
heapq.heappush(h, a["n"])
heapq.heappush(h, 3)
send(to=w[0]["who"], g=g, r=r, h=heapq.heappop(h))
###
import functools
a = read_a()
f = functools.partial(send, to=a["to"])
f(b="x")
###
a = read_a()
list(map(lambda i: send(to=i["who"]), a["items"]))
[send(to=x) for x in a["tags"] if x != "x"]
parallel(lambda: send(to=a["name"]), lambda: pay(n=a["n"]))
parallel([lambda i=i: send(to=i["id"]) for i in a["items"]])
###
a, b = parallel(read_a, lambda: read_b(), settle=True)
send(to="x" if isinstance(a, Exception) else b["to"], n=[type(each).__name__ for each in (a, b)])
###
a = read_a()
def look(n):
    if a["flag"]:
        raise ValueError("bad " + a["name"])
    return n
got = parallel([lambda n=n: look(n) for n in (1, 2)], settle=True)
send(to=str(got[0]), b=len([each for each in got if isinstance(each, Exception)]))
###
a = read_a()
seen = []
def put():
    seen.append(1)
    a["items"][1]
    seen.append(2)
    return "put"
made = parallel(put, lambda: a["name"], settle=True)
send(to=made[-1], n=len(seen), b=[str(each) for each in made], c=made[0].args if isinstance(made[0], KeyError) else 0)
###
import functools
a = read_a()
settled = functools.partial(parallel, settle=True)
send(to=[str(each) for each in settled(lambda: a["name"], lambda: 1 // a["n"])])
###
a = read_a()
match a:
    case {"n": 2, "to": t}:
        send(to=t)
        x = "two"
    case {"n": n}:
        x = n
    case _:
        x = "none"
send(to=x)
###
a = read_a()
def f(x):
    if x["flag"]:
        raise ValueError("bad " + x["name"])
    return "fine"
try:
    r = f(a)
except ValueError as e:
    r = e.args[0]
send(to=r)
###
a = read_a()
out = {"m": {"to": "x"}}
inner = out["m"]
inner["to"] = a["to"]
send(to=out["m"]["to"])
###
a = read_a()
a["items"][0]["who"] = "me"
a["extra"] = a["to"]
b = a["extra"]
send(to=b, w=a["items"][0]["who"])
###
a = read_a(); b = read_b()
b["x"] = a["to"]
for k, v in b.items():
    if k == "x":
        send(to=v)
###
a = read_a()
m = a["map"]
for k, v in m.items():
    v["w"] = k
send(to=[v["w"] for v in m.values()], k=list(m), z=m.get("p", {}).get("v"))
###
a = read_a()
s = set()
for t in a["tags"]:
    s.add(t)
send(to=sorted(s), n=len(s), u=s | {"m"}, i=bool(s & {"x"}))
###
a = read_a(); b = read_b()
both = a["items"] + b["items"]
best = max(both, key=lambda x: (x["rank"], x["who"]))
z = [f"{x['who']}-{y}" for x, y in zip(a["items"], b["tags"])]
send(to=best["who"], z=z, e=[i for i, t in enumerate(a["tags"]) if t == "x"])
###
a = read_a()
x = "none"
for i in a["items"]:
    if not i["ok"]:
        continue
    x = "some"
send(to=x)
for i in a["items"]:
    if i["rank"] > 4:
        x = "big"
        break
else:
    x = "small"
send(to=x)
###
a = read_a()
def outer(cb):
    return cb(a["to"])
def cb(x):
    return x + "!"
send(to=outer(cb))
def deco(f):
    def w(*args, **kw):
        return f(*args, **kw) + a["name"]
    return w
@deco
def h(x):
    return x
send(to=h("q"))
###
a = read_a()
d = dict(a)
d2 = {**a, "k": 1}
d3 = a | {"z": 2}
d4 = a.copy()
import copy
d5 = copy.deepcopy(a)
send(a=d["to"], b=d2["to"], c=d3["to"], d=d4["to"], e=d5["items"][0]["who"])
###
a = read_a()
with_x = [x for x in a["tags"] if (y := x) == "x"]
send(to=y)
###
a = read_a()
x = [1, 2, 3]
if a["flag"]:
    x.pop()
send(to=x, l=x[-1], n=len(x))
del x[a["n"] - 2]
send(to=x)
###
a = read_a()
assert a["flag"]
send(to="x")
###
a = read_a()
fs = {"p": lambda: "one", "read_a name": lambda: "two"}
send(to=fs.get(a.get("name", "p"), fs["p"])())
###
import random
a = read_a()
random.seed(a["n"])
send(to=random.randint(1, 10**9), c=random.choice(["x", "y", "z"]))
l = ["1", "2", "3", "4", "5"]
random.shuffle(l)
send(to=l)
###
a = read_a()
x = "q"
def r():
    return x
if a["flag"]:
    x = "w"
send(to=r())
###
a = read_a()
def f(n, acc):
    if n == 0:
        return acc
    return f(n - 1, acc + ["z"])
send(to=f(a["n"], []))
###
a = read_a()
xs = [0] * a["n"]
ys = ["p"]
ys += xs
ys[0:1] = a["tags"]
send(to=ys, n=len(xs))
###
a = read_a()
x = {}
x.setdefault(a["to"], []).append("v")
x.update({"k": a["name"]})
send(to=x, k=x["k"])
###
from enum import Enum
a = read_a()
class E(Enum):
    A = 1
    B = 2
send(to=E(a["n"]).name)
###
from datetime import datetime, timedelta
a = read_a()
d = datetime(2020, 1, 1) + timedelta(days=a["n"])
send(to=d.isoformat(), s=d.strftime("%d"))
###
a = read_a()
f = "{} {n}".format
send(to=f(a["to"], n=1), p="%s" % a["name"], j=",".join(a["tags"]), u=a["to"].upper().split("@")[0])
###
a = read_a()
b = read_b(q=a["to"])
send(to=b["to"])
###
a = read_a()
x = 1
try:
    for i in a["items"]:
        x = i["id"]
        if i["rank"] == 1:
            raise ValueError
except ValueError:
    pass
finally:
    z = x
send(to=x, z=z)
###
a = read_a()
from contextlib import suppress
x = "p"
with suppress(KeyError):
    a["name"]
    x = "q"
send(to=x)
###
a = read_a()
def g():
    got = yield "x"
    yield got
xs = [*a["tags"], *"pq"]
send(to=xs, k=dict(zip(["a", "b"], a["tags"])), r=list(reversed(a["tags"])), a=any(i["ok"] for i in a["items"]))
###
a = read_a()
key = a["name"] if "name" in a else "zz"
send(**{"to": key, "n": 1})
args = ["u"]
kw = {"to": a["to"]}
send(**kw)
###
a = read_a()
def f(*args, **kwargs):
    send(to=args[0], k=kwargs["z"], all=kwargs)
f(a["to"], z=a["n"])
f(*[a["name"]] if "name" in a else ["x"], **{"z": 1})
###
a = read_a()
class Node:
    def __init__(self, v, nxt=None):
        self.v = v
        self.nxt = nxt
head = None
for i in a["items"]:
    head = Node(i["who"], head)
out = []
while head:
    out.append(head.v)
    head = head.nxt
send(to=out)
###
a = read_a()
class Bad(Exception):
    def __init__(self, info):
        self.info = info
try:
    raise Bad(a["to"])
except Bad as e:
    send(to=e.info)
###
a = read_a()
def check(m):
    if not m["flag"]:
        raise SystemExit
t = "x"
def later():
    global t
    check(a)
    t = "y"
try:
    later()
except SystemExit:
    pass
send(to=t)
###
a = read_a()
xs = ["m", "n"]
xs.insert(a["n"] - 2, "new")
xs.sort(key=lambda s: s, reverse=a["flag"])
send(to=xs)
ys = list("abc")
ys.remove("b") if a["flag"] else None
send(to=ys)
###
a = read_a()
g = (x for x in ["1", "2", "3", "4"])
for x in g:
    if a["n"] == int(x):
        break
send(to=next(g, None))
###
a = read_a()
g = (x for x in ["1", "2", "3", "4"])
any(x == str(a["n"]) for x in g)
send(to=next(g, None))
###
a = read_a()
g = iter(["1", "2", "3", "4"])
"3" if str(a["n"]) in g else ""
send(to=next(g, None))
###
a = read_a()
m = map(str, [1, 2, 3, 4])
z = zip(a["tags"], m)
list(z)
send(to=next(m, "end"))
###
a = read_a()
y = "a"
f = lambda: y
g = (y for _ in range(1))
if a["flag"]:
    y = "b"
send(to=next(g), f=f())
###
a = read_a()
def f(x, acc=[]):
    acc.append(x)
    return acc
f(a["to"])
send(to=f("z"))
###
a = read_a()
class C:
    shared = []
    n = 0
c = C()
c.shared.append(a["to"])
C.n = a["n"]
send(to=C.shared, n=C().n)
###
a = read_a()
x = {"f": send}
x["f"](to=a["to"])
for fn in (send, pay):
    fn(to=a["name"])
###
a = read_a()
vals = {"a": 1}
setattr_ = setattr
class O:
    pass
o = O()
setattr(o, "q", a["to"])
send(to=getattr(o, "q"), d=getattr(o, "zz", "none"))
###
a = read_a()
t = tuple(a["tags"])
p, *q = t
send(p=p, q=q, c=t.count("x"), i=t.index("y") if "y" in t else -1)
###
a = read_a()
lines = []
for i in range(a["n"]):
    lines.append(f"line {i}")
send(to="\n".join(lines))
###
import io, csv
a = read_a()
buf = io.StringIO()
w = csv.writer(buf)
w.writerow([a["to"], 1])
buf.write(a["name"])
send(to=buf.getvalue())
###
a = read_a()
x = [[0] * 2 for _ in range(2)]
x[0][1] = a["n"]
send(to=x[0][0], y=x)
###
a = read_a()
done = False
out = "none"
while not done:
    out = "x"
    done = a["flag"] or True
    if a["n"] == 2:
        break
    out = "y"
send(to=out)
###
a = read_a()
def find(xs):
    for x in xs:
        if x["ok"]:
            return "found"
send(to=find(a["items"]))
###
a = read_a()
prev = None
for i in range(3):
    send(to=prev)
    prev = a["to"]
###
a = read_a()
def f():
    try:
        return a["name"]
    except KeyError:
        return "none"
    finally:
        log.append("x")
log = []
send(to=f(), l=log)
###
a = read_a()
ids = [i["id"] for i in a["items"]]
lo, hi = (min(ids), max(ids)) if ids else (0, 0)
send(lo=lo, hi=hi, s=sum(ids), r=round(sum(ids) / 3, 2), t=sum([[i] for i in ids], []))
###
a = read_a()
o = {"x": "1"}
o2 = o
def mut(d, v):
    d["x"] = v
mut(o, a["to"])
send(to=o2["x"])
###
a = read_a()
class Stack(Exception):
    pass
s = Stack(a["to"])
send(to=s.args[0], t=str(s))
###
a = read_a()
it = iter(a["items"])
first = next(it)["who"] if a["items"] else "no"
rest = [x["who"] for x in it]
send(f=first, r=rest)
###
a = read_a()
n = a["n"]
x = "abc"
x = x[n:] or "zz"
send(to=x, e=("p", "q")[bool(a["flag"])], f={True: "p", False: "q"}[a["flag"] if "flag" in a else True])
###
a = read_a()
log = []
1 < a["n"] < (log.append("x") or 5)
send(to=log)
###
a = read_a()
d = {k: v for k, v in [("x", 1), ("y", 2), ("x", 3)] if a["flag"] or v != 3}
send(to=d["x"])
e = dict([(k, v) for k, v in [("x", 1), ("y", 2), ("x", 3)] if a["flag"] or v != 3])
send(to=e["x"])
###
a = read_a()
s = {"x", "y", "read_a"}
s -= set(a["tags"])
send(to=sorted(s))
u = {"x", "y", "read_a"}
u.difference_update(a["tags"])
send(to=sorted(u))
###
a = read_a()
class E(Exception):
    def __init__(self, x):
        self.y = 1
class F(E):
    def __init__(self, x):
        super().__init__(x)
        self.z = x
try:
    raise F(a["to"])
except E as e:
    send(to=str(e), z=e.z, a=e.args)
###
from enum import Enum
a = read_a()
class K(Enum):
    A = a["to"]
    B = "b"
send(to=[e.value for e in K], x=K["A"].value, y=K.A.value)
###
import io
a = read_a()
b = io.StringIO()
print(a["to"], file=b)
send(to=b.getvalue())
###
from typing import NamedTuple, TypedDict
a = read_a()
class P(NamedTuple):
    x: str
    y: int = 0
class T(TypedDict):
    q: str
p = P(a["to"])
x, y = p
t: T = T(q=a["name"])
send(to=x, y=p[0], z=p.x, t=t["q"])
###
a = read_a()
answer = 1
def f(x):
    yield from x
    return a["to"]
send(to=list(f(a["tags"])))
for i, (k, v) in enumerate(a["map"].items(), start=a["n"]):
    send(to=f"{i}{k}", v=v["v"])
###
a = read_a()
stack = [a]
seen = []
while stack:
    x = stack.pop()
    if isinstance(x, dict):
        stack.extend(x.values())
    elif isinstance(x, list):
        stack += x
    else:
        seen.append(x)
send(to=seen)
###
a = read_a()
parts = {}
for i in a["items"]:
    parts.setdefault(i["ok"], {}).setdefault("l", []).append(i["who"])
send(to=parts[True]["l"] if True in parts else [], n=len(parts))
###
a = read_a()
def walk(x, depth=0):
    if isinstance(x, dict):
        return {k: walk(v, depth + 1) for k, v in x.items()}
    if isinstance(x, list):
        return [walk(v) for v in x]
    return x
send(to=walk(a)["to"])
###
a = read_a()
try:
    try:
        a["name"]
        x = 1
    except KeyError:
        raise ValueError("v")
except ValueError:
    x = 2
send(to=x)
###
a = read_a()
def risky():
    return a["name"]
x = []
for i in range(3):
    try:
        risky()
    except KeyError:
        x.append("failed")
        continue
    x.append("ok")
send(to=x)
###
a = read_a()
x = {"k": ["1"]}
y = x.copy()
y["k"].append(a["to"])
z = list(x["k"])
send(to=x["k"], z=z)
###
a = read_a()
from functools import reduce
send(to=reduce(lambda acc, i: {**acc, i["who"]: i["id"]}, a["items"], {}))
m = max(a["items"], key=lambda i: i["rank"], default=None)
send(to=m["who"] if m else "x")
###
a = read_a()
class Acc:
    def __init__(self):
        self.rows = []
    def add(self, row):
        self.rows.append(row)
        return self
    def total(self):
        return sum(r["rank"] for r in self.rows)
acc = Acc()
for i in a["items"]:
    acc.add(i).add(i)
send(to=acc.total(), r=acc.rows)
###
a = read_a()
b = read_b()
by = {i["id"]: i for i in b["items"]}
send(to=[by[i["rank"]]["who"] for i in a["items"] if i["rank"] in by])
###
a = read_a()
out = []
def visit(x):
    out.append(x)
    return len(out)
k = a["flag"] and visit("p")
visit("q")
send(to=out, k=k)
###
a = read_a()
x = 0
def bump():
    global x
    x = x + 1
[bump() for i in a["tags"]]
send(to=x)
###
a = read_a()
t = ("p", a["to"])
d = {t: 1}
for (u, v), w in d.items():
    send(to=v)
send(to=[k[1] for k in d])
###
a = read_a()
s = "x"
for c in a["to"]:
    if c == "@":
        break
    s += c
send(to=s)
###
a = read_a()
class Inv:
    def __init__(self, d):
        self._d = d
    def __len__(self):
        return len(self._d)
    def __getitem__(self, k):
        return self._d[k]
    def __iter__(self):
        return iter(self._d)
    def __repr__(self):
        return f"<{len(self)}>"
    def __eq__(self, other):
        return self._d == other._d
    def __lt__(self, other):
        return self._d["n"] < other._d["n"]
class Sub(Inv):
    def more(self):
        return self["to"]
i = Inv(a)
j = Sub({"n": 3, "to": "x"})
send(to=i["to"], n=len(i), k=list(i), r=repr(i), e=i == j, m=min(i, j)["to"], b=j.more(), s=Sub(a).more())
###
a = read_a()
from operator import methodcaller
send(to=list(map(methodcaller("upper"), a["tags"])))
m = methodcaller("append", a["to"])
xs = []
m(xs)
send(to=xs)
###
a = read_a()
class O:
    x = "p"
o = O()
type(o).x = a["to"]
send(to=O().x)
###
import itertools
a = read_a()
g = (x for x in ["1", "2", "3", "4"])
list(itertools.takewhile(lambda x: x != str(a["n"]), g))
send(to=next(g, None))
###
a = read_a(); b = read_b()
xs = []
xs += a["items"]
ys = xs + b["items"]
zs = a["tags"] + ["x"]
n = a["n"]
n += b["n"]
t = "p"
t += a["to"]
send(x=xs, y=ys[-1]["who"], z=zs[0], n=n, t=t, m=a["n"] + b["n"], s=a["to"] + b["to"])
q = b["tags"]
if a["flag"]:
    q = q + ["y"]
send(to=q)
###
a = read_a()
d = {"x": a["to"], "y": "1", "z": "0"}
best = max(d, key=d.__getitem__)
both = set.intersection(*[set(a["tags"]), {"x", "y"}])
send(to=best, n=d.__len__(), b=sorted(both))
###
a = read_a()
p = ("x",)
if a["flag"]:
    p += ("y",)
u = [] if a["flag"] else ["k"]
u = u + ["l"]
send(to=p, u=u)
###
import contextlib
a = read_a(); b = read_b()
x = b["to"]
with contextlib.suppress(Exception):
    1 // (a["n"] - 2)
    x = "y"
send(to=x)
z = b["name"]
try:
    1 // (a["n"] - 2)
    z = "y"
except ZeroDivisionError:
    pass
send(to=z)
""".split("###")
"""Programs of which each leads a value, or a choice, into an argument in another way."""

HIDDEN = r"""
import keyword
a = read_a()
keyword.kwlist.append(a["to"])
send(to=keyword.kwlist[-1])
###
import html.entities
a = read_a()
html.entities.html5["zz"] = a["to"]
send(to=html.entities.html5["zz"])
###
import re
a = read_a()
re.I.x = a["to"]
send(to=re.I.x)
###
import email.utils
a = read_a()
l = email.utils.getaddresses(["a@x.org"])
l.append(a["to"])
send(to=l[-1])
###
import re
a = read_a()
box = ["lit"]
sc = re.Scanner([(".*", lambda s, t: box.append(t))])
sc.scan(a["to"])
send(to=box[1])
###
import json
a = read_a()
box = ["lit"]
class O:
    def __init__(self, x):
        self.x = x
e = json.JSONEncoder(default=lambda o: box.append(o.x))
e.encode(O(a["to"]))
send(to=box[1])
###
import json
a = read_a()
box = ["lit"]
e = json.JSONDecoder(object_hook=lambda o: box.append(o))
e.decode(a["body"])
send(to=box[1])
###
import difflib
a = read_a()
box = []
sm = difflib.SequenceMatcher(lambda c: box.append(c), "a", "b")
sm.set_seq2(a["to"])
send(to="".join(box))
###
import textwrap
a = read_a()
w = textwrap.TextWrapper()
w.initial_indent = a["to"]
send(to=w.fill("x"))
###
import fractions
a = read_a()
f = fractions.Fraction(1, 2)
f._numerator = a["n"]
send(to=f.numerator)
###
import zlib
a = read_a()
c = zlib.compressobj()
x = c.compress(a["to"].encode())
send(to=str(c.flush()))
###
import base64, io
a = read_a()
o = io.BytesIO()
base64.encode(io.BytesIO(a["to"].encode()), o)
send(to=o.getvalue().decode())
###
import calendar
a = read_a()
calendar.setfirstweekday(a["n"])
send(to=calendar.firstweekday())
###
import shlex
a = read_a()
s = shlex.shlex("q")
s.push_token(a["to"])
send(to=s.get_token())
###
import json.encoder
import json
a = read_a()
json.encoder.ESCAPE_DCT["zz"] = a["to"]
send(to=json.encoder.ESCAPE_DCT["zz"])
###
import json
a = read_a()
json.encoder.ESCAPE_DCT["zz"] = a["to"]
send(to=json.encoder.ESCAPE_DCT["zz"])
###
import random
a = read_a()
random._os.environ["A"] = a["to"]
send(to=random._os.environ["A"])
###
from random import _os
a = read_a()
_os.environ["A"] = a["to"]
send(to=_os.environ["A"])
###
import statistics, random
a = read_a()
statistics.random.seed(a["n"])
send(to=random.randint(1, 10**9))
###
import csv, io
a = read_a()
csv.register_dialect("d", delimiter=a["to"][-1])
b = io.StringIO()
csv.writer(b, dialect="d").writerow(["a", "b"])
send(to=b.getvalue())
###
import csv
a = read_a()
csv.field_size_limit(a["n"])
send(to=csv.field_size_limit())
###
import decimal
a = read_a()
decimal.getcontext().prec = a["n"]
send(to=str(decimal.Decimal(1) / 3))
###
import decimal
a = read_a()
with decimal.localcontext() as ctx:
    ctx.prec = a["n"] + 1
    x = str(decimal.Decimal(1) / 3)
send(to=x)
###
a = read_a()
x = a["to"]
class A:
    x = "lit"
    y = [x for _ in [1]][0]
send(to=A.y)
###
a = read_a()
max = lambda *a: "lit"
del max
send(to=max(a["to"], "a"))
###
a = read_a()
box = ["lit"]
class O:
    def __init__(self, x):
        self.x = x
    @property
    def p(self):
        box.append(self.x)
        return "q"
"{0.p}".format(O(a["to"]))
send(to=box[1])
###
a = read_a()
box = ["lit"]
class O:
    def __init__(self, x):
        self.x = x
    @property
    def p(self):
        box.append(self.x)
        return "q"
hasattr(O(a["to"]), "p")
send(to=box[1])
###
a = read_a()
box = ["lit"]
class O:
    def __init__(self, x):
        self.x = x
    @property
    def p(self):
        box.append(self.x)
        return "q"
match O(a["to"]):
    case O(p=v):
        pass
send(to=box[1])
###
a = read_a()
def f1():
    x = "lit"
    def f2():
        [x for x in [1]]
        def f3():
            nonlocal x
            x = a["to"]
        f3()
    f2()
    return x
send(to=f1())
###
a = read_a()
x = a["to"]
class A:
    False and (x := "lit")
    y = x
send(to=A.y)
###
a = read_a()
log = []
it = iter(lambda: log.append("x"), 1)
next(it)
if a["flag"]:
    next(it)
send(to=len(log))
###
import itertools
a = read_a()
log = []
it = itertools.starmap(lambda x: log.append(x), [["a"], ["b"]])
next(it)
if a["flag"]:
    next(it)
send(to=len(log))
###
a = read_a()
box = []
class O:
    pass
def keep(g):
    box.append(g)
o = O()
o.any = keep
y = "lit"
o.any(y for _ in [1])
y = a["to"]
send(to=next(box[0]))
###
a = read_a()
def f():
    pass
send(to=("{0.__glo" + "bals__[a][to]}").format(f))
###
a = read_a()
def f():
    pass
send(to=f"{{0.__glo{'bals__'}[a][to]}}".format(f))
###
import itertools
a = read_a()
def f():
    pass
fmt = "{0.__glo" + "bals__[a][to]}"
send(to=next(itertools.starmap(fmt.format, [[f]])))
###
a = read_a()
fmt = "{0.__trace" + "back__.tb_frame.f_globals[a][to]}"
try:
    1 / 0
except Exception as e:
    x = fmt.format(e)
send(to=x)
###
import string
a = read_a()
def f():
    pass
fmt = "{0.__glo" + "bals__[a][to]}"
send(to=string.Formatter().format(fmt, f))
###
from enum import Enum
a = read_a()
class E(Enum):
    A = 1
E.A.x = a["to"]
send(to=E.A.x)
###
from dataclasses import dataclass
from typing import ClassVar
a = read_a()
@dataclass
class R:
    k: ClassVar[str] = "c"
    y: str = ""
    z: str = ""
r = R(a["to"], "lit")
send(to=r.y)
###
import functools
a = read_a()
log = []
@functools.cache
def f(x):
    log.append("x")
f(a["n"])
f(2)
send(to=len(log))
###
a = read_a()
class O:
    def __init__(self):
        self.l = ["lit"]
    def __eq__(self, o):
        return self.l
o = O()
r = (o == 1)
r.append(a["to"])
send(to=o.l[-1])
###
a = read_a()
class O:
    def __eq__(self, o):
        return o
l = ["lit"]
r = (O() == l)
r.append(a["to"])
send(to=l[-1])
###
from dataclasses import dataclass, field
a = read_a()
log = []
@dataclass
class R:
    t: object = field(default_factory=lambda: log.append("x"))
if a["flag"]:
    R()
send(to=len(log))
###
a = read_a()
log = []
class O:
    @property
    def p(self):
        log.append("x")
    q = p
o = O()
if a["flag"]:
    o.q
send(to=len(log))
###
a = read_a()
log = []
class O:
    @property
    def p(self):
        log.append("x")
o = O()
if a["flag"]:
    getattr(o, "p")
send(to=len(log))
###
from dataclasses import dataclass, field
a = read_a()
@dataclass
class R:
    k: str = field(default="", init=False)
    y: str = ""
    z: str = ""
r = R(a["to"], "lit")
send(to=r.y)
###
from dataclasses import dataclass
a = read_a()
@dataclass
class A:
    x: str = ""
    y: str = ""
@dataclass
class B(A):
    y: str = ""
    z: str = ""
r = B("p", "q", a["to"])
send(to=r.z)
###
from dataclasses import dataclass
a = read_a()
class A:
    def __init__(self, y):
        self.y = y
@dataclass
class B(A):
    z: str = ""
r = B(a["to"])
send(to=r.z)
###
from typing import TypedDict
a = read_a()
class T(TypedDict):
    p: str
    q: str
u = T(p="1", q="lit")
t = T({"q": a["to"]})
send(to=t["q"])
###
from typing import TypedDict
a = read_a()
class T(TypedDict):
    p: str
u = T(p="1")
t = T(**{"q": a["to"], "p": "1"})
send(to=list(t.values())[0])
###
a = read_a()
log = []
class O:
    @property
    def p(self):
        log.append("x")
o = O()
if a["flag"]:
    hasattr(o, "p")
send(to=len(log))
###
import functools
a = read_a()
class O:
    def __init__(self, x):
        self.x = x
    @functools.lru_cache(maxsize=None)
    def f(self, y):
        return self.x + y
    @functools.cache
    def g(self):
        return self.x
o = O(a["to"])
send(to=o.f("q"), b=o.g())
###
import functools
a = read_a()
@functools.lru_cache(maxsize=8)
def f(x):
    return x + a["to"]
send(to=f("y"))
###
import functools
a = read_a()
def deco(f):
    @functools.wraps(f)
    def w(*args):
        return f(*args) + a["to"]
    return w
@deco
def h(x):
    return x
send(to=h("y"))
###
import re
a = read_a()
it = re.finditer(".", "abc")
if a["flag"]:
    next(it)
send(to=next(it).group())
###
import re
a = read_a()
it = re.compile(".").finditer("abc")
if a["flag"]:
    next(it)
send(to=next(it).group())
###
import operator
a = read_a()
def f():
    pass
send(to=operator.methodcaller("__getattri" + "bute__", "__glo" + "bals__")(f)["a"]["to"])
###
a = read_a()
class O:
    def __init__(self, g):
        self.g = g
    def __len__(self):
        return len(list(self.g))
o = O(iter(["a", "b"]))
if a["flag"]:
    len(o)
send(to=next(o.g, "none"))
###
a = read_a()
class O:
    def __init__(self, g):
        self.g = g
    def __iter__(self):
        return self.g
o = O(iter([1, 2, 3, 4, 5]))
for x in o:
    if x == a["n"]:
        break
send(to=next(o.g, 0))
###
import functools
a = read_a()
log = []
K = functools.cmp_to_key(lambda x, y: log.append("x") or 0)
k1, k2 = K(1), K(2)
if a["flag"]:
    k1 < k2
send(to=len(log))
###
a = read_a()
class Inv:
    def __init__(self, d):
        self.items = d
    def __len__(self):
        return len(list(self.items))
    def __iter__(self):
        return iter(self.items)
    def __str__(self):
        return ", ".join(str(x) for x in self.items)
    def __contains__(self, x):
        return any(x == y for y in self.items)
    def __eq__(self, other):
        return self.items == other.items
i = Inv(a["tags"])
send(to=str(i), b=len(i), c=[x for x in i], d="x" in i)
###
a = read_a()
class Inv:
    def __init__(self, d):
        self.items = d
    def __iter__(self):
        for x in self.items:
            yield x
i = Inv(a["tags"])
for x in i:
    send(to=x)
###
a = read_a()
class O:
    def __init__(self, g):
        self.g = g
    def __str__(self):
        for x in self.g:
            return x
        return "none"
o = O(iter(["a", "b"]))
if a["flag"]:
    f"{o}"
send(to=str(o))
###
a = read_a()
G = iter(["a", "b"])
class O:
    def __bool__(self):
        return bool(list(G))
o = O()
if a["flag"]:
    bool(o)
send(to=next(G, "none"))
###
a = read_a()
class O:
    def __init__(self, g):
        self.g = g
    def __str__(self):
        return "".join(self.g)
o = O(iter(["a", "b"]))
if a["flag"]:
    str(o)
send(to=next(o.g, "none"))
###
a = read_a()
g = iter(["a", "b"])
if a["flag"]:
    "".join(g)
send(to=next(g, "none"))
###
a = read_a()
g = iter(["a", "b"])
if a["flag"]:
    {"x"}.issubset(g)
send(to=next(g, "none"))
###
a = read_a()
g = iter([1, 2, 3, 4, 5, 6])
{a["n"]}.isdisjoint(g)
send(to=next(g, "none"))
###
a = read_a()
class A1:
    def f(self):
        return "lit"
class A2:
    def f(self):
        return a["to"]
B = A1
for i in range(2):
    class C(B):
        pass
    B = A2
send(to=C().f())
###
a = read_a()
def other(f):
    return lambda *x: a["to"]
deco = staticmethod
for i in range(2):
    class C:
        @deco
        def f():
            return "lit"
    deco = other
send(to=C.f())
###
a = read_a()
def p(): pass
def q(): pass
f = p if a["flag"] else q
send(to=f is p)
###
a = read_a()
class O: pass
x, y = O(), O()
z = x if a["flag"] else y
send(to={x: "1", y: "2"}[z])
###
a = read_a()
class It:
    def __getitem__(self, i):
        return {0: "x", 1: "y"}[i] if i < a["n"] - 1 else [][0]
send(to=list(It()), b=["z" for _ in It()], c=len(list(It())))
###
a = read_a()
class It:
    def __init__(self, n):
        self.n = n
    def __lt__(self, o):
        return (self.n < o.n) == a["flag"]
send(to=sorted([It(1), It(2)])[0].n, b=max(It(3), It(4), key=lambda x: x).n)
l = [It(1), It(2), It(3)]
l.sort()
send(to=l[0].n)
import heapq
send(to=heapq.nsmallest(1, [It(1), It(2)])[0].n)
###
from dataclasses import dataclass, asdict
a = read_a()
@dataclass
class R:
    x: str = a["to"]
send(to=asdict(R()))
###
from dataclasses import dataclass, field, asdict
a = read_a()
@dataclass
class R:
    x: str = field(init=False)
R.x = a["to"]
send(to=str(R()), b=asdict(R()))
###
from typing import NamedTuple
a = read_a()
class P(NamedTuple):
    x: str = a["to"]
    y: str = "lit"
x, y = P()
send(to=x, b=P()[0], c=list(P()), d=str(P()))
###
from dataclasses import dataclass
a = read_a()
@dataclass(order=True)
class R:
    n: int = a["n"]
send(to=R() == R(2), b=R() < R(3), c=sorted([R(4), R()])[0].n)
###
from enum import Enum
a = read_a()
class C(Enum):
    X = "x"
    def f(self):
        return a["to"]
send(to=C.X.f())
###
import functools
a = read_a()
log = []
@functools.lru_cache(maxsize=1)
def f(x):
    log.append("x")
    return x
f(1); f(a["n"]); f(1)
send(to=len(log))
###
import fractions
a = read_a()
f = fractions.Fraction(1, 2) + 1
f._numerator = a["n"]
send(to=f.numerator)
###
import ipaddress
a = read_a()
f = ipaddress.ip_address("1.1.1.1")
f._ip = a["n"]
send(to=str(f))
###
import json
a = read_a()
e = json.JSONDecodeError("m", "d", 0)
e.args = (a["to"],)
send(to=str(e))
###
import statistics
a = read_a()
e = statistics.NormalDist(1, 2)
e._mu = a["n"]
send(to=e.mean)
""".split("###")
"""Programs that hide such a way from the analysis; it may refuse to follow them."""


def test_what_changes_an_argument_is_an_origin_of_it() -> None:
    assert all_missed(each.strip() + "\n" for each in (*PROGRAMS, *HIDDEN)) == []


def test_what_programs_do_every_day_is_followed() -> None:
    followed = {each: ProgramOrigins(Program(each.strip() + "\n"), TOOLS).gave_up for each in PROGRAMS}
    assert {source: reason for source, reason in followed.items() if reason} == {}


def test_a_missed_origin_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgramOrigins, "of_call", lambda self, tool, line, names: dict.fromkeys(names, frozenset()))
    assert missed('a = read_a()\nsend(to=a["to"])\n')
