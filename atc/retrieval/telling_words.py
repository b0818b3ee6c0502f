"""Names of groups of documents: the words that tell a group from those beside it (class-based TF-IDF).

A word counts for a group by how often it occurs there, times log(1 + A / f): A is the mean number of words of a group,
f how often the word occurs in all of them; and times the part of f that is the group's own: where few groups stand
beside each other, the logarithm alone leaves in front what all of them have (docs/benchmarks/search.md). Words are
taken one after the other, each for the documents that no earlier one is in, so that a name covers its group. The counts
of an index hold words in a normal form that need be no English; a name has them as documents have them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.counts import Counts, entries_of
from atc.retrieval.stopwords import STOP_WORDS
from atc.retrieval.words import words, written

if TYPE_CHECKING:
    from atc.retrieval.snapshot import Snapshot

Rows = NDArray[np.int64]

WORDS, MOST_WORDS = 4, 6
"""Words of a name, and with those that make it differ from others beside it."""
MAX_NAME = 60
"""Characters of a name."""
_CANDIDATES = 24
_MAX_WORD = 24
_READ, _MAX_READ = 6, 600
"""Documents that are read to see how a word is written, and characters of each of their texts."""
_COUNTED = 4_096
"""Documents of a group whose words are counted; of larger ones every so manieth."""
_COVERED = 0.25
"""What a document still counts that a word of the name is in already."""
_MOST_HAVE = 0.5
"""The part of all documents from which a word of theirs tells nothing."""
_ALONE = 0.2
"""What a word counts that only one document of a larger group has: it names a tool, not the group."""
_NEVER = STOP_WORDS | set(words("api apis endpoint get return returns data list information info value string object"))
"""Stop words, and words of tools of all kinds: they tell no group from another, however often they occur in it."""


class TellingWords:
    """Finds the telling words of groups of documents of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._written: dict[int, str] = {}

    def of(self, groups: Sequence[Rows], most: int = MOST_WORDS) -> list[list[str]]:
        """The telling words of groups that stand beside each other, the most telling first; of some there are none.

        Args:
            groups: the rows of each.
            most: words of a group.
        """
        counts = self._snapshot.counts
        groups = [_some(group) for group in groups]
        entries = [self._entries(group) for group in groups]
        sizes = [len(found) for found, _ in entries]
        if not sum(sizes):
            return [[] for _ in groups]
        taken = np.concatenate([found for found, _ in entries])
        known, label = np.unique(counts.words[taken], return_inverse=True)
        group_of = np.repeat(np.arange(len(groups)), sizes)
        weights = counts.weights[taken].astype(np.float64)
        table = np.bincount(group_of * len(known) + label, weights, len(groups) * len(known))
        table = table.reshape(len(groups), len(known))
        everywhere = table.sum(axis=0)
        rarity = np.log1p(table.sum() / len(groups) / everywhere) * self._telling[known]
        begins = np.cumsum([0, *sizes])
        made = []
        for group, (_, owner) in enumerate(entries):
            here = slice(begins[group], begins[group + 1])
            score = table[group] * rarity * (table[group] / everywhere)
            made.append(self._chosen(score, known, label[here], owner, weights[here], len(groups[group]), most))
        return made

    def _chosen(
        self,
        score: NDArray[np.float64],
        known: NDArray[np.int32],
        label: Rows,
        owner: Rows,
        weights: NDArray[np.float64],
        documents: int,
        most: int,
    ) -> list[str]:
        """Words one after the other, each by what it gives for documents that the earlier ones are not in."""
        often = np.bincount(label, minlength=len(known))  # documents of the group that have the word
        shared = np.where(often > 1, score, score * _ALONE if documents > 2 else score)
        best = np.argsort(-shared, kind="stable")[:_CANDIDATES]
        best = best[score[best] > 0]
        place = np.full(len(known), -1, np.int64)
        place[best] = np.arange(len(best))
        kept = place[label] >= 0
        has = np.zeros((len(best), documents))
        has[place[label[kept]], owner[kept]] = weights[kept]
        value = shared[best] / np.maximum(has.sum(axis=1), 1e-9)
        left = np.ones(documents)
        chosen: list[int] = []
        found: list[str] = []
        while len(found) < most and len(chosen) < len(best):
            gain = (has @ left) * value
            gain[chosen] = -1.0
            one = int(np.argmax(gain))
            chosen.append(one)
            word = self._readable(int(known[best[one]]))
            if any(word in other or other in word for other in found):
                continue
            found.append(word)
            left[has[one] > 0] = _COVERED
        return found

    def _readable(self, word: int) -> str:
        """A word as most of some documents have it; of several forms the shortest."""
        if word not in self._written:
            normal = self._snapshot.counts.vocabulary[word]
            owners, begins = self._by_word
            rows = owners[np.unique(np.linspace(begins[word], begins[word + 1] - 1, _READ).astype(np.int64))]
            forms = Counter(form for row in rows for form in written(self._text(int(row)), normal))
            self._written[word] = min(forms, key=lambda form: (-forms[form], len(form), form), default=normal)
        return self._written[word]

    def _text(self, row: int) -> str:
        """What a name, an id and a description say."""
        document = self._snapshot.documents[row]
        if isinstance(document, bytes):
            fields = json.loads(document)
            name, description = str(fields.get("name", "")), str(fields.get("description", ""))
        else:
            name, description = document.name, document.description
        return f"{self._snapshot.ids[row][:_MAX_READ]} {name[:_MAX_READ]} {description[:_MAX_READ]}"

    def _entries(self, rows: Rows) -> tuple[Rows, Rows]:
        """Where the words of rows lie in the counts, and to the how-manieth row each belongs."""
        taken, begins = entries_of(rows, self._snapshot.counts.pointers)
        return taken, np.repeat(np.arange(len(rows)), np.diff(np.append(begins, len(taken))))

    @cached_property
    def _telling(self) -> NDArray[np.bool_]:
        return telling(self._snapshot.counts)

    @cached_property
    def _by_word(self) -> tuple[Rows, Rows]:
        """The documents that have each word, word by word, and where those of each word begin."""
        counts = self._snapshot.counts
        owners = np.repeat(np.arange(len(counts)), np.diff(counts.pointers))[np.argsort(counts.words, kind="stable")]
        return owners, np.cumsum(np.bincount(counts.words + 1, minlength=len(counts.vocabulary) + 1))


def _some(rows: Rows) -> Rows:
    return rows if len(rows) <= _COUNTED else rows[np.linspace(0, len(rows) - 1, _COUNTED).astype(np.int64)]


def telling(counts: Counts) -> NDArray[np.bool_]:
    """Whether a word of the vocabulary tells documents apart: it is a word, and not of more than half of them."""
    often = np.bincount(counts.words, minlength=len(counts.vocabulary)) > _MOST_HAVE * len(counts)
    return np.array([_telling(word) for word in counts.vocabulary], np.bool_) & ~often


def _telling(word: str) -> bool:
    """No stop word, no number, no version, no key."""
    letters = sum(map(str.isalpha, word))
    return letters >= 2 and 2 * letters > len(word) <= _MAX_WORD and word not in _NEVER and word.isprintable()
