"""A warehouse behind an MCP server whose output schemas name a part of the fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KIND = "mcp"
TASKS = (
    "Which article has the most pieces over all bins? Answer with its code.",
    "How much is the whole stock worth? Two decimals.",
    "Which articles are below their minimum? Codes, sorted.",
    "Order from each article below its minimum enough to reach twice the minimum. Answer with a dict from code to order id.",
    "Which supplier delivers the most different articles? Answer with the name.",
    "What is the total weight of bin A1, in kg with one decimal?",
    "Which bins hold more than one article? Sorted.",
    "List the hazardous articles with their class, as a dict from code to class.",
    "Move 5 pieces of 'bolt' from its fullest bin to B2. Answer with the pieces that B2 has then.",
    "How many pieces were picked in total on the busiest day? Answer as [day, pieces].",
    "For each supplier, the mean delivery time of its articles in days, one decimal. Dict by name.",
    "Which article was never picked? Codes, sorted.",
    "What share of the picks were of article 'nut', in percent of pieces, whole number?",
    "Which article has the highest price per kg? Answer with its code.",
    "Is every article in at least one bin? Answer true or false.",
    "Give the codes ordered by name, regardless of case.",
    "For how many days does the stock of 'bolt' last at its average picks per day with picks? One decimal.",
    "Which articles have dimensions, and what is their volume in litres (mm³ / 1,000,000)? Dict, three decimals.",
    "Who picked the most pieces? Answer with the name.",
    "Write the inventory as lines 'code;bin;pieces', sorted.",
)
_READ, _WRITE = {"readOnlyHint": True}, {"readOnlyHint": False}
_CODE = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
MCP: dict[str, dict[str, Any]] = {
    "articles": {
        "description": "All articles, as result: each has code, name, price, minimum, supplier and weight_kg; some have more.",
        "inputSchema": {"type": "object", "properties": {}},
        "outputSchema": {
            "type": "object",
            "properties": {
                "result": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"code": {"type": "string"}, "name": {"type": "string"}},
                        "required": ["code"],
                    },
                }
            },
            "required": ["result"],
        },
        "annotations": _READ,
    },
    "article": {
        "description": "All that is known about an article: also hazard (its class) and size_mm (a list of three), if any.",
        "inputSchema": _CODE,
        "outputSchema": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "price": {"type": "number"}, "supplier": {"type": "object"}},
        },
        "annotations": _READ,
    },
    "bins": {
        "description": "The bins in which an article is, or all; each entry has bin, code and pieces.",
        "inputSchema": {"type": "object", "properties": {"code": {"type": ["string", "null"]}}},
        "outputSchema": {"type": "object", "properties": {"entries": {"type": "array"}}},
        "annotations": _READ,
    },
    "picks": {
        "description": "What was picked: day, code, pieces, by.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": _READ,
    },
    "order": {
        "description": "Order pieces of an article. The answer has an order id.",
        "inputSchema": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "pieces": {"type": "integer", "minimum": 1}},
            "required": ["code", "pieces"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "properties": {"order": {"type": "object"}}},
        "annotations": _WRITE,
    },
    "move": {
        "description": "Move pieces of an article between bins. The answer has the pieces of both bins afterwards.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "from": {"type": "string"},
                "to": {"type": "string"},
                "pieces": {"type": "integer"},
            },
            "required": ["code", "from", "to", "pieces"],
        },
        "annotations": _WRITE,
    },
}
_ARTICLES: list[dict[str, Any]] = [
    {"code": "bolt", "name": "Bolt M8", "price": 0.2, "minimum": 100, "supplier": {"name": "Ferrum", "days": 3}, "weight_kg": 0.02},
    {"code": "nut", "name": "nut M8", "price": 0.1, "minimum": 300, "supplier": {"name": "Ferrum", "days": 5}, "weight_kg": 0.01},
    {"code": "glue", "name": "Glue", "price": 6.5, "minimum": 10, "supplier": {"name": "Chem", "days": 8}, "weight_kg": 0.5,
     "hazard": "3"},
    {"code": "box", "name": "a box", "price": 1.1, "minimum": 20, "supplier": {"name": "Pack", "days": 2}, "weight_kg": 0.3,
     "size_mm": [300, 200, 150]},
]  # fmt: skip
_BINS = [("A1", "bolt", 80), ("A2", "bolt", 30), ("A1", "nut", 250), ("B1", "glue", 4), ("B2", "box", 40)]
_PICKS = [
    ("2026-02-02", "bolt", 12, "Uma"), ("2026-02-02", "nut", 24, "Uma"), ("2026-02-03", "bolt", 7, "Raj"),
    ("2026-02-04", "box", 3, "Raj"), ("2026-02-04", "nut", 20, "Raj"),
]  # fmt: skip


def functions() -> list[Callable[..., Any]]:
    """What the server does; nothing is changed for the next caller."""

    def articles() -> dict[str, Any]:
        return {"result": [{k: v for k, v in a.items() if k != "size_mm"} for a in _ARTICLES]}

    def article(code: str) -> dict[str, Any]:
        return next(a for a in _ARTICLES if a["code"] == code)

    def bins(code: str | None = None) -> dict[str, Any]:
        return {"entries": [{"bin": b, "code": c, "pieces": n} for b, c, n in _BINS if code in (None, c)]}

    def picks() -> list[dict[str, Any]]:
        return [{"day": d, "code": c, "pieces": n, "by": by} for d, c, n, by in _PICKS]

    def order(code: str, pieces: int) -> dict[str, Any]:
        return {"order": {"id": f"o-{code}-{pieces}", "days": article(code)["supplier"]["days"]}}

    def move(code: str, to: str, pieces: int, **source: str) -> dict[str, Any]:
        first = source.get("from") or source["from_"]
        held = {b: n for b, c, n in _BINS if c == code}
        return {"bins": {first: held[first] - pieces, to: held.get(to, 0) + pieces}}

    return [articles, article, bins, picks, order, move]
