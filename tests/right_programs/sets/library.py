"""A town library: typed functions with dataclasses, a NamedTuple and dates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple

from atc import ToolError, tool

KIND = "functions"
TASKS = (
    "Which author has the most books in the catalogue? Answer with the name.",
    "List the titles of all books published before 1960, oldest first.",
    "How many copies of 'Mio' does each branch have? Answer with a dict from branch to number.",
    "Who has borrowed more than one book that is overdue on 2026-05-10? Answer with their names, sorted.",
    "Renew the loan of 'The Summer Book' by Ida Holm by 14 days. Answer with the new due date.",
    "What share of the loans of 2026 came back late, in percent, rounded to one decimal?",
    "For each branch, which language has the most copies there? Answer with a dict.",
    "Reserve the longest book by Tove Jansson for Ida Holm, at the branch with the most copies. Answer with the number.",
    "Which books has nobody ever borrowed? Answer with their titles, sorted.",
    "What is the median number of pages of the Swedish books?",
    "How many days, on average, did returned loans take? Round to two decimals.",
    "Which member has no e-mail address and an open loan? Answer with the names, sorted.",
    "Reserve 'Mio' and 'Comet' for Per Berg at Lund. Skip a book that cannot be reserved. Answer with the numbers.",
    "Group the titles by the decade in which they were published. Answer with a dict from decade to sorted titles.",
    "Which two books share the most subjects? Answer with their titles, sorted.",
    "What is the earliest due date among open loans, and whose loan is it? Answer as a dict with 'due' and 'name'.",
    "Which subjects occur in books of exactly one language? Answer with a sorted list.",
    "For each member who has an e-mail, the number of loans in 2026. Answer with a dict from e-mail to number.",
    "Is there a book whose title contains a digit or a question mark? Answer true or false.",
    "Write a table of branch and total copies, as lines of text 'branch: copies', the largest first.",
)


class Copies(NamedTuple):
    branch: str
    number: int


@dataclass
class Book:
    book_id: str
    title: str
    author: str
    year: int
    language: Literal["sv", "en", "fi"]
    pages: int
    subjects: list[str] = field(default_factory=list)


@dataclass
class Loan:
    loan_id: int
    book_id: str
    member_id: int
    taken: date
    due: date
    returned: date | None = None


@dataclass
class Member:
    member_id: int
    name: str
    email: str | None = None


BOOKS = [
    Book("b1", "Mio", "Astrid Lindgren", 1954, "sv", 212, ["children", "adventure"]),
    Book("b2", "The Summer Book", "Tove Jansson", 1972, "en", 170, ["island", "family"]),
    Book("b3", "Comet", "Tove Jansson", 1946, "sv", 180, ["children", "space"]),
    Book("b4", "Fair Play", "Tove Jansson", 1989, "sv", 150, ["art", "family"]),
    Book("b5", "Who? 7 Riddles", "Aino Laine", 2003, "fi", 96, ["riddles", "children", "adventure"]),
    Book("b6", "Brothers", "Astrid Lindgren", 1973, "sv", 260, ["children", "adventure", "family"]),
]
MEMBERS = [Member(1, "Ida Holm", "ida@lib.example"), Member(2, "Per Berg"), Member(3, "Eva Ek", "eva@lib.example")]
STOCK = {
    "b1": [Copies("Lund", 3), Copies("Ystad", 1)],
    "b2": [Copies("Lund", 1)],
    "b3": [Copies("Ystad", 2)],
    "b4": [Copies("Lund", 1), Copies("Ystad", 2)],
    "b5": [],
    "b6": [Copies("Ystad", 4), Copies("Lund", 2)],
}
DAY = date(2026, 4, 1)


def functions() -> list[Callable[..., Any]]:
    """The tools, with loans of their own."""
    loans = [
        Loan(1, "b1", 1, DAY, DAY + timedelta(28), DAY + timedelta(30)),
        Loan(2, "b2", 1, DAY + timedelta(5), DAY + timedelta(33)),
        Loan(3, "b3", 2, DAY, DAY + timedelta(28)),
        Loan(4, "b6", 2, DAY + timedelta(3), DAY + timedelta(31)),
        Loan(5, "b6", 3, date(2025, 12, 1), date(2025, 12, 29), date(2025, 12, 20)),
        Loan(6, "b4", 3, DAY + timedelta(9), DAY + timedelta(37), DAY + timedelta(20)),
    ]

    @tool(effect="read")
    def list_books(author: str | None = None, language: Literal["sv", "en", "fi"] | None = None) -> list[Book]:
        """List the books of the catalogue.

        Args:
            author: only books of this author, by the whole name
            language: only books in this language
        """
        return [b for b in BOOKS if author in (None, b.author) and language in (None, b.language)]

    @tool(effect="read")
    def copies(book_id: str) -> list[Copies]:
        """How many copies of a book each branch has."""
        if book_id not in STOCK:
            raise ToolError(f"there is no book {book_id}", status="not_found")
        return STOCK[book_id]

    @tool(effect="read")
    def list_members() -> list[Member]:
        """List all members."""
        return MEMBERS

    @tool(effect="read")
    def list_loans(member_id: int | None = None, open_only: bool = False) -> list[Loan]:
        """List loans, of one member or of all. ``returned`` is null as long as a loan is open."""
        return [x for x in loans if member_id in (None, x.member_id) and not (open_only and x.returned)]

    @tool(effect="write")
    def renew_loan(loan_id: int, days: int = 28) -> Loan:
        """Renew an open loan by some days from its due date."""
        loan = next((x for x in loans if x.loan_id == loan_id and x.returned is None), None)
        if loan is None:
            raise ToolError(f"loan {loan_id} is not open", status="conflict")
        loan.due += timedelta(days)
        return loan

    @tool(effect="write")
    def reserve(book_id: str, member_id: int, branch: str) -> int:
        """Reserve a copy of a book at a branch. Returns the number of the reservation. Fails without copies there."""
        if all(c.branch != branch for c in STOCK[book_id]):
            raise ToolError(f"no copies of {book_id} at {branch}", status="conflict")
        return 100 * member_id + int(book_id[1:])

    return [list_books, copies, list_members, list_loans, renew_loan, reserve]
