"""Tools from a recording of a browser (HAR 1.2): what a service answered there becomes a document, and that its tools.

The recording is data from outside. Of its text nothing but names of keys and of paths, types, and values that several
answers share and that are words of interfaces enter a document. Its credentials are kept apart, by reference.
"""

from __future__ import annotations

from atc.tools.har.credentials import RecordedSecret
from atc.tools.har.document import Recorded
from atc.tools.har.importer import from_har

__all__ = ["Recorded", "RecordedSecret", "from_har"]
