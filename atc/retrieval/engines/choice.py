"""Which engine keeps the vectors of an index: the setting ``vectors``, read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from atc.errors import UsageError

if TYPE_CHECKING:
    from atc.retrieval.engines.base import Engine
    from atc.settings import Settings

OWN, EDGE = "own", "qdrant-edge"
FOLDER = "vectors-edge"
"""Where the vectors of ``qdrant-edge`` lie in the folder of an index."""


@dataclass(frozen=True)
class Choice:
    """Where vectors are kept, and with which key.

    Attributes:
        where: ``own`` (the index's own files), ``qdrant-edge``, or the address of a collection of a server.
        key: of the server.
    """

    where: str = OWN
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, settings: Settings, where: str | None = None) -> Choice:
        """As the settings have it.

        Args:
            settings: ``vectors`` and ``vectors_key`` count.
            where: in place of ``vectors``.

        Raises:
            UsageError: it is none of the three.
        """
        chosen = where or settings.vectors or OWN
        key = settings.vectors_key.get_secret_value() if settings.vectors_key else ""
        return cls(chosen, key).checked()

    def checked(self) -> Choice:
        """Itself, in the one form of its address.

        Raises:
            UsageError: it names no engine, or the key would be sent where others can read it.
        """
        if self.where in (OWN, EDGE):
            return self
        if "://" not in self.where:
            raise UsageError(
                f"{self.where!r:.100} is no place of vectors: give {OWN}, {EDGE}, or an address such as "
                "https://HOST:6333/COLLECTION"
            )
        from atc.retrieval.engines.address import Address

        address = Address.of(self.where)
        if self.key and not address.private:
            raise UsageError(
                f"the key of the vectors would be sent to {address.server} by plain http, where others can read it: "
                "give an https address"
            )
        return Choice(address.text, self.key)

    def engine(self, folder: Path | None) -> Engine | None:
        """The engine; ``None`` for the index's own files.

        Args:
            folder: of the index.

        Raises:
            UsageError: the engine needs the folder, and the index has none.
        """
        if self.where == OWN:
            return None
        if self.where == EDGE:
            if folder is None:
                raise UsageError("qdrant-edge keeps its files in the folder of an index: build the index with a folder")
            from atc.retrieval.engines.edge import EdgeEngine

            return EdgeEngine(folder)
        from atc.retrieval.engines.address import Address
        from atc.retrieval.engines.server import ServerEngine

        return ServerEngine(Address.of(self.where), self.key)

    def named(self, place: str, folder: Path) -> Engine | None:
        """The engine that an index names; ``None`` where it must not be asked.

        An index may come from somebody else: a server that it names is asked only where the user named it, too.
        """
        if place == EDGE:
            return Choice(EDGE).engine(folder)
        return self.engine(folder) if self.where == place else None


OWN_FILES = Choice()
"""No other engine."""
