"""What was sent for arguments that a program gave otherwise: the same arguments are sent alike again.

So a later program, or a resumed run, makes the same call, whatever the rules, what was learnt, or the model say now.
"""

from __future__ import annotations

from atc.calls.entry import CallKey, Entry, call_key
from atc.result import Effect


class RepairedBefore:
    """The calls of a journal whose arguments were repaired, by their arguments as they were given."""

    def __init__(self) -> None:
        self._of_key: dict[CallKey, Entry] = {}

    def __bool__(self) -> bool:
        return bool(self._of_key)

    def note(self, entry: Entry) -> None:
        """Note that a call was begun.

        A read that a rule repaired is not kept: it can be repaired anew. Nor is a call of which something was masked,
        for what was really sent cannot be read off it.
        """
        if entry.original is None or (not entry.repaired_for and entry.effect is Effect.READ):
            return
        try:
            original = call_key(entry.tool, entry.original, entry.key.source)
            sent = call_key(entry.tool, entry.arguments, entry.key.source)
        except ValueError:
            return
        if sent == entry.key:
            self._of_key[original] = entry

    def get(self, key: CallKey) -> Entry | None:
        """The latest call that was sent for arguments of this key.

        Of a read that the service refused before it was repaired, only where it was answered then.
        """
        found = self._of_key.get(key)
        if found is None or (found.repaired_for == "service" and found.state != "done"):
            return None
        return found
