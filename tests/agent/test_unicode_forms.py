"""Normal forms: the same as Python's for every real text, and linear for any."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host import unicode_forms
from atc._host.unicode_forms import MAX_MARKS, normalized
from atc.calls.json_values import canonical

MARKS = "\u0301\u0327\u0344\u0f73\u0f71\u3099\uff9e"
FORMS = ("NFC", "NFD", "NFKC", "NFKD")


@given(st.text(st.characters() | st.sampled_from("aeé가가" + MARKS), max_size=80), st.sampled_from(FORMS))
def test_a_text_without_long_runs_of_marks_is_normalized_as_python_does(text: str, form: Any) -> None:
    if not unicode_forms.re.search(f"[{MARKS}]{{{MAX_MARKS + 1},}}", text):
        assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("marks", ["\u0301\u0327", *MARKS], ids=ascii)
@pytest.mark.parametrize("form", FORMS)
def test_no_long_run_of_marks_is_sorted(marks: str, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    real = unicodedata.normalize

    def counted(form: Any, text: str) -> str:
        nonlocal longest
        run = 0
        for char in real("NFKD", text) if len(text) <= 2 * MAX_MARKS else text:
            run = run + 1 if unicodedata.combining(char) or char in MARKS else 0
            longest = max(longest, run)
        return real(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    text = "é" + marks * 5_000 + "e\u0301" + marks[0] * MAX_MARKS + "e\u0301"
    made = normalized(form, text)
    assert marks * 5_000 in made
    assert made.endswith(real(form, "e\u0301"))
    assert longest <= 2 * MAX_MARKS + 2


def test_calls_are_the_same_in_any_form_and_after_a_long_run_too() -> None:
    marks = "\u0301\u0327" * 80_000
    assert canonical({"é": "e\u0301"}) == canonical({"e\u0301": "é"})
    assert canonical("a" + marks + "e\u0301") == canonical("a" + marks + "é")
    assert canonical("a" + marks) != canonical("a" + marks[1:])
