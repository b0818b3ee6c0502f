"""The documents of tools as JSON, as the ATC paper shows them (ATC §3.2); stubs say the same in less room."""

from __future__ import annotations

import json
from collections.abc import Sequence

from atc.tools.demonstrations import shown_examples
from atc.tools.fit import SEPARATOR, Fit
from atc.tools.grades import WHOLE
from atc.tools.paging import paging_line
from atc.tools.protocol import Protocol

_SHOWN = {"name", "description", "parameters", "returns", "statuses"}


def json_documents(protocols: Sequence[Protocol], *, pages: bool = True) -> Fit:
    """All documents, whole.

    Args:
        protocols: of the tools, in the order in which they are shown.
        pages: say of a tool which argument asks for the next page.
    """
    texts = []
    for protocol in protocols:
        paged = {"pages": line} if pages and (line := paging_line(protocol)) else {}
        document = protocol.model_dump(mode="json", include=_SHOWN) | {"examples": shown_examples(protocol)} | paged
        for name in ("statuses", "examples"):
            if not document[name]:
                del document[name]
        texts.append(json.dumps(document, ensure_ascii=False))
    return Fit(SEPARATOR.join(texts), {protocol.name: WHOLE.name for protocol in protocols}, language="json")
