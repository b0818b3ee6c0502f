"""Names the parts of Python whose data flow is known. What stands here can be followed, and nothing else can."""

from __future__ import annotations

import sys

SCALAR = frozenset(
    """
    abs all any ascii bin bool bytes chr complex divmod float format hash hex int isinstance issubclass len oct ord
    pow print repr round str callable hasattr
    """.split()
)
"""Built-ins that return a value which nobody can change, made of their arguments."""
LISTS = frozenset("list tuple set frozenset reversed iter enumerate zip range sorted map filter bytearray".split())
LAZY = frozenset("iter reversed enumerate zip map filter".split())
SELECT = frozenset("min max next sum".split())
EXCEPTIONS = frozenset(
    """
    ArithmeticError AssertionError AttributeError BaseException EOFError Exception FloatingPointError ImportError
    IndexError KeyError KeyboardInterrupt LookupError ModuleNotFoundError NameError NotImplementedError OSError
    OverflowError RuntimeError StopIteration SystemExit TimeoutError TypeError UnicodeDecodeError UnicodeEncodeError
    UnicodeError ValueError ZeroDivisionError RecursionError Warning UserWarning ConnectionError PermissionError
    FileNotFoundError UnboundLocalError ToolError
    """.split()
)
CONSTANTS = frozenset("NotImplemented Ellipsis __name__ __debug__".split())
OTHER = frozenset("dict getattr setattr delattr object slice exit quit parallel all_pages".split())
BINDERS = frozenset("staticmethod classmethod property".split())

PLAIN = frozenset("__name__ __doc__ __getitem__ __len__ __contains__".split())
"""Special names that programs read and that lead behind nothing."""
FRAMES = frozenset(
    """
    tb_frame tb_next f_back f_builtins f_code f_globals f_locals f_trace co_code gi_frame gi_code gi_yieldfrom cr_await
    cr_frame cr_code cr_origin ag_await ag_frame ag_code
    """.split()
)
"""Attributes that lead from generators and errors to the variables of functions."""
OF_FUNCTIONS = frozenset(
    "func args keywords cache_info cache_clear cache_parameters register dispatch setter getter deleter".split()
)
"""Attributes of functions that lead to what they were given, or change what they do."""
SPECIAL = frozenset(
    """
    __str__ __repr__ __format__ __len__ __bool__ __hash__ __contains__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
    __getitem__ __iter__
    """.split()
)
"""Special methods that are followed where they only compute: who calls them is not written in the program."""

READERS = frozenset(
    """
    capitalize casefold center count decode encode endswith expandtabs find format index isalnum isalpha isascii
    isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip
    removeprefix removesuffix replace rfind rindex rjust rstrip startswith strip swapcase title translate upper
    zfill hex bit_length is_integer as_integer_ratio conjugate
    isoformat strftime date time weekday isoweekday timestamp astimezone utcoffset total_seconds toordinal ctime dst
    tzname isocalendar timetuple
    group start end span hexdigest digest quantize normalize to_integral_value as_tuple is_nan is_finite
    issubset issuperset isdisjoint format_map __len__ __contains__
    """.split()
)
"""Methods that return a value which nobody can change, made of the object and the arguments."""
EATERS = frozenset("join issubset issuperset isdisjoint".split())
"""Those among them that take the items of an iterator."""
MAKERS = frozenset("split rsplit splitlines partition rpartition groups groupdict findall finditer".split())
"""Methods that return something new, made of the object and the arguments."""
ADDERS = frozenset("append add appendleft".split())
GROWS = ADDERS | {"extend", "extendleft", "insert", "update", "setdefault"}
"""Methods that put something in: what they change must be known."""
DIGESTS = frozenset({"digest", "hexdigest"})
"""Methods that change no object of the library."""
REMOVERS = frozenset("remove discard clear reverse rotate popitem popleft pop".split())

STATELESS = frozenset(
    """
    json re math string textwrap html urllib.parse base64 binascii hashlib hmac unicodedata statistics datetime calendar
    zoneinfo fractions uuid fnmatch ipaddress shlex cmath colorsys zlib keyword numbers difflib email.utils decimal
    """.split()
)
"""Modules whose functions make something new of their arguments and keep nothing."""
MUTABLE = frozenset(
    """
    json.loads json.load re.findall re.finditer re.split shlex.split urllib.parse.parse_qs urllib.parse.parse_qsl
    textwrap.wrap statistics.multimode statistics.quantiles calendar.monthcalendar re.compile fnmatch.filter
    difflib.get_close_matches difflib.unified_diff difflib.ndiff difflib.context_diff difflib.restore
    email.utils.getaddresses zoneinfo.available_timezones ipaddress.collapse_addresses
    ipaddress.summarize_address_range
    """.split()
)
"""Functions of those modules that return lists, dicts and iterators."""
MOVING = frozenset(
    """
    finditer unified_diff ndiff context_diff restore collapse_addresses summarize_address_range
    """.split()
)
"""Functions and methods that return iterators."""
VALUES = frozenset("datetime zoneinfo fractions uuid decimal statistics ipaddress numbers".split())
"""Modules whose classes make what nobody can change."""
OBJECTS = frozenset("zlib.compressobj zlib.decompressobj shlex.shlex hmac.new hmac.HMAC".split())
"""Functions that make objects whose methods may change them, beside the classes of other modules and hashes."""
KEEPING = frozenset("io csv queue random array graphlib".split())
"""Modules that do so, among those below."""
PARTS = (
    "datetime.datetime.", "datetime.date.", "datetime.time.", "datetime.timedelta.", "datetime.timezone.",
    "itertools.chain.from_iterable", "collections.OrderedDict.fromkeys", "collections.Counter.fromkeys", "uuid.UUID.",
    "decimal.Decimal.from_float", "fractions.Fraction.from_", "statistics.NormalDist.from_samples",
)  # fmt: skip
"""Functions of classes of modules that make something; others may change what they are given."""
CONSTANTS_OF = frozenset(
    """
    ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation printable whitespace pi e tau
    inf nan day_name day_abbr month_name month_abbr kwlist html5 utc
    """.split()
)
"""Parts of modules that are no functions, beside those in capitals."""
CLOCK = frozenset("datetime calendar uuid zoneinfo email".split())
"""Modules of which some functions ask what time it is."""
STATEFUL = frozenset(["time"])
"""Modules whose functions may keep what they were given for later."""
MIXING = frozenset(
    """
    collections itertools functools operator heapq bisect copy pprint array graphlib io csv queue random secrets
    """.split()
)
"""Modules whose functions keep their arguments within what they return, put one into another, or call them."""
NAMES_ONLY = frozenset("typing __future__ collections.abc dataclasses enum contextlib abc".split())
"""Modules of which single names are known, each of its own (see :data:`KNOWN`)."""
KNOWN = frozenset(
    """
    typing.* __future__.* collections.abc.* dataclasses.dataclass dataclasses.field dataclasses.asdict
    dataclasses.astuple dataclasses.replace contextlib.suppress contextlib.nullcontext
    dataclasses.fields contextlib.AbstractContextManager
    enum.Enum enum.IntEnum enum.StrEnum enum.auto
    """.split()
)
SLOTS = frozenset(
    """
    args _numerator _denominator _mu _sigma _ip _prefixlen _version network_address netmask network _cache
    """.split()
)
"""Attributes of numbers, addresses and errors of the library of which their other attributes, and their text, are
made."""
NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")
"""Annotations in a dataclass of what is no field, or of none that is given by its position."""
CHANGING = frozenset(
    """
    bisect.insort bisect.insort_left bisect.insort_right random.shuffle operator.setitem operator.delitem operator.iadd
    operator.iconcat operator.ior operator.iand operator.ixor operator.isub operator.imul
    """.split()
)
"""Functions that change their arguments, beside those of ``heapq``."""
RISKY = frozenset(
    """
    operator.attrgetter functools.singledispatch functools.singledispatchmethod
    functools.cached_property functools.partialmethod functools.total_ordering functools.update_wrapper
    json.JSONEncoder json.JSONDecoder io.open io.FileIO io.open_code copy.copyreg copy.dispatch_table
    keyword.kwlist keyword.softkwlist calendar.mdays
    calendar.c calendar.setfirstweekday calendar.different_locale calendar.LocaleTextCalendar
    calendar.LocaleHTMLCalendar csv.register_dialect csv.unregister_dialect csv.field_size_limit string.Formatter
    hashlib.algorithms_available hashlib.algorithms_guaranteed urllib.parse.non_hierarchical urllib.parse.uses_fragment
    urllib.parse.uses_netloc urllib.parse.uses_params urllib.parse.uses_query urllib.parse.uses_relative
    decimal.DefaultContext decimal.BasicContext decimal.ExtendedContext typing.EXCLUDED_ATTRIBUTES zoneinfo.reset_tzpath
    decimal.getcontext decimal.setcontext decimal.localcontext decimal.Context
    """.split()
)
"""Names of these modules that cannot be followed all the same: what they hold can be changed, or they look behind."""
_INNER = (sys.stdlib_module_names | {"decoder", "encoder", "scanner", "entities", "bltns", "stdlib_re"}) - {"time"}
KEEPERS = frozenset(
    """
    difflib.Differ difflib.HtmlDiff difflib.SequenceMatcher difflib.unified_diff
    difflib.context_diff difflib.ndiff difflib.restore re.Scanner re.finditer shlex.shlex shlex.StringIO shlex.deque
    textwrap.TextWrapper calendar.Calendar calendar.TextCalendar calendar.HTMLCalendar calendar.repeat zlib.compressobj
    zlib.decompressobj statistics.Counter statistics.defaultdict statistics.groupby statistics.repeat
    email.utils.Charset base64.encode base64.decode
    """.split()
)
"""Functions of the modules that keep nothing whose results do: functions that are called later, settings, a place."""


def is_inner(dotted: str, module: str) -> bool:
    """Return whether a name leads into a module that another one only uses, or to what is its own business."""
    own = module.rpartition(".")[2]
    names = dotted[len(module) + 1 :].split(".")
    return any(name.startswith("_") or (name in _INNER and name != own) for name in names)


def module_of(dotted: str) -> str:
    """Return the longest beginning of a dotted name that is a module known here."""
    while dotted and dotted not in MODULES:
        dotted = dotted.rpartition(".")[0]
    return dotted


def is_constant(dotted: str) -> bool:
    """Return whether a part of a module has the name of a constant."""
    return dotted.rpartition(".")[2].isupper() and dotted not in ("uuid.UUID", "hmac.HMAC")


def is_opaque(dotted: str) -> bool:
    """Return whether a function makes an object whose methods may change it."""
    module, name = module_of(dotted), dotted.rpartition(".")[2]
    if module == "hashlib":
        return name not in ("pbkdf2_hmac", "scrypt")
    return dotted in OBJECTS or (name[:1].isupper() and not name.isupper() and module not in VALUES)


def is_part(dotted: str) -> bool:
    """Return whether a name is that of a part of a part of a module, which may be anything."""
    return "." in dotted[len(module_of(dotted)) + 1 :] and not dotted.startswith(PARTS)


MODULES = STATELESS | STATEFUL | MIXING | NAMES_ONLY | {"sys"}
