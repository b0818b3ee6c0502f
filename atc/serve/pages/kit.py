"""The kit that all pages are made with: escaping, a content policy, a theme for light and dark, data for a script.

What a page shows comes from tools and documents, which are strangers. Three walls stand between them and a reader: a
template escapes every value, the page's policy allows no script and no style but its own (by their hashes), loads
nothing and lets no text become markup, and data for the script is JSON in which no tag can end.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).parent
_ENDS = ("</", "<!--")
"""What would end or confuse an element whose text is no markup; no style or script of ours has them."""
_IN_JSON = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


def visible(text: str) -> str:
    """Text from outside without control characters, half characters and those that turn its direction."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def render(template: Path, **values: Any) -> str:
    """A template with its values: each is made :func:`visible` and escaped, whatever it holds.

    Raises:
        jinja2.UndefinedError: the template names a value that was not given.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(**values)


def _finalize(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page_of(
    template: Path,
    *,
    title: str,
    styles: Sequence[Path] = (),
    script: Path | Sequence[Path] | None = None,
    data: Any = None,
    more: Mapping[str, str] | None = None,
    forms: Sequence[str] = (),
    connect: Sequence[str] = (),
    **values: Any,
) -> str:
    """A whole page.

    Args:
        template: of its body.
        title: of the page.
        styles: files beside the kit's own, in this order.
        script: the file of its script, if it has one; several are one script, in this order.
        data: plain JSON for the script, which finds it in the element ``data``.
        more: JSON texts, each for an element of its own by its id: the script reads those that it comes to need.
        forms: where its forms may be sent, and be sent on to, as sources of a content policy; nowhere without.
        connect: what its script may fetch, as sources of a content policy; nothing without.
        values: for the template.

    Raises:
        jinja2.UndefinedError: as :func:`render`.
        ValueError: a style or script has ``</`` or ``<!--``, or the data is no JSON.
    """
    style = "".join(file.read_text(encoding="utf-8") for file in (_HERE / "base.css", *styles))
    scripts = [script] if isinstance(script, Path) else script or ()
    code = "".join(file.read_text(encoding="utf-8") for file in scripts)
    if any(end in text for text in (style, code) for end in _ENDS):
        raise ValueError(f"neither a style nor a script may have {' or '.join(_ENDS)}")
    return render(
        _HERE / "base.html.jinja",
        title=title,
        policy=_policy(style, code, forms, connect),
        style=Markup(style),  # ours, and held by the policy's hash
        body=Markup(render(template, **values)),
        data=None if data is None else Markup(embedded(data)),
        more={name: Markup(text.translate(_IN_JSON)) for name, text in (more or {}).items()},
        code=Markup(code),
    )


def _policy(style: str, code: str, forms: Sequence[str], connect: Sequence[str]) -> str:
    allowed = {"style-src": _hash(style), "script-src": _hash(code) if code else "'none'"}
    if connect:
        allowed["connect-src"] = " ".join(connect)
    rules = {"default-src": "'none'", **allowed, "base-uri": "'none'", "form-action": " ".join(forms) or "'none'"}
    rules |= {"require-trusted-types-for": "'script'", "trusted-types": "'none'"}  # no text becomes markup or code
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    """Plain data as JSON that may stand in a page: ASCII, and without a character that markup has.

    Raises:
        ValueError: it holds a number that JSON has not.
    """
    return json.dumps(_visible(data), allow_nan=False, separators=(",", ":")).translate(_IN_JSON)


def _visible(data: Any) -> Any:
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, Mapping):
        return {visible(key): _visible(value) for key, value in data.items()}
    return [_visible(each) for each in data] if isinstance(data, list | tuple) else data
