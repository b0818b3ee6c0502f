"""URLs as they were written: OAuth compares issuers character by character."""

from __future__ import annotations

from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter

_EXACT = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))


def exact_url(url: str) -> AnyHttpUrl:
    """The URL, without a slash that it did not have.

    Raises:
        pydantic.ValidationError: it is none.
    """
    return _EXACT.validate_python(url)
