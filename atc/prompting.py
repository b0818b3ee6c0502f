"""Words for the model: the templates in ``prompts/``, filled in. Strict: a missing variable is an error."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2

from atc.invisible import legible
from atc.resources import resource_dir


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(resource_dir("prompts"))
    # plain text, no HTML: escaping is the stubs' business; templates come from the package, never from data
    return jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=False)


def prompt(name: str, **values: Any) -> str:
    """Fill in the template ``prompts/<name>.jinja``."""
    return _environment().get_template(f"{name}.jinja").render(**values)


def fenced(text: str) -> str:
    """Text from a tool or a document, unable to end the code block that it stands in, without what nobody would see
    there (:mod:`atc.invisible`).
    """
    return legible(text).replace("```", "'''")
