"""How long a caller may stop the clock of its program.

The caller alone knows that it waits for a person. The service bounds that wait, as it bounds everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from atc.calls.clock import Clock


class Pauses:
    """Stops a program's clock as its caller asks, for a number of seconds in all; after them it goes on for good.

    Args:
        clock: the program's.
        most_s: seconds for which it may stand still, all pauses together.
    """

    def __init__(self, clock: Clock, most_s: float) -> None:
        self._clock, self._left_s = clock, most_s
        self._asked = False
        self._stopped: contextlib.ExitStack | None = None
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def used_up(self) -> bool:
        """Whether the clock can be stopped no more."""
        return self._left_s <= 0

    def ask(self, stopped: bool) -> None:
        """What the caller asks for now. To ask twice for the same changes nothing."""
        self._asked = stopped
        if stopped:
            self._stop()
        else:
            self._go_on()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """The clock goes on for the block, whatever was asked: the caller is not listened to, and could not resume."""
        self._go_on()
        try:
            yield
        finally:
            if self._asked:
                self._stop()

    def _stop(self) -> None:
        if self._stopped is not None or self.used_up:
            return
        loop = asyncio.get_running_loop()
        self._stopped = contextlib.ExitStack()
        self._stopped.enter_context(self._clock.paused())
        self._began = loop.time()
        self._timer = loop.call_later(self._left_s, self._end)

    def _go_on(self) -> None:
        if self._stopped is None or self._timer is None:
            return
        self._timer.cancel()
        self._left_s -= asyncio.get_running_loop().time() - self._began
        self._stopped.close()
        self._stopped = None

    def _end(self) -> None:
        self._left_s = 0.0
        self._go_on()
