"""Give a program the clock and the random numbers of its start, so that it does the same when it runs again.

A run that goes on runs its program from the beginning: what that makes of the clock, of a random number, of a UUID or
of the order of a set must be what it made of them before, or a call says something else than the one that a person
approved or that was made. So the clock does not follow the machine's. It begins where the program first began, and
moves by what is the same each time: what the program sleeps, what the host says with a reply, whole seconds in which
neither happened, and a microsecond at each reading. Random numbers come from the seed of the start.

All names for these are changed once, in the parent of all programs; a program without a start has the machine's. Where
the interpreter cannot be given another function, as in ``datetime``, the type stays and its method is replaced.
"""

import asyncio
import ctypes
import datetime
import gc
import hashlib
import itertools
import operator
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

HASH_SEED = "1"
"""Of all programs: a child is a copy of its parent, and cannot have a seed of its own. Whoever knows it can make texts
that fall into one place of a table, and slow a program that puts them into a dict or a set. Its limit of processor time
bounds that, and the host's own tables have a secret seed."""
SEED_BYTES = 32
_SECOND, _TICK = 10**9, 10**3  # nanoseconds
_REAL_TIME = (time.CLOCK_REALTIME, getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME))


class Clock:
    """The functions of :mod:`time` that say what time it is, by the clock of the program.

    They are methods of one object: a method does not become another one where a class holds it, as a function would.
    """

    def __init__(self) -> None:
        self._time, self._time_ns, self._monotonic_ns = time.time, time.time_ns, time.monotonic_ns
        self._sleep, self._sleep_async = time.sleep, asyncio.sleep
        self._localtime, self._gmtime, self._ctime = time.localtime, time.gmtime, time.ctime
        self._strftime, self._asctime = time.strftime, time.asctime
        self._clock_gettime, self._clock_gettime_ns = time.clock_gettime, time.clock_gettime_ns
        self._lock = threading.RLock()  # the handler of a signal may read the clock while it is read
        self._on = False
        self._start = self._now = self._still_since = 0

    def begin(self, at: float) -> None:
        """Begin at a time in seconds since 1970."""
        self._start = self._now = int(at * 1e6) * _TICK
        self._still_since, self._on = self._monotonic_ns(), True

    def end(self) -> None:
        """Follow the clock of the machine again."""
        self._on = False

    def moved(self, passed_s: float | None) -> None:
        """Take what the host says with a reply: how long the program has run; ``None``: nothing worth a word."""
        if self._on:
            self._move(self._now if passed_s is None else self._start + int(passed_s * _SECOND))

    def _move(self, to: int) -> None:
        with self._lock:
            self._now, self._still_since = max(self._now, to), self._monotonic_ns()

    def time_ns(self) -> int:
        if not self._on:
            return self._time_ns()
        with self._lock:
            still = (self._monotonic_ns() - self._still_since) // _SECOND * _SECOND
            self._still_since += still
            self._now += still + _TICK
            return self._now

    def time(self) -> float:
        return self.time_ns() / _SECOND if self._on else self._time()

    def sleep(self, seconds: float, /) -> None:
        before = self._now
        self._sleep(seconds)
        if self._on:
            self._move(before + int(float(seconds) * _SECOND))

    async def sleep_async(self, delay: float, result: Any = None) -> Any:
        before = self._now
        result = await self._sleep_async(delay, result)
        if self._on:
            self._move(before + int(float(delay) * _SECOND))
        return result

    def localtime(self, seconds: float | None = None, /) -> Any:
        return self._localtime(self.time() if seconds is None else seconds)

    def gmtime(self, seconds: float | None = None, /) -> Any:
        return self._gmtime(self.time() if seconds is None else seconds)

    def ctime(self, seconds: float | None = None, /) -> str:
        return self._ctime(self.time() if seconds is None else seconds)

    def strftime(self, format: str, /, *t: Any) -> str:
        return self._strftime(format, *t or (self.localtime(),))

    def asctime(self, /, *t: Any) -> str:
        return self._asctime(*t or (self.localtime(),))

    def clock_gettime(self, which: int, /) -> float:
        return self.time() if which in _REAL_TIME else self._clock_gettime(which)

    def clock_gettime_ns(self, which: int, /) -> int:
        return self.time_ns() if which in _REAL_TIME else self._clock_gettime_ns(which)


class Draws:
    """The functions that draw what nobody can foretell, from a seed: the n-th is the same each time."""

    def __init__(self) -> None:
        self._urandom, self._getrandom = os.urandom, os.getrandom
        self._seed_of = random.Random.seed
        self._seed: bytes | None = None
        self._numbers = itertools.count()

    def begin(self, seed: bytes) -> None:
        """Draw from this seed, from its beginning on."""
        self._seed, self._numbers = seed, itertools.count()

    def end(self) -> None:
        """Draw from the machine again."""
        self._seed = None

    def urandom(self, size: int, /) -> bytes:
        if self._seed is None or (size := operator.index(size)) < 0:
            return self._urandom(size)
        return hashlib.shake_256(self._seed + next(self._numbers).to_bytes(8, "big")).digest(size)

    def getrandom(self, size: int, flags: int = 0) -> bytes:
        return self._getrandom(size, flags) if self._seed is None else self.urandom(size)

    def seeding(self) -> Callable[..., None]:
        """Return the method ``seed`` of :class:`random.Random`, which draws its seed here where it is given none."""

        def seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
            if a is None and self._seed is not None:
                a = int.from_bytes(self.urandom(SEED_BYTES), "big")
            self._seed_of(generator, a, version)

        return seed


_clock, _draws = Clock(), Draws()
_generate_time_safe = uuid._generate_time_safe  # type: ignore[attr-defined]
_OF_TIME = ("time", "time_ns", "sleep", "localtime", "gmtime", "ctime", "strftime", "asctime", "clock_gettime",
            "clock_gettime_ns")  # fmt: skip


def install() -> None:
    """Put these functions in the place of the interpreter's, under every name that a module has for one. Once."""
    replaced: list[tuple[Any, Any]] = [(getattr(time, name), getattr(_clock, name)) for name in _OF_TIME]
    replaced += [(asyncio.sleep, _clock.sleep_async), (os.urandom, _draws.urandom), (os.getrandom, _draws.getrandom)]
    held = random.seed
    random.Random.seed = _draws.seeding()  # type: ignore[method-assign]
    replaced.append((held, random._inst.seed))
    by_id = {id(old): new for old, new in replaced}
    for module in [*sys.modules.values()]:
        names = getattr(module, "__dict__", {})
        for name, value in [*names.items()]:
            if id(value) in by_id:
                names[name] = by_id[id(value)]
    _set_methods(datetime.date, today=_today)
    _set_methods(datetime.datetime, now=_now, utcnow=_utcnow)


def begin(at: float, seed: str) -> None:
    """Let the program that this process runs begin at this time, and draw from this seed."""
    number = int(seed, 16)  # nothing is drawn here: what makes a hash takes pages that most programs do not need
    _clock.begin(at)
    _draws.begin(bytes.fromhex(seed))
    _seed(number, number % 2**32)
    uuid._node = number % 2**48 | 1 << 40  # type: ignore[attr-defined]  # as the module makes one of its own
    uuid._generate_time_safe = None  # type: ignore[attr-defined]  # a library, which has a clock of its own


def be_new() -> None:
    """Give the program the clock of the machine, and let it draw as no other does."""
    _clock.end()
    _draws.end()
    _seed(None, None)
    uuid._node = None  # type: ignore[attr-defined]
    uuid._generate_time_safe = _generate_time_safe  # type: ignore[attr-defined]


def _seed(seed: int | None, of_numpy: int | None) -> None:
    """Seed the generators that a module holds for all: two programs would draw the same numbers."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed(of_numpy)


def moved(passed_s: float | None) -> None:
    """Take what the host says of the time with a reply."""
    _clock.moved(passed_s)


def _set_methods(type_: type, **methods: Callable[..., Any]) -> None:
    """Replace class methods of a type that is written in C: it stays the type that it is, for pickle, too."""
    members: dict[str, Any] = gc.get_referents(type_.__dict__)[0]
    for name, method in methods.items():
        method.__name__, method.__qualname__ = name, f"{type_.__name__}.{name}"
        members[name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(type_))


def _today(cls: Any) -> Any:
    return cls.fromtimestamp(_clock.time())


def _now(cls: Any, tz: Any = None) -> Any:
    seconds, rest = divmod(_clock.time_ns(), _SECOND)
    return cls.fromtimestamp(seconds, tz).replace(microsecond=rest // _TICK)


def _utcnow(cls: Any) -> Any:
    return _now(cls, datetime.UTC).replace(tzinfo=None)
