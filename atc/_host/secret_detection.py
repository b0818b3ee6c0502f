"""Find secrets that nobody has named to ATC, by their look: credentials in texts, cards, and what looks random.

Those that ATC knows are masked by :class:`atc._host.redaction.Redactor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby

MASKED = "***"
_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?:[^-]|-(?!----)){0,20000}+-----END [A-Z ]{0,30}PRIVATE KEY-----"
    r"|(?:(?:\s|\\[nr]){0,9}[A-Za-z0-9+/=]{16,}){0,500}+)"
    r"|\beyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{4,8000}(?:\.[A-Za-z0-9_-]{0,4000})?"
    r"|\b(?:[Bb]earer|[Bb]asic|[Tt]oken) [A-Za-z0-9._~+/=-]{16,4000}"
    r"|\b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)[-_][A-Za-z0-9_-]{12,200}|\bsk-[A-Za-z0-9]{20,200}"
    r"|\b(?:gh[opsur]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{16,64}|hf_[A-Za-z0-9]{20,64}|npm_[A-Za-z0-9]{30,64})"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,40}|\bxox[abeoprs]-[\w-]{10,200}|\bya29\.[\w-]{20,400}"
    r"|(?<=://)[^\s/:@]{0,100}:[^\s/\"'<>]{1,200}(?=@)|(?<=://)[A-Za-z0-9_-]{20,200}(?=@)"
    r"|\bbot[0-9]{6,12}:[\w-]{30,60}"
    r"|(?<=[?&])(?:api_?key|access_?token|token|auth|secret|password|sig|signature|client_secret)=[^&\s#]{4,2000}",
)
_WEBHOOK = re.compile(
    r"(?P<head>\b(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
    r"|hooks\.zapier\.com/hooks/(?:catch|standard)|webhook\.office\.com/webhookb2|maker\.ifttt\.com/trigger/[^\s/]{1,100}/with/key"
    r"|hook\.(?:eu|us)[12]\.make\.com|outlook\.office\.com/webhook|open\.feishu\.cn/open-apis/bot/v2/hook)/)[^\s\"'<>?#]{6,1000}"
)
"""Addresses of services whose path is the secret."""
_ANY_WEBHOOK = re.compile(r"(?P<head>/(?:web)?hooks?/(?:[\w.-]{1,40}/){0,4}?)(?P<value>[A-Za-z0-9_-]{16,200})(?![\w-])")
_COOKIE = re.compile(
    r"(?P<head>\b(?:set-)?cookie[\"']?[ ]{0,2}[:=][ ]{0,2}\[?[\"']?)(?P<value>[^\s=;,\"']{1,100}=[^\r\n\"']{1,4000})",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r"(?P<head>\b(?:php_?sess_?id|jsession_?id|asp\.net_sessionid|connect\.sid|session_?id|sess_?id|session_?token|csrf_?token"
    r"|xsrf_?token|cookie)[\"']?[ ]{0,2}[=:][ ]{0,2}[\"']?)(?P<value>[A-Za-z0-9%._~+/-]{8,1000}={0,2})",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(
    r"(?P<head>\bauthorization[\"']?[ ]{0,2}(?P<sign>[:=])[ ]{0,2}[\"']?"
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9-]{1,30})(?:[ ]|%20|\+)[ ]?)?)(?P<value>[^\s\"',;&)}\]]{4,4000})",
    re.IGNORECASE,
)
_WITH_FIELDS = re.compile(
    r"(?P<head>\bauthorization[\"']?[ ]{0,2}[:=][ ]{0,2}[\"']?(?:digest|aws4-hmac-sha256|hmac) )[^\r\n}]{4,4000}",
    re.IGNORECASE,
)
"""What is named: in a header, in JSON, in a query and in a sentence."""
_DIGIT_RUN = re.compile(r"(?<![\w.+-])\d(?:[ -]?\d){12,18}(?![\w.-])")
_CARD = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|2720\d{12}|3[47]\d{13}|6(?:011|5\d\d)\d{12}"
)

_NAMED = re.compile(
    r"(?P<name>(?:pass(?:word|wd|phrase)|\bpwd|secret|token|(?:api|access|account|auth|secret|shared|sas)[ _-]?key"
    r"|credentials?|database[ _-]?ur[il]|dsn|connection[ _-]?string|web_?hook(?:[ _-]?ur[il])?)"
    r"[\"']?[ ]{0,2}(?P<sign>[=:])[ ]{0,2}[\"']?)(?P<value>[^\s\"',;&)}\]]{4,2000})",
    re.IGNORECASE,
)
_NO_VALUES = frozenset({"none", "null", "true", "false", "required", "missing", "invalid", "expired", "empty"})
_SCHEMES = frozenset({"bearer", "basic", "digest", "token", "apikey", "negotiate", "ntlm", "hmac", "aws4-hmac-sha256"})
_TOKEN = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{32,}(?![0-9A-Za-z])")
MIN_KNOWN = 8
"""Characters of a value with the name of a secret that is looked up among known values."""


def looks_secret(text: str) -> bool:
    """Whether a string holds what looks like a credential or a payment card's number."""
    return masked_text(text) != text


def masked_text(text: str) -> str:
    """The text with everything masked that looks like a credential or a payment card's number."""
    if len(text) < 12:
        return text
    text = _SECRET_TEXT.sub(MASKED, text)
    lower = text.lower()  # most texts have none of these words, which is seen faster than the patterns see it
    if "authorization" in lower:
        text = _AUTHORIZATION.sub(_masked_authorization, _WITH_FIELDS.sub(_masked_named, text))
    if "cookie" in lower:
        text = _COOKIE.sub(_masked_named, text)
    if any(word in lower for word in ("sess", "connect.", "srf", "cookie")):
        text = _SESSION.sub(_masked_session, text)
    if "hook" in lower or "/trigger/" in lower:
        text = _ANY_WEBHOOK.sub(_masked_session, _WEBHOOK.sub(_masked_named, text))
    return _DIGIT_RUN.sub(_masked_card, text)


def _masked_named(match: re.Match[str]) -> str:
    return f"{match['head']}{MASKED}"


def _masked_session(match: re.Match[str]) -> str:
    """A word stays: an identifier that nobody can guess has digits among its letters."""
    value = match["value"]
    return _masked_named(match) if any(map(str.isdigit, value)) and any(map(str.isalpha, value)) else match[0]


def _masked_authorization(match: re.Match[str]) -> str:
    value, sign = match["value"], match["sign"]
    return _masked_named(match) if match["scheme"] is None and _is_a_value(value, sign == "=") else _with_scheme(match)


def _with_scheme(match: re.Match[str]) -> str:
    """``Authorization: Bearer abc`` has a credential; ``authorization: the user must log in`` has none."""
    scheme, value = match["scheme"], match["value"]
    if scheme is None or not (scheme.lower() in _SCHEMES or _is_a_value(value, False)):
        return match[0]
    return _masked_named(match) if _is_a_value(value, len(value) >= MIN_KNOWN) else match[0]


def masked_exception(text: str, is_known: Callable[[str], bool] = lambda _: False) -> str:
    """The text of somebody's exception as a program and a model may read it.

    Masked are, beside what :func:`masked_text` masks, values that a name beside them calls a secret, and long tokens
    that look random. UUIDs stay, and what is known already: an identifier that the task or a tool gave is no secret.

    Args:
        text: of any length; linear in it.
        is_known: whether a long token was seen before, in the task or in the arguments and answers of tools.
    """

    def named(match: re.Match[str]) -> str:
        name, equals, value = match["name"], match["sign"] == "=", match["value"]
        known = len(value) >= MIN_KNOWN and is_known(value)
        return match[0] if known or not _is_a_value(value, equals) else f"{name}{MASKED}"

    def long(match: re.Match[str]) -> str:
        token = match[0]
        return MASKED if looks_random(token) and not is_known(token) else token

    return _TOKEN.sub(long, _NAMED.sub(named, masked_text(text)))


def looks_random(token: str) -> bool:
    """Whether a token of letters, digits and ``+/=_-`` looks drawn by chance: a key, a hash, a signature; not a UUID.

    Letters and digits of three kinds change often in what is random, and seldom in what is made of words. Hexadecimal
    digits are taken for a key from 32 on.
    """
    if _UUID.search(token):
        return False
    if _HEX.search(token):
        return True
    kinds = ["u" if c.isupper() else "l" if c.islower() else "d" for c in token if c.isalnum()]
    runs = [kind for kind, _ in groupby(kinds)]
    digits, length = runs.count("d"), len(kinds) / max(len(runs), 1)  # of a run on average; of words it is long
    if {"u", "l"} <= set(kinds):
        return len(kinds) >= 20 and digits > 0 and length <= (2.3 if digits > 1 else 1.9)
    return len(kinds) >= 24 and digits >= 4 and length <= 3.4


def _is_a_value(value: str, equals: bool) -> bool:
    """Whether what stands behind a secret's name is its value, and no word about it (``token: expired``)."""
    if value.casefold().strip("<>*[]()") in _NO_VALUES or value == MASKED:
        return False
    return equals or any(c.isdigit() or c in "!#$%&*+/?@^~" for c in value)


def _masked_card(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match[0])
    return MASKED if _CARD.fullmatch(digits) and _luhn(digits) else match[0]


def _luhn(digits: str) -> bool:
    doubled = (int(d) * (2 if i % 2 else 1) for i, d in enumerate(reversed(digits)))
    return sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0
