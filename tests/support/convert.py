"""The sandbox's own conversion, loaded here without a sandbox: the host never imports it, tests may."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def sandbox_convert() -> ModuleType:
    path = Path(__file__).parents[2] / "sandbox" / "convert.py"
    spec = importlib.util.spec_from_file_location("sandbox_convert", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
