"""What these tests share with those of ATC: its fixtures, so that none sees the user's settings or writes into runs."""

from __future__ import annotations

from tests.conftest import (  # noqa: F401
    _failures_hold_nothing,
    _one_sandbox,
    _own_world,
    _sandbox_of_all,
    nothing_left,
)
