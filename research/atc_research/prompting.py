"""Words for the model: the templates of this package, filled in as ATC's own are."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from atc.plugins.strategies import filled

prompt = partial(filled, Path(__file__).with_name("prompts"))
"""Fill in the template ``prompts/<name>.jinja``."""
