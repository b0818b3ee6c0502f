"""Repair the arguments of a call where the schema leaves one way to mean them (RETO §3.4: tier 1 of repair)."""

from atc.schemas.repair.arguments import FORMAT, RULES, SPELLING, UNWRAP, Repaired, repair_arguments
from atc.schemas.repair.spelling import kinship

__all__ = [
    "FORMAT",
    "RULES",
    "SPELLING",
    "UNWRAP",
    "Repaired",
    "kinship",
    "repair_arguments",
]
