"""The session of a recording: whether its credentials are used, and where they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from atc.tools.har.document import Recorded

Session = Literal["ask", "keep", "memory", "none"]
"""What is done with the credentials of a recording. ``ask``: a question on a terminal, elsewhere as ``none``."""


def auth_of(recorded: Recorded, session: Session, *, path: Path) -> Mapping[str, str]:
    """The credentials to call one host with, by security scheme, as ``auth`` of ``read_openapi`` takes them.

    Args:
        recorded: what the recording tells of the host.
        session: the user's choice.
        path: the recording, for the question.
    """
    return {}
