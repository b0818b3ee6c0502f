"""The address of a database: what of it is secret, and how it is shown."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = ("postgresql", "postgres")
_SECRET = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})


def secrets_of(address: str) -> list[str]:
    """Return the passwords in an address, as they are written there and as they are; all of it where it cannot be taken
    apart."""
    try:
        parts = urlsplit(address)
        fields = [pair.partition("=") for pair in parts.query.split("&")]
    except ValueError:
        return [address]
    if parts.scheme not in SCHEMES:
        return [address]
    user = parts.netloc.rpartition("@")[0]
    written = [user.partition(":")[2], *(value for name, _, value in fields if name.lower() in _SECRET)]
    found = [form for each in written for form in (each, unquote(each)) if form]
    return [*dict.fromkeys(found), *([address] if found else [])]


def shown(address: str) -> str:
    """Return an address without passwords and options: ``postgresql://USER@HOST/DATABASE``."""
    try:
        parts = urlsplit(address)
        given = dict(parse_qsl(parts.query))
    except ValueError:
        return "postgresql://…"
    user, _, hosts = parts.netloc.rpartition("@")
    name = user.partition(":")[0] or given.get("user", "")
    base = parts.path.strip("/") or given.get("dbname", "")
    options = "" if hosts or "host" not in given else f"?host={given['host']}"
    return f"postgresql://{name}{'@' if name else ''}{hosts}/{base}{options}"


def masked(address: str) -> str:
    """Return a whole address, options included, with ``[secret]`` in the place of its passwords."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "[secret]"
    if parts.scheme not in SCHEMES:
        return "[secret]"
    user, at, hosts = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    fields = [pair.partition("=") for pair in parts.query.split("&")]
    options = "&".join(
        f"{field}{equals}{'[secret]' if unquote(field).lower() in _SECRET else value}"
        for field, equals, value in fields
    )
    login = f"{name}{colon}{'[secret]' if colon else ''}{at}"
    return parts._replace(netloc=f"{login}{hosts}", query=options, fragment="").geturl()
