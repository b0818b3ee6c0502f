"""One search as it should go, shown to a planner before its task.

Without it a small model plans what no tool does ("verify the result") and gives the instruction for a query as its
query. It is written with the same functions that write the turns, so that it is in their format.
"""

from __future__ import annotations

from functools import cache

from atc.models.base import Message, Role
from atc.prompting import prompt
from atc.retrieval.dialogue import STOP, answer, show_plan, show_query
from atc.tools.protocol import Protocol

_TASK = "How many pages has the longest book of the author of 'Mio'? And what does it cost in yen?"
_GOALS = ("list the books of an author", "get the pages and the price of a book", "convert an amount to a currency")
_QUERY = "find a book by its title; title, author_id; books"


@cache
def worked_example() -> tuple[Message, ...]:
    """A task, its plan, what that finds, one query for an identifier that is missing, and the end."""
    return (
        _message("user", prompt("turns_task", task=_TASK)),
        _message("assistant", show_plan(_GOALS)),
        _message(
            "user",
            answer(
                [
                    _tool("list_books", "The books of an author.", "author_id"),
                    _tool("get_book", "Pages, language and price of a book.", "book_id"),
                    _tool("convert_amount", "An amount of money in another currency.", "amount", "to"),
                    _tool("list_currencies", "All currencies."),
                ]
            ),
        ),
        _message("assistant", show_query(_QUERY)),
        _message(
            "user",
            answer(
                [
                    _tool("search_books", "Books by words of their title, with their authors.", "title"),
                    _tool("search_libraries", "Libraries by their name.", "name"),
                ]
            ),
        ),
        _message("assistant", STOP),
    )


def _message(role: Role, content: str) -> Message:
    return Message(role, content, fixed=True)


def _tool(name: str, description: str, *required: str) -> Protocol:
    return Protocol(name=name, description=description, parameters={"type": "object", "required": list(required)})
