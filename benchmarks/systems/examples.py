"""One solved task that the small systems are shown before theirs, each in its own form, for ATC is shown one too."""

from __future__ import annotations

from atc.models.base import Message

_TASK = """\
An example, with other tools: find_authors(name), list_books(author_id) and get_book(book_id).

Task: How often was the book Mio by Astrid Lindgren lent in Lund? Answer with the number."""

REACT = (
    Message("user", _TASK),
    Message(
        "assistant",
        'Thought: I need the id of the author\nAction: find_authors\nAction Input: {"name": "Astrid Lindgren"}',
    ),
    Message("user", 'Observation: {"authors": [{"author_id": "a17", "name": "Astrid Lindgren", "born": 1907}]}'),
    Message("assistant", 'Thought: I need her books\nAction: list_books\nAction Input: {"author_id": "a17"}'),
    Message("user", 'Observation: {"books": [{"book_id": "b4", "title": "Mio", "language": "sv"}], "total": 1}'),
    Message("assistant", 'Thought: I need the loans of b4\nAction: get_book\nAction Input: {"book_id": "b4"}'),
    Message("user", 'Observation: {"book_id": "b4", "pages": 212, "loans": {"Lund": 12, "Kalmar": 7}}'),
    Message("assistant", "Thought: I know the answer\nFinal Answer: 12"),
)

CODEACT = (
    Message("user", _TASK),
    Message(
        "assistant",
        "I look the author up, and her books.\n```python\n"
        'author = find_authors(name="Astrid Lindgren")["authors"][0]\n'
        'books = list_books(author_id=author["author_id"])["books"]\nprint(books)\n```',
    ),
    Message("user", "It printed:\n[{'book_id': 'b4', 'title': 'Mio', 'language': 'sv'}]\n"),
    Message(
        "assistant",
        'It is the book b4.\n```python\nbook = get_book(book_id="b4")\nfinal_answer(book["loans"]["Lund"])\n```',
    ),
)
