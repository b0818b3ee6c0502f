"""Words for the model: the templates in ``prompts/``, filled in. Strict: a missing variable is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atc._host.files import resource_dir
from atc._host.invisible import legible

if TYPE_CHECKING:
    import jinja2


@cache
def _environment(folder: Path) -> jinja2.Environment:
    import jinja2  # only here: a process that asks no model needs no templates

    # plain text, no HTML: escaping is the stubs' business; templates come from a package, never from data, and stay
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, autoescape=False, auto_reload=False
    )


def prompt(name: str, **values: Any) -> str:
    """Fill in the template ``prompts/<name>.jinja``."""
    return filled(resource_dir("prompts"), name, **values)


def filled(folder: Path, name: str, /, **values: Any) -> str:
    """Fill in the template ``<name>.jinja`` of a folder that belongs to a package."""
    return _environment(folder).get_template(f"{name}.jinja").render(**values)


def fenced(text: str) -> str:
    """Text from a tool or a document, unable to end the code block that it stands in, without what nobody would see
    there (:mod:`atc._host.invisible`).
    """
    return legible(text).replace("```", "'''")
