"""The forms in which a known secret stands in a text: as it is, and as encoders write it.

These are JSON (``\\u002f``, ``\\/``), HTML (``&quot;``, ``&#x2f;``), percent-encoding in either case and applied twice,
and base64 of either alphabet, alone or within something larger at any of its three alignments. Forms may be mixed
within one secret. Not looked for are hexadecimal digits, base64 broken into lines, what was compressed or encrypted,
and a secret in two pieces.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
"""Characters that no encoder changes."""
_OF_BASE64 = re.compile(r"[A-Za-z0-9]+")
_NEEDLE = 4
"""Characters of a run that is looked for first, for that is much faster."""
_MIN_BASE64 = 8
"""Shorter secrets have too few letters in base64 to be told from chance."""
_MOST = 5_000
"""A longer secret (a file, say) is looked for as it is, in JSON and in a URL; a pattern of it is too large."""
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}


class SecretForms:
    """All forms of some secrets.

    Args:
        secrets: none of them empty.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known = set(secrets)
        known = sorted(self._known, key=lambda secret: (-len(secret), secret))
        found = {form: None for secret in known for form in (_all(secret) if len(secret) <= _MOST else _some(secret))}
        self._forms = [(*form, re.compile(form[1])) if form[1] else (*form, None) for form in found]
        self._of_bytes: SecretForms | None = None

    def __bool__(self) -> bool:
        return bool(self._forms)

    def masked(self, text: str, mask: str) -> str:
        """Return a text with a mask in place of every form; linear in it."""
        for needle, _, pattern in self._forms:
            if needle not in text:
                continue
            text = text.replace(needle, mask) if pattern is None else pattern.sub(lambda _: mask, text)
        return text

    def masked_bytes(self, data: bytes, mask: str) -> bytes:
        """Bytes in the same way, read as UTF-8 where a secret is more than ASCII."""
        if self._of_bytes is None:
            forms = {secret.encode("utf-8", "surrogatepass").decode("latin-1") for secret in self._known}
            self._of_bytes = self if forms == self._known else SecretForms(forms)
        return self._of_bytes.masked(data.decode("latin-1"), mask).encode("latin-1")


_Form = tuple[str, str]
"""A run of it that stands in every text that has the form; and a pattern, empty where that run is all of it."""


def without_scheme(credential: str) -> list[str]:
    """Return a credential and, where a word such as ``Bearer`` stands before it, what follows that word."""
    first, _, rest = credential.strip().partition(" ")
    named = first.lower() in ("basic", "bearer", "token", "apikey", "digest", "negotiate") and " " not in rest.strip()
    return [credential, rest.strip()] if named and rest.strip() else [credential]


def _all(secret: str) -> list[_Form]:
    return [_written(secret), *_encoded(secret)]


def _some(secret: str) -> list[_Form]:
    in_json = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    in_url = quote(secret, safe="", errors="surrogatepass")
    return [(form, "") for form in (secret, *in_json, in_url)]


def _written(secret: str) -> _Form:
    if _PLAIN.fullmatch(secret):
        return secret, ""
    return _needle(_PLAIN.findall(secret)), "".join(map(_spelt, secret))


def _spelt(char: str) -> str:
    if _PLAIN.fullmatch(char):
        return re.escape(char)
    code = ord(char)
    ways = [f"&#0{{0,5}}{code};", f"&#[xX]0{{0,5}}{_either(f'{code:x}')};"]
    ways += [f"&{_ENTITIES[char]};"] if char in _ENTITIES else []
    ways.append("".join(f"%(?:25)?{_either(f'{byte:02x}')}" for byte in char.encode("utf-8", "surrogatepass")))
    units = char.encode("utf-16-be", "surrogatepass")
    ways.append("".join(rf"\\u{_either(units[at : at + 2].hex())}" for at in range(0, len(units), 2)))
    escape = json.dumps(char)[1:-1]
    ways += [re.escape(escape)] if len(escape) == 2 else [r"\\/"] if char == "/" else []
    ways += [re.escape(char)] + ([r"\+"] if char == " " else [])
    return f"(?:{'|'.join(ways)})"


def _either(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _encoded(secret: str) -> Iterable[_Form]:
    """Yield the secret in base64, after 0, 1 or 2 other bytes: those letters of it that nothing beside it changes."""
    data = secret.encode("utf-8", "surrogatepass")
    if len(data) < _MIN_BASE64:
        return
    for before in range(3):
        letters = base64.b64encode(bytes(before) + data).decode()
        certain = letters[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if _OF_BASE64.fullmatch(certain):
            yield certain, ""
        else:
            ways = {"+": r"(?:[+ -]|%2[bB])", "/": r"(?:\\?/|_|%2[fF])"}
            pattern = "".join(ways.get(letter, letter) for letter in certain)
            yield _needle(_OF_BASE64.findall(certain)), pattern


def _needle(runs: list[str]) -> str:
    longest = max(runs, key=len, default="")
    return longest if len(longest) >= _NEEDLE else ""
