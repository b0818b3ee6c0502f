"""AWS Signature 4, by botocore's signer (the extra ``aws``).

A credential for a scheme that a document marks as ``awsSigv4`` is the word ``"aws"`` (botocore finds the keys as every
AWS tool does: environment, profile, role) or a mapping, written as JSON where only a string can be given:

``access_key_id``, ``secret_access_key``, ``session_token``
    the keys; or ``profile``, the name of one in AWS's own configuration.
``region``, ``service``
    what the signature is for, where the server's address does not tell.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import httpx

from atc._host.extras import install_command
from atc.errors import EnvironmentProblem, ToolError, UsageError

KEYS = ("access_key_id", "secret_access_key", "session_token", "profile", "region", "service")
SIGNED = ("awsSigv4", "awsS3")
"""Values of ``x-amazon-apigateway-authtype`` that are signed so."""

_HOST = re.compile(r"(?:.{0,200}\.)?([a-z0-9-]{1,60})\.([a-z]{2}(?:-[a-z]{1,10}){1,2}-\d)\.amazonaws\.com(?:\.cn)?\Z")
_GLOBAL_HOST = re.compile(r"(?:.{0,200}\.)?([a-z0-9-]{1,60})\.amazonaws\.com\Z")
_SERVICE = re.compile(r"[a-z][a-z0-9-]{1,60}\Z")
OWN_HEADERS = frozenset(
    {
        "x-amz-algorithm",
        "x-amz-content-sha256",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
    }
)
"""Headers that the signer writes; documents list them as parameters."""

# The client may change these on the way, or they are of an earlier signature.
_NOT_SIGNED = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "host",
        "user-agent",
        *OWN_HEADERS,
    }
)


def is_installed() -> bool:
    """Whether the signer is there."""
    return importlib.util.find_spec("botocore") is not None


@dataclass
class AwsSigner:
    """Signs the requests of one scheme.

    Args:
        scheme: the scheme's name, for messages.
        given: the mapping that the user gave; ``{}`` lets botocore find the keys.
        service: what the document calls the service.
        learn: called with every secret, so that it is shown nowhere.

    Raises:
        UsageError: a key is unknown or missing.
        EnvironmentProblem: botocore is not installed.
    """

    scheme: str
    given: Mapping[str, str] = field(repr=False)
    service: str
    learn: Callable[[str], None] = field(repr=False)
    _source: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = self.given
        if [key for key in given if key not in KEYS] or not all(isinstance(value, str) for value in given.values()):
            raise UsageError(
                f"the credential for {self.scheme!r} takes {', '.join(KEYS)} with strings as values, or the word 'aws'"
            )
        if bool(given.get("access_key_id")) != bool(given.get("secret_access_key")):
            raise UsageError(f"the credential for {self.scheme!r} needs access_key_id and secret_access_key together")
        if not is_installed():
            raise EnvironmentProblem(f"AWS signatures for {self.scheme!r} need botocore: `{install_command('aws')}`")
        for key in ("secret_access_key", "session_token"):
            if given.get(key):
                self.learn(given[key])

    async def put_on(self, request: httpx.Request, client: httpx.AsyncClient) -> None:
        """Write the signature into a request.

        Raises:
            ToolError: there are no keys, or the region is not known.
        """
        await request.aread()
        headers = await asyncio.to_thread(self._signature, request)  # keys of a role may come over the network
        for name, value in headers.items():
            request.headers[name] = value

    def renew(self, request: httpx.Request) -> bool:
        """Another signature with the same keys helps nobody."""
        return False

    def _signature(self, request: httpx.Request) -> dict[str, str]:
        from botocore.auth import S3SigV4Auth, SigV4Auth
        from botocore.awsrequest import AWSRequest

        service, region = self._scope(request.url.host)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_SIGNED}
        signed = AWSRequest(request.method, str(request.url), headers=headers, data=request.content)
        kind = S3SigV4Auth if service == "s3" else SigV4Auth
        kind(self._keys(), service, region).add_auth(signed)
        made = {name: str(value) for name, value in signed.headers.items()}
        return {name: value for name, value in made.items() if name.lower() in ("authorization", *OWN_HEADERS)}

    def _scope(self, host: str) -> tuple[str, str]:
        named = _HOST.match(host)
        service = self.given.get("service") or _signing_name(self.service) or (named[1] if named else "")
        region = self.given.get("region") or (named[2] if named else "")
        if not named and (everywhere := _GLOBAL_HOST.match(host)):
            service, region = service or everywhere[1], region or "us-east-1"
        if not service or not region:
            raise ToolError(
                f"{host} does not tell its AWS service and region: give both with the credential for {self.scheme!r}",
                cause="credential",
            )
        return service, region

    def _keys(self) -> Any:
        from botocore.credentials import Credentials
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        given = self.given
        if given.get("access_key_id"):
            return Credentials(given["access_key_id"], given["secret_access_key"], given.get("session_token"))
        try:
            self._source = self._source or Session(profile=given.get("profile")).get_credentials()
            keys = self._source.get_frozen_credentials() if self._source else None
        except BotoCoreError as error:
            raise ToolError(
                f"no AWS keys for {self.scheme!r}: {type(error).__name__}", status=401, cause="credential"
            ) from None
        if keys is None:
            raise ToolError(
                f"no AWS keys for {self.scheme!r} in the environment or AWS's own files", status=401, cause="credential"
            )
        for secret in (keys.secret_key, keys.token):
            if secret:
                self.learn(secret)
        return keys


@lru_cache(maxsize=64)
def _signing_name(service: str) -> str:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    if not _SERVICE.match(service):
        return ""
    try:
        return str(Session().get_service_model(service).signing_name)
    except (BotoCoreError, OSError, ValueError):
        return ""
