"""What can be wrong with an index or an encoder. Each message says what, where, and what to do."""

from __future__ import annotations

from atc.errors import EnvironmentProblem


class ToolIndexError(EnvironmentProblem):
    """An index on disk cannot be read or written: damaged, foreign, of another version, or the disk is full."""


class EncoderUnavailable(EnvironmentProblem):
    """Dense search was asked for and its encoder cannot be had."""


class LexicalOnly(UserWarning):
    """An index works by words alone, because it has no vectors or no encoder to compare them with."""
