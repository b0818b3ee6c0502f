"""Repair the arguments of a call where the schema leaves one way to mean them (RETO §3.4: tier 1 of repair)."""

from __future__ import annotations

from atc.schemas.repair.arguments import FORMAT as FORMAT
from atc.schemas.repair.arguments import RULES as RULES
from atc.schemas.repair.arguments import SPELLING as SPELLING
from atc.schemas.repair.arguments import UNWRAP as UNWRAP
from atc.schemas.repair.arguments import Repaired as Repaired
from atc.schemas.repair.arguments import repair_arguments as repair_arguments
from atc.schemas.repair.spelling import kinship as kinship
