"""The import as a whole: a recording → its hosts → a document for each → a toolset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atc.tools.har.document import Recorded
from atc.tools.har.session import SessionChoice
from atc.tools.tool import Toolset


def read_har(path: str | Path, *, hosts: Sequence[str] | None = None) -> list[Recorded]:
    """Read a recording and say of each kept host what was called there. Nothing is sent.

    Args:
        path: a HAR 1.2 file.
        hosts: the hosts to keep, ``NAME`` or ``NAME:PORT``; by default those of the recording's own pages and others of
            the same site.

    Raises:
        ToolImportError: the file cannot be read, is no HAR, or records no call that could become a tool.
    """
    raise NotImplementedError


def from_har(
    path: str | Path, *, hosts: Sequence[str] | None = None, session: SessionChoice = "ask", **options: Any
) -> Toolset:
    """Make tools of the calls that a recording of a browser holds. Nothing is sent.

    Args:
        path: a HAR 1.2 file: browsers save one from their network tab; ``mitmdump --set hardump=FILE`` writes one.
        hosts: the hosts to keep; see :func:`read_har`.
        session: whether the credentials of the recording are used (:mod:`atc.tools.har.session`).
        **options: as :func:`atc.tools.openapi.read_openapi` takes them.

    Raises:
        ToolImportError: the file cannot be read, is no HAR, or records no call that could become a tool.
        UsageError: an option that does not fit the recording.
    """
    raise NotImplementedError
