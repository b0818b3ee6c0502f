"""Short programs of the kind that models write: the standard library. Each with the answer that CPython gives."""

from __future__ import annotations

from typing import Any

ABSENT = "absent"
"""What a program answers whose module, or the data for it, is not there."""
NEED_FILES = ("zoneinfo", "modules that were not preloaded")
"""They read files of the standard library while they run."""

SNIPPETS: dict[str, tuple[str, Any]] = {
    "dataclasses": ("""
from dataclasses import asdict, dataclass, field, replace
@dataclass(frozen=True, order=True)
class Item:
    price: float
    name: str = "?"
    tags: list = field(default_factory=list, compare=False)
    def __post_init__(self):
        if self.price < 0: raise ValueError("price")
a = Item(2.5, "pen", ["x"])
answer = [asdict(a), replace(a, price=1.0) < a, repr(Item(1.0)), a == Item(2.5, "pen")]
""", [{"price": 2.5, "name": "pen", "tags": ["x"]}, True, "Item(price=1.0, name='?', tags=[])", True]),
    "enum": ("""
from enum import Enum, Flag, IntEnum, auto
class Level(IntEnum):
    LOW = 1
    HIGH = 2
class Right(Flag):
    READ = auto()
    WRITE = auto()
class Colour(Enum):
    RED = "r"
    @property
    def upper(self): return self.value.upper()
answer = [Level(2).name, Level.HIGH > Level.LOW, Right.WRITE in (Right.READ | Right.WRITE), Colour("r").upper,
          [c.name for c in Colour], Level["LOW"]]
""", ["HIGH", True, True, "R", ["RED"], 1]),
    "typing": ("""
from __future__ import annotations
from typing import Any, Generic, Literal, NamedTuple, Optional, Protocol, TypedDict, TypeVar, get_type_hints
T = TypeVar("T")
class Stack(Generic[T]):
    def __init__(self) -> None: self.items: list[T] = []
    def push(self, item: T) -> Stack[T]: self.items.append(item); return self
class Movie(TypedDict, total=False):
    name: str
class Pair(NamedTuple):
    a: int
    b: Optional[str] = None
def f(x: Literal["a"], y: dict[str, Any] | None = None) -> list[int]: return []
answer = [Stack[int]().push(1).items, Movie(name="x"), Pair(1), Pair(1)._asdict(), sorted(get_type_hints(f))]
""", [[1], {"name": "x"}, [1, None], {"a": 1, "b": None}, ["return", "x", "y"]]),
    "re": ("""
import re
log = "2024-05-01 ERROR disk=91% host=a1\\n2024-05-02 INFO disk=12% host=b2"
pattern = re.compile(r"(?P<day>[\\d-]+) (?P<level>\\w+) disk=(?P<disk>\\d+)%", re.M)
answer = [[m.groupdict() for m in pattern.finditer(log)], re.sub(r"(\\w)=(\\w)", r"\\1:\\2", "a=b"),
          re.split(r"[,;]\\s*", "a, b;c"),
          re.findall(r"(?i)[aeiou]", "Upper"), bool(re.fullmatch(r"[\\w.]+@\\w+\\.com", "a.b@c.com"))]
""", [[{"day": "2024-05-01", "level": "ERROR", "disk": "91"}, {"day": "2024-05-02", "level": "INFO", "disk": "12"}],
      "a:b", ["a", "b", "c"], ["U", "e"], True]),
    "datetime": ("""
from datetime import date, datetime, timedelta, timezone
d = datetime(2024, 2, 28, 23, 30, tzinfo=timezone.utc)
answer = [(d + timedelta(days=1, hours=1)).isoformat(), (date(2024, 12, 25) - date(2024, 5, 1)).days,
          d.strftime("%A %d.%m.%y"),
          datetime.strptime("01/05/2024 07:08", "%d/%m/%Y %H:%M").isoformat(),
          date.fromisoformat("2024-02-29").isocalendar()[1],
          d.astimezone(timezone(timedelta(hours=2))).hour, timedelta(seconds=3725).total_seconds(), d.timestamp()]
""", ["2024-03-01T00:30:00+00:00", 238, "Wednesday 28.02.24", "2024-05-01T07:08:00", 9, 1, 3725.0, 1709163000.0]),
    "zoneinfo": ("""
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError
try:
    d = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    answer = [d.isoformat(), d.astimezone(ZoneInfo("America/New_York")).hour, d.tzname()]
except ZoneInfoNotFoundError:
    answer = "absent"
""", ["2024-07-01T12:00:00+02:00", 6, "CEST"]),
    "calendar": ("""
import calendar
answer = [calendar.monthrange(2024, 2), calendar.isleap(1900), calendar.day_name[calendar.weekday(2024, 5, 1)],
          calendar.month(2024, 2).splitlines()[2], list(calendar.month_abbr)[1:3]]
""", [[3, 29], False, "Wednesday", "          1  2  3  4", ["Jan", "Feb"]]),
    "time": ("""
import time
began = time.perf_counter()
time.sleep(0.01)
took = time.perf_counter() - began
answer = [0.009 < took < 60, time.strftime("%Y-%m-%d", time.gmtime(0)), time.time() > 1.7e9, time.monotonic() >= 0]
""", [True, "1970-01-01", True, True]),
    "csv over StringIO": ("""
import csv, io
rows = list(csv.DictReader(io.StringIO('name,age\\n"Ann, Jr",30\\nBo,25\\n')))
out = io.StringIO()
writer = csv.DictWriter(out, fieldnames=["name", "age"], lineterminator="\\n")
writer.writeheader()
writer.writerows(sorted(rows, key=lambda r: int(r["age"])))
answer = [rows[0], out.getvalue()]
""", [{"name": "Ann, Jr", "age": "30"}, 'name,age\nBo,25\n"Ann, Jr",30\n']),
    "json": ("""
import json
text = json.dumps({"b": [1, 2.5, None, True], "a": "ü"}, sort_keys=True, indent=1, ensure_ascii=False)
try: json.loads("{bad}")
except json.JSONDecodeError as error: where = error.pos
answer = [text, json.loads(text), where, json.dumps({1, 2}, default=list), json.loads("1.10", parse_float=str)]
""", ['{\n "a": "ü",\n "b": [\n  1,\n  2.5,\n  null,\n  true\n ]\n}', {"b": [1, 2.5, None, True], "a": "ü"}, 1,
      "[1, 2]", "1.10"]),
    "statistics": ("""
import statistics as s
data = [2, 4, 4, 4, 5, 5, 7, 9]
answer = [s.mean(data), s.median(data), s.mode(data), s.pstdev(data), s.quantiles(data, n=4),
          round(s.correlation(data, range(8)), 3),
          s.fmean([1, 2]), list(s.linear_regression([1, 2, 3], [2, 4, 6]))]
""", [5, 4.5, 4, 2.0, [4.0, 4.5, 6.5], 0.927, 1.5, [2.0, 0.0]]),
    "decimal": ("""
from decimal import ROUND_HALF_UP, Decimal, getcontext
getcontext().prec = 30
answer = [str(Decimal("0.1") + Decimal("0.2")), str(Decimal(1) / 7),
          str(Decimal("2.675").quantize(Decimal("0.01"), ROUND_HALF_UP)),
          str(sum(map(Decimal, ("19.99", "5.01")))), float(Decimal("1.5"))]
""", ["0.3", "0.142857142857142857142857142857", "2.68", "25.00", 1.5]),
    "fractions": ("""
from fractions import Fraction
f = Fraction(1, 3) + Fraction("0.25")
answer = [str(f), f.numerator, float(Fraction(1, 8)), str(Fraction(3.14159).limit_denominator(100)), Fraction(2,
          4) == 0.5]
""", ["7/12", 7, 0.125, "311/99", True]),
    "math and cmath": ("""
import cmath, math
answer = [math.sqrt(2), math.gcd(48, 18), math.lcm(4, 6), math.comb(5, 2), math.prod([2, 3]),
          math.isclose(0.1 + 0.2, 0.3),
          math.floor(-1.5), math.hypot(3, 4), round(math.degrees(math.pi)), abs(cmath.sqrt(-4)),
          math.factorial(20), math.inf > 1e308]
""", [1.4142135623730951, 6, 12, 10, 6, True, -2, 5.0, 180, 2.0, 2432902008176640000, True]),
    "collections": ("""
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple
words = "a b a c b a".split()
groups = defaultdict(list)
for w in words: groups[len(groups[w])].append(w)
d = deque([1, 2, 3], maxlen=3)
d.appendleft(0)
d.rotate(1)
P = namedtuple("P", "x y", defaults=[5])
o = OrderedDict(a=1, b=2)
o.move_to_end("a")
answer = [Counter(words).most_common(1), dict(Counter("aab") - Counter("ab")), list(d), P(1)._asdict(), list(o),
          ChainMap({"a": 1}, {"a": 2, "b": 3})["b"]]
""", [[["a", 3]], {"a": 1}, [2, 0, 1], {"x": 1, "y": 5}, ["b", "a"], 3]),
    "itertools": ("""
from itertools import accumulate, chain, combinations, count, cycle, groupby, islice, pairwise, permutations
from itertools import product, starmap, takewhile, zip_longest
answer = [list(combinations("abc", 2))[1], len(list(permutations(range(4)))), list(product("ab", [1]))[1],
          list(accumulate([1, 2, 3])),
          [[k, len(list(g))] for k, g in groupby("aabccc")], list(chain([1], [2])), list(islice(count(5, 5), 3)),
          list(islice(cycle("ab"), 3)),
          list(pairwise([1, 2, 3])), list(takewhile(lambda n: n < 3, count())), list(zip_longest([1], [2, 3])),
          list(starmap(pow, [(2, 3)]))]
""", [["a", "c"], 24, ["b", 1], [1, 3, 6], [["a", 2], ["b", 1], ["c", 3]], [1, 2], [5, 10, 15], ["a", "b", "a"],
      [[1, 2], [2, 3]], [0, 1, 2], [[1, 2], [None, 3]], [8]]),
    "functools": ("""
from functools import cached_property, cmp_to_key, partial, reduce, singledispatch, total_ordering
@singledispatch
def show(x): return "?"
@show.register
def _(x: int): return "int"
@show.register(list)
def _(x): return "list"
@total_ordering
class V:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __lt__(self, o): return self.v < o.v
    @cached_property
    def twice(self): return self.v * 2
answer = [reduce(lambda a, b: a * b, [1, 2, 3, 4]), partial(int, base=2)("101"), show(1), show([]), show(""),
          V(2) >= V(1), V(3).twice,
          sorted([3, 1], key=cmp_to_key(lambda a, b: a - b))]
""", [24, 5, "int", "list", "?", True, 6, [1, 3]]),
    "operator": ("""
import operator as op
answer = [op.itemgetter(1, 0)("ab"), op.attrgetter("real")(5), op.methodcaller("upper")("a"), op.add(1, 2),
          op.contains([1], 1)]
""", [["b", "a"], 5, "A", 3, True]),
    "heapq and bisect": ("""
import bisect, heapq
h = [5, 1, 4]
heapq.heapify(h)
heapq.heappush(h, 0)
s = [1, 3, 5]
bisect.insort(s, 4)
graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2}, "c": {}}
seen, queue = {}, [(0, "a")]
while queue:
    far, node = heapq.heappop(queue)
    if node not in seen:
        seen[node] = far
        for to, w in graph[node].items(): heapq.heappush(queue, (far + w, to))
answer = [heapq.heappop(h), heapq.nlargest(2, h), list(heapq.merge([1, 4], [2])), s, bisect.bisect_left(s, 3), seen]
""", [0, [5, 4], [1, 2, 4], [1, 3, 4, 5], 1, {"a": 0, "b": 1, "c": 3}]),
    "copy": ("""
import copy
a = {"x": [1, 2]}
b, c = copy.copy(a), copy.deepcopy(a)
a["x"].append(3)
answer = [b["x"], c["x"], b["x"] is a["x"]]
""", [[1, 2, 3], [1, 2], True]),
    "base64, binascii and zlib": ("""
import base64, binascii, gzip, zlib
data = b"hello " * 100
answer = [base64.b64encode(b"h\\xff").decode(), base64.urlsafe_b64decode("_w==").hex(), binascii.crc32(b"x"),
          zlib.decompress(zlib.compress(data)) == data,
          gzip.decompress(gzip.compress(data)) == data, bytes.fromhex("00ff").hex(" ")]
""", ["aP8=", "ff", 2363233923, True, True, "00 ff"]),
    "hashlib and hmac": ("""
import hashlib, hmac
answer = [hashlib.sha256(b"a").hexdigest()[:16], hashlib.md5(b"a").hexdigest(), hmac.new(b"k", b"m",
          "sha256").hexdigest()[:16],
          hmac.compare_digest("a", "a"), hashlib.blake2b(b"a", digest_size=4).hexdigest()]
""", ["ca978112ca1bbdca", "0cc175b9c0f1b6a831c399e269772661", "b60090e3052297ae", True, "ca234c55"]),
    "uuid and secrets": ("""
import secrets, uuid
u = uuid.uuid4()
answer = [u.version, str(uuid.uuid5(uuid.NAMESPACE_DNS, "a.b")), len(secrets.token_hex(8)), secrets.choice([1]),
          uuid.UUID(str(u)) == u]
""", [4, "0e7af403-ee0d-594b-ab31-08b1c687f2fa", 16, 1, True]),
    "random": ("""
import random
r = random.Random(42)
cards = list(range(5))
r.shuffle(cards)
answer = [r.random() < 1, sorted(cards), len(random.sample(range(100), 3)), random.choice("a"),
          1 <= random.randint(1, 6) <= 6,
          random.Random(7).random() == random.Random(7).random(), random.choices("ab", weights=[1, 0], k=2)]
""", [True, [0, 1, 2, 3, 4], 3, "a", True, True, ["a", "a"]]),
    "string": ("""
import string
t = string.Template("$who owes $$${amount}")
answer = [t.substitute(who="Bo", amount=5), t.safe_substitute(who="Al"), string.ascii_lowercase[:3],
          string.capwords("a bc"), "{0:>4}|{n}".format(1, n=2)]
""", ["Bo owes $5", "Al owes $${amount}", "abc", "A Bc", "   1|2"]),
    "textwrap, pprint and difflib": ("""
import difflib, pprint, textwrap
answer = [textwrap.fill("the quick brown fox", 10), textwrap.dedent("  a\\n  b"),
          textwrap.shorten("hello big world", 11), pprint.pformat({"b": 1, "a": [1]}),
          difflib.get_close_matches("appel", ["apple", "pear"]), list(difflib.ndiff(["a"], ["b"]))]
""", ["the quick\nbrown fox", "a\nb", "hello [...]", "{'a': [1], 'b': 1}", ["apple"], ["- a", "+ b"]]),
    "urllib.parse": ("""
from urllib.parse import parse_qs, quote, unquote, urlencode, urljoin, urlparse
u = urlparse("https://a.b:8080/p/q?x=1&x=2#f")
answer = [u.hostname, u.port, parse_qs(u.query), quote("a b/ü"), unquote("%C3%BC"), urlencode({"q": "a&b"}),
          urljoin("https://a/b/", "../c")]
""", ["a.b", 8080, {"x": ["1", "2"]}, "a%20b/%C3%BC", "ü", "q=a%26b", "https://a/c"]),
    "html and xml": ("""
import html, html.parser
import xml.etree.ElementTree as ET
class Links(html.parser.HTMLParser):
    found = []
    def handle_starttag(self, tag, attrs): self.found += [v for k, v in attrs if k == "href"]
Links().feed('<p><a href="/x?a=1&amp;b">y</a>')
root = ET.fromstring("<r><i n='1'>a</i><i n='2'/></r>")
answer = [html.escape("<a & 'b'>"), html.unescape("&eacute;&#33;"), Links.found,
          [i.get("n") for i in root.iter("i")], ET.tostring(root[1]).decode()]
""", ["&lt;a &amp; &#x27;b&#x27;&gt;", "é!", ["/x?a=1&b"], ["1", "2"], '<i n="2" />']),
    "logging and warnings": ("""
import io, logging, warnings
out = io.StringIO()
logging.basicConfig(stream=out, level=logging.INFO, format="%(levelname)s:%(message)s")
logging.getLogger("x").info("n=%d", 5)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old", DeprecationWarning)
answer = [out.getvalue(), str(caught[0].message)]
""", ["INFO:n=5\n", "old"]),
    "io, pathlib and redirected output": ("""
import io, contextlib, pathlib
out = io.StringIO()
with contextlib.redirect_stdout(out): print("a", 1, sep="-", end="!")
b = io.BytesIO(b"abc")
b.seek(1)
p = pathlib.PurePosixPath("/a/b.tar.gz")
answer = [out.getvalue(), b.read().decode(), p.stem, p.suffix, str(p.parent / "c"), list(io.StringIO("x\\ny"))]
""", ["a-1!", "bc", "b.tar", ".gz", "/a/c", ["x\n", "y"]]),
    "struct, array and memoryview": ("""
import array, struct
a = array.array("i", [1, 2])
m = memoryview(bytearray(b"abc"))
m[0] = 122
answer = [struct.pack(">HI", 1, 2).hex(), struct.unpack("<d", struct.pack("<d", 1.5)), sum(a),
          m.tobytes().decode(), (5).to_bytes(2, "big").hex()]
""", ["000100000002", [1.5], 3, "zbc", "0005"]),
    "inspect, ast and eval": ("""
import ast, inspect
def f(a, b=2, *c, d): "doc"
tree = ast.parse("1 + x * 2")
scope = {}
exec("def g(n): return n + 1", scope)
answer = [list(inspect.signature(f).parameters), ast.literal_eval("{'a': [1, (2,)]}"), eval("a + 1", {"a": 2}),
          scope["g"](1),
          sorted({type(n).__name__ for n in ast.walk(tree) if isinstance(n, ast.operator)}), inspect.getdoc(f)]
""", [["a", "b", "c", "d"], {"a": [1, [2]]}, 3, 2, ["Add", "Mult"], "doc"]),
    "weakref, contextvars and graphlib": ("""
import contextvars, graphlib, weakref
class C: pass
c = C()
ref = weakref.ref(c)
var = contextvars.ContextVar("v", default=1)
token = var.set(2)
inside = var.get()
var.reset(token)
del c
answer = [ref() is None, inside, var.get(), list(graphlib.TopologicalSorter({"c": ["b"], "b": ["a"]}).static_order())]
""", [True, 2, 1, ["a", "b", "c"]]),
    "traceback": ("""
import sys, traceback
try: int("x")
except ValueError as error:
    error.add_note("while reading")
    answer = [traceback.format_exc().strip().splitlines()[-2:], sys.exc_info()[0].__name__,
          traceback.extract_tb(error.__traceback__)[0].lineno]
""", [["ValueError: invalid literal for int() with base 10: 'x'", "while reading"], "ValueError", 3]),
    "encodings": ("""
import codecs
answer = [[t.encode(e).hex() for t, e in (("ü", "latin-1"), ("€", "cp1252"), ("a", "utf-16-le"), ("a", "utf-8-sig"))],
          b"\\xff".decode("ascii", "replace"), codecs.decode("uryyb", "rot13"), "é".encode("ascii",
          "xmlcharrefreplace").decode()]
""", [["fc", "80", "6100", "efbbbf61"], "\ufffd", "hello", "&#233;"]),
    "unicodedata and ipaddress": ("""
import ipaddress, unicodedata
net = ipaddress.ip_network("10.0.0.0/30")
answer = [unicodedata.normalize("NFKD", "é").encode("ascii", "ignore").decode(), unicodedata.name("ß"),
          [str(h) for h in net.hosts()],
          ipaddress.ip_address("10.0.0.1") in net]
""", ["e", "LATIN SMALL LETTER SHARP S", ["10.0.0.1", "10.0.0.2"], True]),
    "sqlite3 in memory": ("""
try:
    import sqlite3
except ImportError:
    answer = "absent"
else:
    db = sqlite3.connect(":memory:")
    db.execute("create table t (name text, n int)")
    db.executemany("insert into t values (?, ?)", [("a", 1), ("b", 2), ("a", 3)])
    answer = db.execute("select name, sum(n) from t group by name order by name").fetchall()
""", [["a", 4], ["b", 2]]),
    "modules that were not preloaded": ("""
import colorsys, tomllib, unittest, wave
answer = [tomllib.loads("a = [1]"), colorsys.rgb_to_hsv(1.0, 0.0, 0.0), wave.__name__,
          issubclass(unittest.TestCase, object)]
""", [{"a": [1]}, [0.0, 1.0, 1.0], "wave", True]),
}  # fmt: skip
