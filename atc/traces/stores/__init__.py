"""Where runs are kept (:mod:`atc.traces.stores.base`)."""

from __future__ import annotations

from urllib.parse import urlsplit

from atc.errors import EnvironmentProblem, SettingsError
from atc.parts import STORES
from atc.settings import Settings
from atc.traces.stores.base import RunStore
from atc.traces.stores.files import FileStore

__all__ = ["RunStore", "open_store"]


def open_store(settings: Settings) -> RunStore:
    """The store that the settings name. Nothing is asked of it yet.

    Raises:
        SettingsError: ``store`` is no address of one.
        EnvironmentProblem: what it needs is not installed.
    """
    if settings.store is None:
        return FileStore(settings.runs_dir)
    address = settings.store.get_secret_value()
    scheme = urlsplit(address).scheme
    if not STORES.has(scheme):
        forms = ", ".join(f"{name}://…" for name in STORES.names())
        raise SettingsError(
            f"store: give an address such as postgresql://USER@HOST/DATABASE ({forms}), or none for a folder"
        )
    return STORES.make(scheme, address, settings, a=RunStore, secrets=settings.secrets)  # type: ignore[type-abstract]


def open_postgres(address: str, settings: Settings) -> RunStore:
    """The runs in a PostgreSQL database.

    Raises:
        EnvironmentProblem: psycopg is not installed.
    """
    try:
        from atc.traces.stores.postgres import PostgresStore
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "psycopg_binary"):
            raise
        from atc._host.extras import install_command

        raise EnvironmentProblem(
            "runs in PostgreSQL need psycopg", fix=f"install it with {install_command('postgres')}"
        ) from None
    return PostgresStore(address, lease_s=settings.store_lease_s)
