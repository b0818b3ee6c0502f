"""What a sentence may say: what is known, in any form; and nothing else."""

from __future__ import annotations

import datetime
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.strategies import grounding
from atc.strategies.grounding import Known, ungrounded
from atc.strategies.language_words import is_english
from atc.strategies.spelled_in_text import spelled_in

TASK = "How far is Lyon from Paris, and when does the sun rise there on 21 June 2026?"
TRIP: dict[str, Any] = {
    "trip_id": "t-4711",
    "city": "Lyon",
    "country": "Côte d'Ivoire",
    "totalPrice": 1234.5,
    "currency": "EUR",
    "pi": 3.14159,
    "low": -3.25,
    "share": 0.42,
    "population": 2140526,
    "sunrise": "2026-06-21T05:51:07+02:00",
    "deposit": None,
    "paid_on": "2026-11-23",
    "stops": [{"name": "Paris"}, {"name": "Genève"}, {"name": "New York"}],
    "status": "not confirmed yet",
    "contact": "ann.lee@acme.example",
    "page": "See https://acme.example/trips/4711, please.",
    "flight": "AF1234 at gate B12",
    "ip": "10.0.0.1",
    "from": "7:05 pm",
    "big": 12345678901234567890,
    "text": "the museum of modern art",
}
KNOWN = Known([TRIP, {"get_trip": {"trip_id": "t-4711"}}], [TASK], [2])

HONEST = [
    "It is 1234.5.",
    "The trip costs 1,234.5 EUR.",
    "The trip costs €1,234.50.",
    "The Total Price of the trip to Lyon is 1234.5 EUR.",
    "Pi is 3.14, or 3.1, or 3, or 3.1416.",
    "The low was -3.25 degrees Celsius, 3.25 below zero.",
    "About 2.1 million people live there, 2,140,526 exactly.",
    "2.14M people live in Lyon.",
    "The share is 0.42.",
    "There are 3 stops: Paris, Geneva is written Genève, and New York.".replace("Geneva is written ", ""),
    "There are three stops, of which two calls tell.",
    "Paris' stop and Lyon's are known.",
    "About two million people live there; there are Three stops.",
    "It costs one thousand two hundred and thirty-four and a half EUR.",
    "The low was minus 3.25 degrees, about minus three.",
    "It was paid on the twenty-third of November, and I'll say so.",
    "One or two of them are known, and several hundred more are not.",
    "Geneve and Cote d'Ivoire are without accents here.",
    "The sun rises at 05:51 on 21 June 2026.",
    "The sun rises at 5:51 am on June 21, 2026.",
    "The sun rises at 5:51 a.m. on the 21st of June 2026.",
    "Sunrise is on Jun 21, at 5:51.",
    "Sunrise is on 2026-06-21 at 05:51:07 (UTC+02:00).",
    "Sunrise is on 21/06/2026, written 6/21/2026 elsewhere.",
    "It was paid on 23 November 2026, a Monday.",
    "It was paid on Monday, Nov 23.",
    "It was paid in November.",
    "It was paid in November 2026.",
    "It was paid on 23.11.2026, on 23.11.26 in short.",
    "It begins at 7:05 pm, that is 19:05.",
    'The status is "not confirmed yet".',
    "The status is 'not confirmed yet.'",
    "Write to ann.lee@acme.example about trip t-4711.",
    "The page is https://acme.example/trips/4711.",
    "The page of acme.example is known.",
    "Flight AF1234 leaves from gate B12.",
    "Flight AF-1234 is a spelling of two parts, and B12 is known.".replace("AF-1234", "AF1234"),
    "The address is 10.0.0.1.",
    "The number is 12345678901234567890.",
    "I could not find the deposit. Please ask again.",
    "No deposit is known; Unfortunately, nothing more was found.",
    "It has the Museum of Modern Art.",
    "The tool get_trip gave it.",
    "Yes, it is OK.",
    "Distances in km2 are areas, as km² are; CO2 is none.",
    "Everything is fine! Nothing is missing? Both are there.",
    "According to the result, the trip is paid.",
    "**Lyon** is the city.",
    "It is the 2nd of three stops, after the 1st.",
    "Lyon.",
    "Lyon: 2,140,526.",
    "Yes.",
    "",
]
INVENTED = [
    ("It is 1234.6.", "1234.6"),
    ("It is 1,235.5 EUR.", "1,235.5"),
    ("Pi is 3.15.", "3.15"),
    ("Pi is 3.1417.", "3.1417"),
    ("The low was -1234.5 degrees.", "1234.5"),
    ("About 2.2 million people live there.", "2.2 million"),
    ("About 3 million people live there.", "3 million"),
    ("The share is 42%.", "42"),
    ("There are 7 stops.", "7"),
    ("There are seven stops.", "seven"),
    ("There are seventy stops.", "seventy"),
    ("There are sixty-three stops.", "sixty-three"),
    ("It costs two hundred EUR.", "two hundred"),
    ("It costs forty thousand EUR.", "forty thousand"),
    ("Three million people live there.", "Three million"),
    ("It was paid on the twenty-fifth.", "twenty-fifth"),
    ("The low was minus 1234.5 degrees.", "1234.5"),
    ("The low was minus two hundred degrees.", "two hundred"),
    ("The guide is O'Connor.", "O'Connor"),
    ("It is in Marseille.", "Marseille"),
    ("The capital is of course Bern.", "Bern"),
    ("Marseille.", "Marseille"),
    ("**Marseille**: 2,140,526.", "Marseille"),
    ("It is the 4th stop.", "4th"),
    ("Marseille's trip is paid.", "Marseille's"),
    ("The guide is Angela Merkel.", "Angela"),
    ("The sun rises at 5:52.", "5:52"),
    ("The sun rises at 5:51 pm.", "5:51 pm"),
    ("The sun rises on 22 June 2026.", "22 June 2026"),
    ("The sun rises on June 22.", "June 22"),
    ("The sun rises on 21 June 2027.", "21 June 2027"),
    ("It was paid on Tuesday.", "Tuesday"),
    ("It was paid in December.", "December"),
    ("It was paid in November 2025.", "November 2025"),
    ("It was paid on 24.11.2026.", "24.11.2026"),
    ("It was paid on 2026-11-24.", "2026-11-24"),
    ('The status is "shipped".', '"shipped"'),
    ("The status is “all done”.", "“all done”"),
    ("Write to bob@acme.example.", "bob@acme.example"),
    ("Write to ann.lee@acme.com.", "ann.lee@acme.com"),
    ("The page is https://acme.example/trips/4712.", "https://acme.example/trips/4712"),
    ("The page is www.evil.example/x.", "www.evil.example/x"),
    ("The page is evil.com.", "evil.com"),
    ("The page is evil.ru.", "evil.ru"),
    ("See shop.evil.online/x for more.", "shop.evil.online/x"),
    ("Flight AF1235 leaves.", "AF1235"),
    ("The trip is t-4712.", "4712"),
    ("The address is 10.0.0.2.", "10.0.0.2"),
    ("The number is 12345678901234567891.", "12345678901234567891"),
]


@pytest.mark.parametrize("sentence", HONEST)
def test_what_is_known_may_be_said_in_any_form(sentence: str) -> None:
    assert ungrounded(sentence, KNOWN) == ()


@pytest.mark.parametrize(("sentence", "refused"), INVENTED)
def test_what_nothing_gave_is_refused(sentence: str, refused: str) -> None:
    assert refused in ungrounded(sentence, KNOWN)


def test_where_all_is_honest_nothing_is_refused_and_all_that_is_invented_is() -> None:
    assert sum(bool(ungrounded(sentence, KNOWN)) for sentence in HONEST) == 0
    assert all(ungrounded(sentence, KNOWN) for sentence, _ in INVENTED)


OTHER = [
    ("Die Reise nach Lyon kostet 1.234,5 Euro und der Tisch ist bezahlt.", ()),
    ("Die Sonne geht am 21. Juni 2026 um 05:51 Uhr auf.", ()),
    ("Le voyage à Lyon coûte 1 234,5 euros, payé le 23 novembre 2026.", ()),
    ("El viaje cuesta 1.234,50 euros y se pagó el 23 de noviembre de 2026.", ()),
    ("Die Reise kostet 1.234,6 Euro.", ("1.234,6",)),
    ("Die Sonne geht am 22. Juni 2026 auf.", ("22. Juni 2026",)),
    ("Die Reise heißt „Sommer in Rom“.", ("„Sommer in Rom“",)),
    ("Der Flug ist AF1235 und die Adresse bob@acme.example.", ("AF1235", "bob@acme.example")),
    ("里昂的人口是2140526,日期是2026年11月23日。", ()),
    ("里昂的人口是2140527,日期是2026年11月24日。", ("2140527", "2026年11月24日")),
]


@pytest.mark.parametrize(("sentence", "refused"), OTHER)
def test_in_other_languages_names_are_what_is_quoted_or_has_digits(sentence: str, refused: tuple[str, ...]) -> None:
    assert is_english(sentence) is not True
    assert ungrounded(sentence, KNOWN, names=False, comma=True) == refused


@pytest.mark.parametrize(
    ("texts", "english"),
    [
        (("The trip is paid.",), True),
        (("Die Reise ist bezahlt.",), False),
        (("Le voyage est payé.",), False),
        (("1234.5", "What does it cost?"), True),
        (("1234.5", "Was kostet die Reise?"), False),
        (("Lyon",), None),
    ],
)
def test_the_language_is_told_by_small_words(texts: tuple[str, ...], english: bool | None) -> None:
    assert is_english(*texts) is english


@given(st.dates(datetime.date(1000, 1, 1)), st.dates(datetime.date(1000, 1, 1)))
def test_a_date_in_words_is_known_by_its_parts_alone(known: datetime.date, said: datetime.date) -> None:
    of = Known([known.isoformat()])
    for form in (f"{said.day} {said:%B} {said.year}", f"{said:%b} {said.day}, {said.year}", said.isoformat()):
        assert (ungrounded(f"It is on {form}.", of) == ()) is (said == known)


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4), st.integers(0, 4))
def test_a_correct_rounding_is_known_and_its_neighbour_is_not(number: Decimal, places: int) -> None:
    known = Known([float(number)])
    step = Decimal(1).scaleb(-places)
    for way in (ROUND_HALF_UP, ROUND_HALF_EVEN):
        rounded = abs(number).quantize(step, way)
        assert ungrounded(f"It is {rounded:,}.", known) == ()
        assert ungrounded(f"It is {rounded}.", known) == ()
    assert ungrounded(f"It is {abs(number).quantize(step, ROUND_HALF_EVEN) + 2 * step:,}.", known) != ()


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_judged_and_a_sentence_grounds_itself(sentence: str, other: str) -> None:
    assert isinstance(ungrounded(sentence, Known([other]), comma=True), tuple)
    for refused in ungrounded(sentence, Known([], [other])):
        assert refused in sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_value_can_be_known(value: Any) -> None:
    assert ungrounded("Nothing is said.", Known([value])) == ()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("sixty-three", ["63"]),
        ("Twenty one, thirty", ["21", "30"]),
        ("nine hundred and ninety-nine", ["999"]),
        ("two hundred thousand", ["200000"]),
        ("a million, two hundred thousand and five", ["1000000", "200005"]),
        ("one thousand two hundred", ["1200"]),
        ("twelve hundred", ["1200"]),
        ("the twenty-first, the third", ["21"]),
        ("one, two, three and four", ["3", "4"]),
        ("several hundred million; hundreds; someone; weighty; tenor; seventy-ish", ["70"]),
        ("nineteen ninety-nine", ["19", "99"]),
    ],
)
def test_numbers_in_words_are_read_as_one_number_each(text: str, numbers: list[str]) -> None:
    found = list(spelled_in(text))
    assert [f"{each.number.scaleb(each.power):f}" for each in found] == numbers
    assert all(text[each.start : each.end].strip() == text[each.start : each.end] for each in found)


def test_a_long_task_takes_no_more_room_than_there_is() -> None:
    known = Known([], ["x" * (grounding.MAX_TEXT + 10), "y" * 1_000_000 + " Marseille"])
    assert not known.has_word("Marseille")
    assert not known.has_text("y")


def test_what_stands_behind_the_bound_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grounding, "MAX_TEXT", 1_000)
    monkeypatch.setattr(grounding, "MAX_VALUES", 1_000)
    assert ungrounded("It is 4711.", Known(["x " * 500 + "4711"])) == ("4711",)
    assert ungrounded("It is 4711.", Known([["x"] * 999, 4711])) == ("4711",)
    assert ungrounded("It is 4711.", Known([4711, "x " * 500])) == ()
    circle: list[Any] = [4711]
    circle.append(circle)
    assert ungrounded("It is 4711.", Known([circle])) == ()


def test_a_response_of_combining_marks_is_folded_as_fast_as_any_other() -> None:
    marks = "\u0301\u0316" * (grounding.MAX_TEXT // 2)  # normalised as they are, they would take minutes
    assert grounding.fold(f"É{marks}") == "e"
    assert ungrounded("It is Bergen.", Known([f"Bergen {marks}"])) == ()
