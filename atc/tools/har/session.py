"""The login in a recording: whether it is used, who said so, and until when.

A recording of a browser holds its user's cookies and tokens. They are taken only after a yes. What is kept of a yes is
the yes, never a copy of a credential: a file of the user's own that names the recording, the origin and a salted digest
of what was found. A recording that was made again is asked about again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from atc._host.files import make_private, others_can_read, read_own, write_whole
from atc._host.header_syntax import is_token
from atc._records.choices import SessionWord
from atc._records.records import MissingReason, RecordedSession
from atc.errors import UsageError
from atc.tools.har.document import Recorded, RecordedSecret
from atc.tools.openapi.servers import is_open_to_others
from atc.tools.openapi.session import Session

FOLDER = "recorded-sessions"
MAX_FILE_BYTES = 10_000
MANY_CHANGES = 2
"""So often a credential changes that cannot be sent again: a login in the recording is one change."""
MAX_CARRIERS, MAX_CARRIER = 10, 60

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class SessionOffer:
    """What a user is asked about: whose session a recording has, and until when. No credential is in it.

    Attributes:
        about: names it.
        path: of the recording.
        ends_at: when the first part of it ends, in seconds since 1970; ``None`` where nothing says that.
    """

    about: RecordedSession
    path: Path
    ends_at: float | None = None


AskSession = Callable[[SessionOffer], SessionWord]
SessionChoice = Literal["ask"] | SessionWord | AskSession
"""What is done with the login of a recording. ``ask``: as was answered before; where nobody was asked, nothing is used.
A function is asked where nothing was answered before."""


def session_of(
    recorded: Recorded,
    choice: SessionChoice,
    *,
    path: Path,
    allow_writes: bool = False,
    allow_http: bool = False,
    answers: Answers | None = None,
) -> Session | None:
    """Return the login to call one host of a recording with; ``None`` where the recording has none.

    Args:
        recorded: what the recording tells of the host.
        choice: the user's, or who asks for it.
        path: of the recording.
        allow_writes: it may go with writes that nobody is asked about.
        allow_http: it may go by plain http to another machine.
        answers: where a yes or no is kept; by default the user's own.

    Raises:
        UsageError: the choice is none.
    """
    if not recorded.secrets:
        return None
    found = dict(recorded.secrets)
    wires = {name: each.wire if is_token(each.wire) else name for name, each in found.items()}
    carriers = {name: f"{each.location} {wires[name][:MAX_CARRIER]}" for name, each in found.items()}
    about = RecordedSession(
        file=path.name, origin=recorded.origin, recorded_at=_last_seen(found), for_writes=allow_writes
    )
    ends_at = {name: each.expires.timestamp() for name, each in found.items() if each.expires is not None}
    usable = {name: each.value for name, each in found.items() if each.value}
    lacking: dict[str, MissingReason] = dict.fromkeys(found.keys() - usable.keys(), "ended")
    changing = frozenset(name for name, each in found.items() if each.changes >= MANY_CHANGES)
    made = Session(about, carriers, usable, ends_at, changing, lacking)
    if not usable or made.is_over:
        return made
    why: MissingReason = "open"
    if allow_http or not is_open_to_others(recorded.origin):
        offered = about.model_copy(update={"carriers": tuple(carriers[name] for name in usable)[:MAX_CARRIERS]})
        ends = [end for name, end in ends_at.items() if name in usable]
        offer = SessionOffer(offered, path, min(ends, default=None))
        why = _answer(offer, usable, choice, answers or Answers.of_user())
    return made if not why else Session(about, carriers, lacking=lacking | dict.fromkeys(usable, why))


def warn_of_readers(path: Path) -> None:
    """Name a recording that other users of the machine can read, and how to close it."""
    with suppress(OSError):
        if others_can_read(path.stat()):
            _LOG.warning("others on this machine can read %s, which may hold your logins: chmod 600 %s", path, path)


def _answer(offer: SessionOffer, values: Mapping[str, str], choice: SessionChoice, answers: Answers) -> MissingReason:
    kept = answers.read(offer, values) if choice == "ask" or callable(choice) else None
    word: str = kept or (choice(offer) if callable(choice) else choice)
    if word not in ("ask", *get_args(SessionWord)):
        raise UsageError(f"session takes 'ask', 'keep', 'memory', 'none' or a function that says one, not {word!r}")
    if choice == "none":
        answers.forget(offer)
    elif kept is None and word in ("keep", "none"):
        answers.write(offer, values, word)
    return "untaken" if word == "ask" else "declined" if word == "none" else ""


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    form: Literal[1] = 1
    recording: str
    origin: str
    salt: str
    digest: str
    answer: Literal["keep", "none"]


class Answers:
    """What the user said of the logins of recordings: a file each, in a folder that is made with the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_user(cls) -> Answers:
        """The user's own. No setting moves them: a project's ``atc.toml`` must give no yes."""
        return cls(Path(platformdirs.user_config_dir("atc")) / FOLDER)

    def read(self, offer: SessionOffer, values: Mapping[str, str]) -> Literal["keep", "none"] | None:
        """The answer about a login; ``None`` where there is none, or it was about another one."""
        path = self._path(offer)
        try:
            kept = _Kept.model_validate_json(read_own(path, MAX_FILE_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is damaged, or others can write it"
            _LOG.warning("the answer in %s does not count: %s", path, why)
            return None
        ours = (kept.recording, kept.origin) == (_place(offer.path), offer.about.origin)
        return kept.answer if ours and kept.digest == _digest(kept.salt, values) else None

    def write(self, offer: SessionOffer, values: Mapping[str, str], answer: str) -> None:
        """Keep an answer, in place of an earlier one. Where the disk takes none, a line says so."""
        salt = secrets.token_hex(16)
        said = {"answer": answer, "recording": _place(offer.path), "origin": offer.about.origin}
        kept = _Kept.model_validate({**said, "salt": salt, "digest": _digest(salt, values)})
        try:
            make_private(self._folder)
            write_whole(self._path(offer), kept.model_dump_json())
        except OSError as error:
            _LOG.warning("your answer cannot be kept in %s: %s", self._folder, error.strerror)

    def forget(self, offer: SessionOffer) -> None:
        """Drop what was answered about the login of a recording."""
        with suppress(OSError):
            self._path(offer).unlink(missing_ok=True)

    def _path(self, offer: SessionOffer) -> Path:
        named = f"{_place(offer.path)}\n{offer.about.origin}"
        return self._folder / f"{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def _place(path: Path) -> str:
    return str(path.resolve())


def _digest(salt: str, values: Mapping[str, str]) -> str:
    text = json.dumps([salt, sorted(values.items())])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _last_seen(found: Mapping[str, RecordedSecret]) -> str:
    times = [each.recorded_at for each in found.values() if each.recorded_at is not None]
    return max(times, key=datetime.timestamp).isoformat(timespec="seconds") if times else ""
