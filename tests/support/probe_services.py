"""Small services that many tests of probing ask: a library, whose tools need each other's ids, and a shop."""

from __future__ import annotations

import json

from tests.support.probe import Says, Service

AUTHORS = {"a-71": "Ursula", "a-94": "Stanisław"}
BOOKS = {
    "b-3": {"title": "The Dispossessed", "author_id": "a-71", "year": 1974, "isbn": None},
    "b-8": {"title": "Solaris", "author_id": "a-94", "year": 1961, "isbn": "0156027607"},
    "b-9": {"title": "Eden", "author_id": "a-94", "year": 1958, "isbn": None},
}
LIBRARY = ("list_shelves", "list_books", "get_book", "get_author")
GOOD = {"list_goods": "documented", "get_good": "documented"}

FASTAPI = {
    "detail": [
        {"type": "missing", "loc": ["query", "q"], "msg": "Field required", "input": None},
        {"type": "int_parsing", "loc": ["query", "limit"], "msg": "Input should be a valid integer, unable to parse"},
        {
            "type": "literal_error",
            "loc": ["query", "u"],
            "msg": "Input should be 'a', 'b' or 'c'",
            "ctx": {"expected": "'a', 'b' or 'c'"},
        },
        {
            "type": "less_than_equal",
            "loc": ["query", "n"],
            "msg": "Input should be less than or equal to 50",
            "ctx": {"le": 50},
        },
        {"type": "date_from_datetime_parsing", "loc": ["query", "on"], "msg": "Input should be a valid date or …"},
        {"type": "extra_forbidden", "loc": ["query", "zz"], "msg": "Extra inputs are not permitted"},
        {"type": "missing", "loc": ["body", "user", "name"], "msg": "Field required"},
    ]
}


def missing(what: str = "thing") -> Says:
    return Says(json.dumps({"detail": f"there is no such {what}"}), 404)


def add_library(service: Service) -> None:
    """shelves → books of a shelf → a book → its author: each needs an id out of the one before."""
    service.route(
        "list_shelves",
        "/shelves",
        {"shelves": [{"shelf_id": "s-1", "room": "north"}, {"shelf_id": "s-2", "room": "south"}]},
    )
    on = {"s-1": ["b-3", "b-8"], "s-2": ["b-9"]}
    service.route(
        "list_books",
        "/shelves/{shelf_id}/books",
        lambda a: (
            [{"book_id": b, "title": BOOKS[b]["title"]} for b in on[a["shelf_id"]]]
            if a["shelf_id"] in on
            else missing("shelf")
        ),
    )
    service.route("get_book", "/books/{book_id}", lambda a: BOOKS.get(a["book_id"]) or missing("book"))
    service.route(
        "get_author",
        "/authors/{author_id}",
        lambda a: {"name": AUTHORS[a["author_id"]]} if a["author_id"] in AUTHORS else missing("author"),
    )


def add_goods(service: Service) -> None:
    """Two tools that behave: a list, and what needs an id out of it."""
    service.route("list_goods", "/goods", [{"good_id": "g-17", "name": "Lamp"}, {"good_id": "g-23", "name": "Chair"}])
    known = {"g-17": {"name": "Lamp", "price": 12.5}, "g-23": {"name": "Chair", "price": 40}}
    service.route("get_good", "/goods/{good_id}", lambda a: known.get(a["good_id"]) or missing())
