"""Where runs are kept (:mod:`atc.traces.stores.base`)."""

from __future__ import annotations

from atc.errors import SettingsError
from atc.settings import Settings
from atc.traces.stores.base import RunStore
from atc.traces.stores.files import FileStore

__all__ = ["RunStore", "open_store"]


def open_store(settings: Settings) -> RunStore:
    """The store that the settings name. Nothing is asked of it yet.

    Raises:
        SettingsError: ``store`` is no address of one.
    """
    if settings.store is None:
        return FileStore(settings.runs_dir)
    raise SettingsError("store: give an address such as postgresql://USER@HOST/DATABASE, or none for a folder")
