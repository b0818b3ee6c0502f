"""How the parent of all programs lays out its memory, so that a fork of it costs little.

A fork copies the table of pages, and each page that it then writes to. CPython writes to whatever it looks at (it
counts references), so what every program uses should lie together, and the table should be short.
"""

import contextlib
import ctypes
import gc
import io
import os
import re
import sys

import kernel

_POOL = 1 << 14  # of CPython's allocator of small objects, as is
_LARGEST = 512  # its largest objects
_BYTES = bytes.__basicsize__  # what an empty one takes
_MOST = 4096  # objects of one size to try
_HUGE = 1 << 21
_filled: list[bytes] = []
_LIBRARIES = (
    "_asyncio _bisect _blake2 _bz2 _contextvars _csv _datetime _decimal _elementtree _hashlib _heapq _json _lzma "
    "_opcode _pickle _posixsubprocess _queue _random _sha512 _socket _sqlite3 _ssl _statistics _struct _typing _uuid "
    "_zoneinfo array binascii cmath fcntl math pyexpat resource select unicodedata zlib"
).split()


def map_libraries() -> None:
    """Map the libraries of what is preloaded, before objects are made: the memory of these then lies in one piece."""
    folder = next((path for path in sys.path if path.endswith("lib-dynload")), "")
    files = os.listdir(folder) if os.path.isdir(folder) else []
    for file in sorted(files):
        if file.split(".")[0] in _LIBRARIES:
            with contextlib.suppress(OSError):  # an import will say why
                ctypes.CDLL(f"{folder}/{file}")


def fill_holes() -> None:
    """Take up what is free between objects that are there: what is made from now on lies close together.

    What is taken is never given back; it held no other use, as only a few holes of a process are used again.
    """
    gc.collect()
    for size in range(_LARGEST, 0, -16):
        seen: set[int] = set()
        for _ in range(_MOST):
            made = bytes(max(0, size - _BYTES))
            _filled.append(made)
            pool, offset = divmod(id(made), _POOL)
            if pool not in seen and offset < 64 and seen:
                break  # the first object of a pool that was empty
            seen.add(pool)
    kernel.fill_heap()


def own_areas(maps: io.FileIO) -> list[tuple[int, int]]:
    """The areas of this process's memory, (begin, end), that no file stands behind.

    Args:
        maps: ``/proc/self/maps``, opened while it could be.
    """
    maps.seek(0)
    text = b"".join(iter(lambda: maps.read(1 << 16), b"")).decode()
    return [
        (int(begin, 16), int(end, 16))
        for begin, end in re.findall(r"^(\w+)-(\w+) rw-p \w+ \w+:\w+ 0 +(?:\[heap\])?$", text, re.MULTILINE)
    ]


def make_huge(maps: io.FileIO) -> None:
    """Move this process's own memory to huge pages where the kernel can: one entry to copy instead of 512."""
    for begin, end in own_areas(maps):
        first, last = -(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE
        for at in range(first, last, _HUGE):
            kernel.make_huge(at, _HUGE)
