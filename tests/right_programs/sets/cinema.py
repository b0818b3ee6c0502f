"""A cinema guide over HTTP. Its document shows few of the fields that it answers with, as film databases do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atc import ToolError

KIND = "openapi"
TASKS = (
    "Which film of the director Ana Serra runs longest? Answer with its title.",
    "How many films has each production company made? Answer with a dict from company to number.",
    "List the titles of the films that run at cinema Roxy, sorted and without repeats.",
    "What is the mean vote of the films of 2024, weighted by their vote counts? Two decimals.",
    "Who acts in both 'Tide' and 'Harbour'? Answer with the names, sorted.",
    "Which genre has the most films? Answer with its name.",
    "What is the cheapest seat for 'Tide', and at which cinema? Answer as a dict with 'price' and 'cinema'.",
    "Book two seats for the earliest show of 'Harbour'. Answer with the booking code.",
    "Which films have no show anywhere? Titles, sorted.",
    "What is the total runtime, in hours with one decimal, of all films in Spanish?",
    "For each cinema, the number of seats that are left today in all its shows. Answer with a dict by cinema name.",
    "Which actor plays in the most films? Answer with the name.",
    "Give all reviews of 'Glass' that have at least 4 stars, as texts, the longest first.",
    "Which two films have the largest difference of budgets? Answer with the two titles, sorted.",
    "How many films have a budget above the median budget? Films without a budget do not count.",
    "Which film made the most money (revenue minus budget)? Answer with title and profit as a list.",
    "In which years was no film released between the first and the last? Answer with a sorted list.",
    "Book one seat at every show of cinema Lux that has seats left. Answer with the number of bookings.",
    "Which character names does Lea Moran play? Sorted list.",
    "Is there a film whose original title differs from its title? Answer with a list of [title, original title].",
)


def _get(summary: str, name: str, schema: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": list(parameters),
            "responses": {"200": {"description": "OK", "content": content}},
        }
    }


def _in(place: str, name: str, kind: str = "string", required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required or place == "path", "schema": {"type": kind}}


TEXT, INTEGER, OBJECT = {"type": "string"}, {"type": "integer"}, {"type": "object"}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Cinema guide", "version": "1"},
    "paths": {
        "/films": _get(
            "Search films. Without a query, all films; a page has three. The answer has page, total_pages and results;"
            " each result has the film's id, title and year.",
            "search_films",
            {
                "type": "object",
                "properties": {
                    "page": INTEGER,
                    "results": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"id": INTEGER, "title": TEXT}},
                    },
                },
            },
            _in("query", "query"),
            _in("query", "page", "integer"),
        ),
        "/films/{film_id}": _get(
            "Details of a film: also original_title, runtime in minutes, language, vote_average, vote_count, budget and"
            " revenue (may be missing), genres (objects with name), director and production_companies (objects with name).",
            "film_details",
            {"type": "object", "properties": {"id": INTEGER, "title": TEXT, "runtime": INTEGER}},
            _in("path", "film_id", "integer"),
        ),
        "/films/{film_id}/credits": _get(
            "Cast of a film: the answer has a list cast, each with name and character.",
            "film_credits",
            OBJECT,
            _in("path", "film_id", "integer"),
        ),
        "/films/{film_id}/reviews": _get(
            "Reviews of a film: a list of objects with stars and text.",
            "film_reviews",
            {},
            _in("path", "film_id", "integer"),
        ),
        "/shows": _get(
            "Shows of today, by cinema or film.",
            "list_shows",
            {
                "type": "object",
                "properties": {"shows": {"type": "array", "items": OBJECT}},
                "example": {
                    "shows": [
                        {"show_id": "s9", "film_id": 9, "cinema": "Rex", "time": "20:15", "price": 9.5, "seats_left": 3}
                    ]
                },
            },
            _in("query", "cinema"),
            _in("query", "film_id", "integer"),
        ),
        "/bookings": {
            "post": {
                "operationId": "book_seats",
                "summary": "Book seats of a show. The answer has a code.",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["show_id", "seats"],
                                "properties": {"show_id": TEXT, "seats": {"type": "integer", "minimum": 1}},
                            }
                        }
                    },
                },
                "responses": {"201": {"description": "Created"}},
            }
        },
    },
}

FILMS: dict[int, dict[str, Any]] = {
    1: {"title": "Tide", "original_title": "Marea", "year": 2024, "runtime": 104, "language": "es", "vote_average": 7.1,
        "vote_count": 210, "budget": 900, "revenue": 2100, "genres": [{"name": "Drama"}], "director": {"name": "Ana Serra"},
        "production_companies": [{"name": "Azul"}, {"name": "Nord"}]},
    2: {"title": "Harbour", "original_title": "Harbour", "year": 2024, "runtime": 95, "language": "en", "vote_average": 6.2,
        "vote_count": 90, "budget": 400, "revenue": 350, "genres": [{"name": "Drama"}, {"name": "Crime"}],
        "director": {"name": "Tom Reid"}, "production_companies": [{"name": "Nord"}]},
    3: {"title": "Glass", "original_title": "Vidrio", "year": 2021, "runtime": 131, "language": "es", "vote_average": 8.0,
        "vote_count": 400, "genres": [{"name": "Thriller"}], "director": {"name": "Ana Serra"}, "production_companies": []},
    4: {"title": "Ember", "original_title": "Ember", "year": 2019, "runtime": 88, "language": "en", "vote_average": 5.5,
        "vote_count": 12, "budget": 150, "revenue": 900, "genres": [{"name": "Crime"}, {"name": "Drama"}],
        "director": {"name": "Io Park"}, "production_companies": [{"name": "Nord"}]},
}  # fmt: skip
CAST = {
    1: [("Lea Moran", "Ines"), ("Pau Gil", "Marc")],
    2: [("Lea Moran", "June"), ("Sam Hart", "Cole")],
    3: [("Pau Gil", "Victor"), ("Nia Roy", "Eva")],
    4: [("Lea Moran", "Ash")],
}
REVIEWS = {3: [(5, "Sharp as its title"), (2, "Cold"), (4, "Quiet, and better for it")], 1: [(3, "Fine")]}
SHOWS = [
    {"show_id": "s1", "film_id": 1, "cinema": "Roxy", "time": "18:00", "price": 9.5, "seats_left": 4},
    {"show_id": "s2", "film_id": 2, "cinema": "Roxy", "time": "20:30", "price": 11.0, "seats_left": 7},
    {"show_id": "s3", "film_id": 1, "cinema": "Lux", "time": "17:15", "price": 8.0, "seats_left": 0},
    {"show_id": "s4", "film_id": 2, "cinema": "Lux", "time": "16:45", "price": 10.0, "seats_left": 2},
    {"show_id": "s5", "film_id": 3, "cinema": "Lux", "time": "21:00", "price": 12.0, "seats_left": 9},
]


def functions() -> list[Callable[..., Any]]:
    """What the service does, with seats of its own."""
    shows = [dict(s) for s in SHOWS]

    def film(film_id: int) -> dict[str, Any]:
        if film_id not in FILMS:
            raise ToolError("no such film", status=404)
        return {"id": film_id, **FILMS[film_id]}

    def search_films(query: str = "", page: int = 1) -> dict[str, Any]:
        found = [
            {"id": n, "title": f["title"], "year": f["year"]}
            for n, f in FILMS.items()
            if query.lower() in f["title"].lower()
        ]
        results = found[(page - 1) * 3 : page * 3]
        return {"page": page, "total_pages": -(-len(found) // 3), "total_results": len(found), "results": results}

    def film_details(film_id: int) -> dict[str, Any]:
        return film(film_id)

    def film_credits(film_id: int) -> dict[str, Any]:
        return {"id": film(film_id)["id"], "cast": [{"name": n, "character": c} for n, c in CAST[film_id]]}

    def film_reviews(film_id: int) -> list[dict[str, Any]]:
        return [{"stars": s, "text": t} for s, t in REVIEWS.get(film(film_id)["id"], [])]

    def list_shows(cinema: str | None = None, film_id: int | None = None) -> dict[str, Any]:
        return {"shows": [s for s in shows if cinema in (None, s["cinema"]) and film_id in (None, s["film_id"])]}

    def book_seats(show_id: str, seats: int) -> dict[str, Any]:
        show = next(s for s in shows if s["show_id"] == show_id)
        if show["seats_left"] < seats:
            raise ToolError("not enough seats", status=409)
        show["seats_left"] -= seats
        return {"code": f"{show_id}x{seats}", "paid": show["price"] * seats}

    return [search_films, film_details, film_credits, film_reviews, list_shows, book_seats]
