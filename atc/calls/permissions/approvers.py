"""Approvers: who may decide about calls that wait, where that is not whoever asks (``[approvers]`` of the file).

The file has each one's public key (Ed25519). The private key is the approver's own, and signs a decision about one
exact call of one run. A resume verifies that again, so neither a shell that can read the permissions file nor a hand
that can write the store makes a yes. Only who loads a file with approvers, or has a key, loads what verifies them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atc._host.extras import install_command
from atc.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from atc.calls.parked import Decision, ParkedCall

PRIVATE = "atc-approver-private-"
"""How the text of a private key begins: it is not taken for a public one, and is found where it leaks."""
KEY_BYTES, SIGNATURE_BYTES = 32, 64


@dataclass(frozen=True)
class Approvers:
    """Holds who may decide.

    Attributes:
        keys: the public keys by the approvers' names; none: whoever asks may decide.
    """

    keys: Mapping[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.keys)

    def of_key(self, key: ApproverKey) -> str:
        """Return the name of the approver whose key it is.

        Raises:
            UsageError: it is nobody's.
        """
        for name, public in self.keys.items():
            if public == key.public:
                return name
        raise UsageError("this key is none of an approver: the permissions file has no public key that belongs to it")

    def have_signed(self, text: str, decision: Decision) -> bool:
        """Return whether a decision is one of an approver, who signed this text; without approvers, of anybody.

        A decision that was signed counts nowhere unverified: its approver stands in another permissions file.
        """
        if not (self.keys and decision.signature):
            return not self.keys and not decision.signature
        public = self.keys.get(decision.by)
        return public is not None and is_signed(public, text, decision.signature)


class ApproverKey:
    """A private key of an approver.

    Args:
        text: of the key, as :meth:`new` makes it.

    Raises:
        UsageError: it is none.
        EnvironmentProblem: the package that signs is not installed.
    """

    def __init__(self, text: str) -> None:
        text = text.strip()
        seed = decoded(text.removeprefix(PRIVATE), KEY_BYTES) if text.startswith(PRIVATE) else None
        if seed is None:
            raise UsageError(
                f"this is no approver's key: it begins with {PRIVATE}…, as `atc permissions approver` makes it"
            )
        self._key: Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)

    @staticmethod
    def new() -> str:
        """Return the text of a new key."""
        return PRIVATE + encoded(_ed25519().Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> bytes:
        """Return the public key."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, text: str) -> str:
        """Return the signature of a statement."""
        return encoded(self._key.sign(text.encode()))


def statement(run: str, call: ParkedCall, *, yes: bool) -> str:
    """Return what an approver signs: a yes or no to one call of one run, exactly as it waits and as it was shown."""
    return f"atc decision 2\n{run}\n{call.number}\n{call.digest}\n{'yes' if yes else 'no'}"


def is_signed(public: bytes, text: str, signature: str) -> bool:
    """Return whether a signature of a text was made with the private key of a public one.

    Raises:
        EnvironmentProblem: the package that verifies is not installed.
    """
    from cryptography.exceptions import InvalidSignature

    found = decoded(signature, SIGNATURE_BYTES)
    if found is None:
        return False
    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(found, text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


_PRIME = 2**255 - 19
_D = -121_665 * pow(121_666, -1, _PRIME) % _PRIME


def is_of_large_order(public: bytes) -> bool:
    """Return whether bytes are a point of Ed25519 in its one form, and none of the eight points of small order: for
    those, anybody signs without a private key."""
    y = int.from_bytes(public, "little") % 2**255  # without the sign of x
    if y >= _PRIME:
        return False
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _PRIME) % _PRIME  # of x
    if pow(square, _PRIME // 2, _PRIME) != 1:  # not on the curve, or x is 0
        return False
    for _ in range(3):  # eight times a point of small order is the neutral one, whose y is 1
        y = (y * y + square) * pow(2 + square - y * y, -1, _PRIME) % _PRIME
        square = (y * y - 1) * pow(_D * y * y + 1, -1, _PRIME) % _PRIME
    return y != 1


def encoded(content: bytes) -> str:
    """Return bytes as text of letters, digits, ``-`` and ``_``."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decoded(text: str, length: int) -> bytes | None:
    """Return the bytes of such a text; ``None`` where it has others than so many, or is none."""
    if len(text) > 2 * length:
        return None
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return content if len(content) == length and encoded(content) == text else None


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise EnvironmentProblem("approvers' keys need a package", fix=install_command("approvers")) from None
    return ed25519
