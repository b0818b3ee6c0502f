"""Lexical search: BM25 over weighed fields, in a sparse matrix of ready scores (``bm25s``).

The fields of a tool share one index, where a word counts as often as its field weighs: Robertson, Zaragoza and
Taylor's simple extension of BM25 to weighted fields (CIKM 2004). Saturation then works on the weighed sum, so that a
word in three fields is not three times as good as a word in one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from atc.retrieval.counts import Counts, blocks
from atc.retrieval.stopwords import MEASURES, STOP_WORDS
from atc.retrieval.words import words

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
        """The words, in the order of their positions."""
        return [word for word in self._matrix.vocab_dict if word]

    def __len__(self) -> int:
        return int(self._matrix.scores["num_docs"])

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every document, in their order; 0 where it shares no word with the query."""
        ids = self._matrix.get_tokens_ids(_asked(query))
        if not ids:
            return np.zeros(len(self), np.float32)
        found: NDArray[np.float32] = self._matrix.get_scores_from_ids(sorted(ids))
        return found


def _asked(query: str) -> list[str]:
    """The different words of a query, without those that say nothing, unless it has no others.

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
