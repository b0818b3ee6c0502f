"""The worked example that a planner is shown (the paper has none; :attr:`atc.retrieval.turns.Turns.example`).

Without it a small model plans what no tool does ("verify the result") and gives the instruction for a query as its
query. It is written by the same writer as the turns, so that it is in their format.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from atc.models.base import Message, Role
from atc.retrieval.dialogue import Plan
from atc.tools.protocol import Protocol

if TYPE_CHECKING:
    from atc.retrieval.turns import Turns

_TASK = "How many pages has the longest book of the author of 'Mio'? And what does it cost in yen?"
_GOALS = ("list the books of an author", "get the pages and the price of a book", "convert an amount to a currency")
_WORDS = (
    "For a question about the books of an author, find tools that list an author's books, that give the pages and the "
    "price of a book, and that convert an amount of money to another currency."
)
_QUERIES = (
    "list the books of an author; author_id; books",
    "pages and price of a book; book_id; books",
    "convert an amount to a currency; amount, to; money",
)
_MISSING = "find a book by its title; title, author_id; books"


@cache
def worked_example(turns: Turns) -> tuple[Message, ...]:
    """A task, its plan, what that finds, one query for an identifier that is missing, and the end."""
    by_author = _tool("list_books", "The books of an author.", "author_id")
    of_book = _tool("get_book", "Pages, language and price of a book.", "book_id")
    convert = _tool("convert_amount", "An amount of money in another currency.", "amount", "to")
    currencies = _tool("list_currencies", "All currencies.")
    by_title = _tool("search_books", "Books by words of their title, with their authors.", "title")
    libraries = _tool("search_libraries", "Libraries by their name.", "name")

    steps = [(_MISSING, [by_title, libraries])]
    if turns.eager:
        after_plan = turns.results([by_author, of_book, convert, currencies])
    else:
        after_plan = turns.begin()
        found = ([by_author, by_title], [of_book, by_author], [convert, currencies])
        steps = [*zip(_QUERIES, found, strict=True), *steps]
    messages = [_message("user", turns.task(_TASK)), _message("assistant", turns.plan(Plan(_WORDS, _GOALS)))]
    messages.append(_message("user", after_plan))
    for query, tools in steps:
        messages += [_message("assistant", turns.query(query)), _message("user", turns.results(tools))]
    return (*messages, _message("assistant", turns.stop))


def _message(role: Role, content: str) -> Message:
    return Message(role, content, fixed=True)


def _tool(name: str, description: str, *required: str) -> Protocol:
    return Protocol(name=name, description=description, parameters={"type": "object", "required": list(required)})
