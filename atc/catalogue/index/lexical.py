"""Lexical search: BM25 over weighed fields, in a sparse matrix of ready scores (``bm25s``).

The fields of a tool share one index, where a word counts as often as its field weighs: Robertson, Zaragoza and
Taylor's simple extension of BM25 to weighted fields (CIKM 2004). Saturation then works on the weighed sum, so that a
word in three fields is not three times as good as a word in one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.documents import DocumentFields
from atc.catalogue.index.words import MEASURES, STOP_WORDS, words
from atc.errors import UsageError

# -- counts of words by document ---------------------------------------------------------------------------------------
# Counts of words by document: the lexical index is made from them, and anew when tools change.

Integers = NDArray[np.int32]
MOST = 64_000_000
"""Words that are counted at most, each once a document; some tens of bytes each while an index is built."""
_AT_ONCE = 1_000_000
"""Entries that are sorted at once."""
Pointers = NDArray[np.int64]

WEIGHTS: Mapping[str, int] = {
    "name": 3,
    "service": 2,
    "description": 1,
    "parameters": 1,
    "details": 1,
    "returns": 1,
}
"""Times that a word of a field counts, however often the field has it: repeating a word earns nothing.

Chosen by ``python -m benchmarks.retrieval --method lexical`` (docs/benchmarks/search.md).
"""


@dataclass(frozen=True)
class Counts:
    """A matrix of documents and words, row by row.

    Attributes:
        vocabulary: the words, sorted; every one of them occurs.
        pointers: where each row begins in ``words`` and ``weights``; one more than there are documents.
        words: positions in the vocabulary, ascending in each row.
        weights: of the fields that have the word, together.
    """

    vocabulary: Sequence[str]
    pointers: Pointers
    words: Integers
    weights: Integers

    def __len__(self) -> int:
        return len(self.pointers) - 1


def count(documents: Iterable[DocumentFields]) -> Counts:
    """Count the words of documents.

    Raises:
        UsageError: they have more than :data:`MOST`.
    """
    known: dict[str, int] = {}
    # arrays: as lists of whole numbers they would take ten times the memory, a gigabyte for 500,000 tools
    pointers, found, weights = array("q", [0]), array("i"), array("i")
    for document in documents:
        row: dict[str, int] = {}
        for field, weight in WEIGHTS.items():
            for word in set(words(getattr(document, field))):
                row[word] = row.get(word, 0) + weight
        found.extend(known.setdefault(word, len(known)) for word in row)
        weights.extend(row.values())
        pointers.append(len(found))
        if len(found) > MOST:
            raise UsageError(
                f"an index counts {MOST:,} words at most, each once a tool, and the first {len(pointers) - 1:,} tools "
                "have more: build several indexes, by service or by kind"
            )
    of_array = (np.frombuffer(each, kind) for each, kind in ((pointers, "q"), (found, "i"), (weights, "i")))
    return _in_order(list(known), *of_array)


def merge(old: Counts, new: Counts, rows: Sequence[int] | NDArray[np.int64]) -> Counts:
    """Put rows of two matrices together.

    Args:
        old: one matrix.
        new: the other.
        rows: for each row of the result where it is from: ``row`` of ``old``, or ``-1 - row`` of ``new``.
    """
    vocabulary = list(old.vocabulary)
    known = {word: position for position, word in enumerate(vocabulary)}
    translated = np.array([known.setdefault(word, len(known)) for word in new.vocabulary] or [0], np.int32)
    vocabulary = list(known)
    origin = np.array(rows, np.int64)
    shifted = np.where(origin < 0, len(old) - 1 - origin, origin)  # rows of the two, one after the other
    starts = np.concatenate([old.pointers[:-1], new.pointers[:-1] + old.pointers[-1]])
    lengths = np.concatenate([np.diff(old.pointers), np.diff(new.pointers)])[shifted]
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    words_of_both = np.concatenate([old.words, translated[new.words]])
    weights_of_both = np.concatenate([old.weights, new.weights])
    found, weights = np.empty(pointers[-1], np.int32), np.empty(pointers[-1], np.int32)
    for begin, end in blocks(pointers):
        entries = slice(pointers[begin], pointers[end])
        moved = np.repeat(starts[shifted[begin:end]] - pointers[begin:end], lengths[begin:end])
        taken = moved + np.arange(entries.start, entries.stop)
        found[entries], weights[entries] = words_of_both[taken], weights_of_both[taken]
    del words_of_both, weights_of_both
    return _in_order(vocabulary, pointers, found, weights)


def blocks(pointers: Pointers) -> Iterator[tuple[int, int]]:
    """Yield rows in runs of some millions of entries, for work whose memory must not grow with all of them."""
    rows, begin = len(pointers) - 1, 0
    while begin < rows:
        end = int(np.searchsorted(pointers, pointers[begin] + _AT_ONCE, "right")) - 1
        yield begin, (begin := min(max(end, begin + 1), rows))


def entries_of(rows: NDArray[np.int64], pointers: Pointers) -> tuple[Pointers, Pointers]:
    """Return where the entries of some rows lie, row by row, and where those of each row begin among them.

    Args:
        rows: in any order.
        pointers: of the matrix.
    """
    lengths = pointers[rows + 1] - pointers[rows]
    begins = np.cumsum(lengths) - lengths
    return np.repeat(pointers[rows] - begins, lengths) + np.arange(int(lengths.sum())), begins


def _in_order(vocabulary: list[str], pointers: Pointers, found: Integers, weights: Integers) -> Counts:
    """Return the one form of these counts: unused words dropped, the vocabulary and each row sorted."""
    used = np.flatnonzero(np.bincount(found, minlength=1))
    used_words = sorted((vocabulary[i], int(i)) for i in used)
    position = np.zeros(len(vocabulary) or 1, np.int32)
    position[np.array([i for _, i in used_words], np.int64)] = np.arange(len(used_words), dtype=np.int32)
    placed, weighed = np.empty(len(found), np.int32), np.empty(len(found), np.int32)
    for begin, end in blocks(pointers):
        entries = slice(pointers[begin], pointers[end])
        words_there = position[found[entries]]
        rows = np.repeat(np.arange(end - begin), np.diff(pointers[begin : end + 1]))
        order = np.lexsort((words_there, rows))
        placed[entries], weighed[entries] = words_there[order], weights[entries][order]
    return Counts([word for word, _ in used_words], pointers, placed, weighed)


# -- scores ------------------------------------------------------------------------------------------------------------

K1, B = 4.0, 0.75
"""Saturation comes late because a word of a name counts three times; 2.5 and 6 are half a point worse."""

MAX_QUERY_WORDS = 400
"""Different words of a query that are looked up, the first ones; a longer query is no question."""


class LexicalIndex:
    """BM25 scores of documents for queries.

    Args:
        matrix: the scores, as :meth:`build` makes and :meth:`load` reads them.
    """

    def __init__(self, matrix: bm25s.BM25) -> None:
        self._matrix = matrix

    @classmethod
    def build(cls, counts: Counts) -> LexicalIndex:
        """Compute the scores of every word in every document."""
        matrix = bm25s.BM25(k1=K1, b=B, method="lucene")
        matrix.scores = _scores(counts)
        matrix.nonoccurrence_array = None
        matrix.vocab_dict = {word: position for position, word in enumerate(counts.vocabulary)}
        matrix.unique_token_ids_set = set(range(len(counts.vocabulary)))
        return cls(matrix)

    def save(self, folder: Path) -> None:
        """Write the matrix into a folder of its own."""
        self._matrix.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> LexicalIndex:
        """Read what :meth:`save` wrote; the matrix stays on disk and is mapped into memory."""
        return cls(bm25s.BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False, verbosity=0))

    @property
    def vocabulary(self) -> list[str]:
        """Return the words, in the order of their positions."""
        return [word for word in self._matrix.vocab_dict if word]

    def __len__(self) -> int:
        return int(self._matrix.scores["num_docs"])

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of every document, in their order; 0 where it shares no word with the query."""
        ids = self._matrix.get_tokens_ids(_asked(query))
        if not ids:
            return np.zeros(len(self), np.float32)
        found: NDArray[np.float32] = self._matrix.get_scores_from_ids(sorted(ids))
        return found


def _asked(query: str) -> list[str]:
    """Return the different words of a query, without those that say nothing, unless it has no others.

    `how long` counts as the nouns that it asks for: no tool for the length of a day says `long`, and others do.
    """
    written, asked = words(query), list[str]()
    for before, word in zip(["", *written], written, strict=False):
        asked += MEASURES.get(word, [word]) if before == "how" else [word]
    asked = list(dict.fromkeys(asked))
    return ([word for word in asked if word not in STOP_WORDS] or asked)[:MAX_QUERY_WORDS]


def _scores(counts: Counts) -> dict[str, Any]:
    """Scores of all words in all documents, column by column (a word's documents stand together).

    Lucene's form of BM25: ``ln(1 + (N - df + ½) / (df + ½)) · tf / (tf + k1 · (1 - b + b · length / mean length))``.
    """
    documents, vocabulary = len(counts), len(counts.vocabulary)
    lengths = np.zeros(documents)
    for begin, end in blocks(counts.pointers):
        rows = np.repeat(np.arange(end - begin), np.diff(counts.pointers[begin : end + 1]))
        weights = counts.weights[counts.pointers[begin] : counts.pointers[end]]
        lengths[begin:end] = np.bincount(rows, weights, minlength=end - begin)
    mean = lengths.mean() if documents else 0.0
    norm = K1 * (1 - B + B * lengths / (mean or 1.0))
    having = np.bincount(counts.words, minlength=vocabulary)
    rarity = np.log1p((documents - having + 0.5) / (having + 0.5))
    columns = np.concatenate([[0], np.cumsum(having)]).astype(np.int64)
    data, indices = np.empty(len(counts.words), np.float32), np.empty(len(counts.words), np.int32)
    free = columns[:-1].copy()  # where the next document of each word goes
    for begin, end in blocks(counts.pointers):
        entries = slice(counts.pointers[begin], counts.pointers[end])
        words_there = counts.words[entries]
        by_word = np.argsort(words_there, kind="stable")
        word = words_there[by_word]
        row = np.repeat(np.arange(begin, end, dtype=np.int32), np.diff(counts.pointers[begin : end + 1]))[by_word]
        weight = counts.weights[entries][by_word].astype(np.float64)
        first = np.flatnonzero(np.diff(word, prepend=-1))  # of each word's run
        lengths_there = np.diff(np.append(first, len(word)))
        places = free[word] + np.arange(len(word)) - np.repeat(first, lengths_there)
        data[places], indices[places] = rarity[word] * weight / (weight + norm[row]), row
        free[word[first]] += lengths_there
    return {"data": data, "indices": indices, "indptr": columns, "num_docs": documents}
