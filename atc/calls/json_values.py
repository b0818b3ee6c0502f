"""What a tool returned, as plain JSON values and bytes that every later reader can take."""

from __future__ import annotations

import json
from typing import Any

from atc.packing import pack, unpack
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.frames import TooMany

__all__ = ["TooMany", "plain"]


def plain(value: Any) -> Any:
    """Return ``value`` as JSON gives it back: keys are text, tuples are lists, half characters are question marks.

    Bytes stay bytes.

    Raises:
        TooMany: it holds more values than a program is given.
        ValueError: it has no JSON form that a program could be given (see :func:`atc.sandboxes.channel.frames.parse`).
    """
    try:
        text = json.dumps(pack(value), allow_nan=False, ensure_ascii=False).encode("utf-8", "replace").decode()
        return unpack(frames.parse(text))
    except TooMany:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(str(error)[:300]) from None
