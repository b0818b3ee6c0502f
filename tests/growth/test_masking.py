"""Masking, questions and cleaning are linear in a text that a stranger wrote, by the worst kinds that are known."""

from __future__ import annotations

import base64
import operator
from functools import partial

import pytest

from atc._host.invisible import legible, visible
from atc._host.secret_detection import masked_exception
from atc._host.secret_forms import SecretForms
from atc.wording.abridged import abridged
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

SECRET = "aaaa/aaaa&aaaa%25%25 \"'aaaa"
KINDS = (
    "aaaa/", "%25", "&amp;", "&#000047;", "\\u002f", "\\/", "aaaa/aaaa&amp;aaaa%252525", "\\", "a",
    base64.b64encode(b"x" + SECRET.encode())[:30].decode(),
)  # fmt: skip
NAMES = (
    "authorization: ", "authorization: a ", "cookie: a", "cookie: a=", "set-cookie", "session_id=a1", "://a:", "://a:a@",
    "1 ", "/hook/a/", "/webhooks/a.b/", "bot123456:", "password=", "dsn: ", "-----BEGIN PRIVATE KEY-----",
    "eyJaaaaaaaa.", "hooks.slack.com/services/", "maker.ifttt.com/trigger/", "&token=", "a1B2",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_known_secrets(kind: str) -> None:
    forms = SecretForms([SECRET, "\u00e9\u4e2d//\u00e9\u4e2d//", "&&&&%%%%&&&&"])
    assert_linear(lambda n: kind * (n // len(kind)), lambda text: forms.masked(text, "[x]"), n=4_000, most=200_000)


@pytest.mark.parametrize("kind", NAMES)
def test_secrets_by_their_look(kind: str) -> None:
    assert_linear(lambda n: kind * (n // len(kind)), masked_exception, n=4_000, most=100_000)


def test_what_is_shown_and_what_is_left_out() -> None:
    for kind in ("\u200c\u0645", "\ufe0f", "\u180b\u1820"):
        assert_linear(partial(operator.mul, kind), legible, n=4_000, most=100_000)
    assert_linear(lambda n: "a\u0301\u200b" * n, visible, n=4_000, most=100_000)
    assert_linear(lambda n: [["\u202e" * 9, {"k" * 50: n}]] * n, lambda value: abridged(value, 2_000), most=100_000)
    assert_linear(lambda n: [["\u202e" * 9, {"k": 1}]] * n, lambda value: abridged(value, 10**9), most=100_000)
