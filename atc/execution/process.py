"""The earlier place of :mod:`atc.sandboxes.process.driver`."""

from __future__ import annotations

from atc.execution import moved

__getattr__ = moved(__name__, {"ProcessSandbox": "atc.sandboxes.process.driver"})
