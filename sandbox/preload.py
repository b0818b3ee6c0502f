"""Import what programs use before there is a program: its process may load no library, and need not read a file."""

import contextlib
import os
import pkgutil

PRELOADED = [
    "__future__", "_strptime", "abc", "array", "ast", "asyncio", "base64", "binascii", "bisect", "bz2",
    "calendar", "cmath", "codecs", "collections", "collections.abc", "colorsys", "concurrent.futures",
    "concurrent.futures.thread", "configparser", "contextlib", "contextvars", "copy", "csv", "dataclasses",
    "datetime", "decimal", "difflib", "email.message", "email.utils", "encodings.ascii", "encodings.base64_codec",
    "encodings.cp1252", "encodings.cp437", "encodings.hex_codec", "encodings.idna", "encodings.iso8859_1",
    "encodings.iso8859_15", "encodings.latin_1", "encodings.punycode", "encodings.raw_unicode_escape",
    "encodings.rot_13", "encodings.unicode_escape", "encodings.utf_16", "encodings.utf_16_be", "encodings.utf_16_le",
    "encodings.utf_32", "encodings.utf_8_sig", "enum", "fnmatch", "fractions", "functools", "gettext", "glob",
    "graphlib", "gzip", "hashlib", "heapq", "hmac", "html", "html.parser", "http", "http.cookies",
    "importlib.resources", "inspect", "io", "ipaddress", "itertools", "json", "keyword", "linecache", "locale",
    "logging", "lzma", "math", "mimetypes", "numbers", "operator", "pathlib", "pickle", "pprint", "queue", "random",
    "re", "reprlib", "sched", "secrets", "select", "selectors", "shlex", "signal", "sqlite3", "statistics", "string",
    "stringprep", "struct", "tempfile", "textwrap", "threading", "time", "timeit", "tomllib", "traceback", "types",
    "typing", "unicodedata", "urllib.parse", "uuid", "warnings", "weakref", "xml.etree.ElementTree", "zipfile",
    "zlib", "zoneinfo",
]  # fmt: skip

_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_LEFT_OUT = ("tests", "testing", "f2py", "distutils", "conftest")


def standard_library() -> None:
    """Import what programs use of it."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # an interpreter may be built without it
            __import__(name)


def packages(names: list[str]) -> None:
    """Import packages beside it.

    Raises:
        OSError: one cannot be imported.
    """
    os.environ.update(_ONE_THREAD)  # a process with threads can neither enter namespaces nor be forked safely
    for name in names:
        try:
            _load_whole(name)
        except Exception as error:
            raise OSError(f"the package {name!r} cannot be preloaded: {type(error).__name__}: {error}") from None
    for name in _ONE_THREAD:
        del os.environ[name]


def _load_whole(package: str) -> None:
    """Import a package and the parts of it that it would load when they are first used."""
    module = __import__(package)
    for part in pkgutil.iter_modules(getattr(module, "__path__", ())):
        if part.ispkg and not part.name.startswith("_") and part.name not in _LEFT_OUT:
            with contextlib.suppress(Exception):  # a part that needs what is not installed
                __import__(f"{package}.{part.name}")
