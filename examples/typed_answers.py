"""Several tasks at once, and each answer is an object of a class of yours.

python examples/typed_answers.py
"""

from dataclasses import dataclass
from typing import TypedDict

from atc import Agent, tool


class Room(TypedDict):
    room: str
    beds: int
    euros: int


@dataclass
class Offer:
    room: str
    euros: int


@tool(effect="read")
def list_rooms(hotel: str) -> list[Room]:
    """All free rooms of a hotel, with the price of a night in euros."""
    return {
        "Anchor": [{"room": "12", "beds": 1, "euros": 60}, {"room": "14", "beds": 2, "euros": 85}],
        "Bellevue": [{"room": "3", "beds": 2, "euros": 140}, {"room": "5", "beds": 2, "euros": 120}],
    }[hotel]


tasks = [f"Which free room of the hotel {hotel} is the cheapest, and for how much?" for hotel in ("Anchor", "Bellevue")]
with Agent([list_rooms], answer=Offer, sentence=False) as agent:
    for result in agent.map(tasks):
        print(result.status, result.value)
