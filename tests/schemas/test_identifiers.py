"""One reading of names: their words, their singular, and whether they name an identifier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.schemas.identifiers import COORDINATES, HANDED_OUT, THINGS, humps, is_identifier, singular, split, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("from_city_ids", ("from", "city", "id")),
        ("fromCityIds", ("from", "city", "id")),
        ("userIDs", ("user", "id")),
        ("branches_by_addresses", ("branch", "by", "address")),
        ("indexes_of_caches", ("index", "of", "cache")),
        ("listVMs", ("list", "vm")),
        ("HTTPStatusCode", ("http", "status", "code")),
        ("getAPIKey", ("get", "api", "key")),
        ("address1", ("address1",)),
        ("movies[0].ratings", ("movie", "0", "rating")),
        ("news-series", ("news", "series")),
        ("x-api-key", ("x", "api", "key")),
        ("status", ("status",)),
        ("---", ()),
        ("", ()),
    ],
)
def test_the_words_of_a_name_are_singular_and_in_lower_case(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


def test_numbers_are_words_of_their_own_where_that_is_asked() -> None:
    assert split("password1 temp2m", digits=True) == ("password", "1", "temp", "2", "m")
    assert split("password1 temp2m") == ("password1", "temp2m")


def test_a_stem_only_has_to_be_one_for_both_forms() -> None:
    for one, several in (("movie", "movies"), ("address", "addresses"), ("box", "boxes"), ("city", "cities")):
        assert singular(one, stem=True) == singular(several, stem=True)
    assert singular("movies") == "movie"


@given(st.text(max_size=60))
def test_nothing_is_added_and_words_are_stable(name: str) -> None:
    words = split(name)
    assert "".join(words) == "".join(c for c in name if c.isascii() and c.isalnum()).lower()
    assert split("_".join(words)) == words
    assert "".join(humps(name)) == "".join(humps(name, stem=True)) == name


@pytest.mark.parametrize("name", ["id", "userIDs", "city_code", "iata", "order_number", "page_token"])
def test_an_identifier_is_known_by_its_last_word(name: str) -> None:
    assert is_identifier(name)
    assert not is_identifier(f"{name}_date")


def test_the_caller_says_which_kinds_of_identifier_count() -> None:
    assert is_identifier("user_id", THINGS)
    assert not is_identifier("page_token", THINGS)
    assert is_identifier("page_token", THINGS | HANDED_OUT)
    assert not is_identifier("latitude")
    assert is_identifier("latitude", COORDINATES)
    assert not is_identifier("grid")
