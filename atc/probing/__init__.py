"""Probing: undocumented tools document themselves (ATC §4). :func:`probe` does it; :class:`Prober` has the settings."""
