"""Units of measurement."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas import data
from atc.tools.functions import tool

if TYPE_CHECKING:
    import pint

Quantity = Literal["length", "area", "volume", "mass", "speed", "temperature", "time", "energy", "pressure"]
UnitName = Annotated[str, Field(description="Name of a unit, as list_units gives it: 'kilometer'")]

# Only these names reach pint: its parser takes any expression, and an expression can be made to take for ever.
UNITS: dict[Quantity, tuple[str, ...]] = {
    "length": ("meter", "kilometer", "centimeter", "millimeter", "mile", "nautical_mile", "yard", "foot", "inch"),
    "area": ("square_meter", "square_kilometer", "hectare", "acre", "square_mile", "square_foot"),
    "volume": ("liter", "milliliter", "cubic_meter", "gallon", "imperial_gallon", "pint", "fluid_ounce", "cup"),
    "mass": ("kilogram", "gram", "milligram", "metric_ton", "pound", "ounce", "stone"),
    "speed": ("kilometer_per_hour", "meter_per_second", "mile_per_hour", "knot", "foot_per_second"),
    "temperature": ("celsius", "fahrenheit", "kelvin"),
    "time": ("second", "minute", "hour", "day", "week"),
    "energy": ("joule", "kilojoule", "calorie", "kilocalorie", "watt_hour", "kilowatt_hour"),
    "pressure": ("pascal", "hectopascal", "bar", "atmosphere", "pound_force_per_square_inch", "millimeter_Hg"),
}
_SPELLED = {
    "square_meter": "meter ** 2",
    "square_kilometer": "kilometer ** 2",
    "square_mile": "mile ** 2",
    "square_foot": "foot ** 2",
    "cubic_meter": "meter ** 3",
    "kilometer_per_hour": "kilometer / hour",
    "meter_per_second": "meter / second",
    "mile_per_hour": "mile / hour",
    "foot_per_second": "foot / second",
    "celsius": "degree_Celsius",
    "fahrenheit": "degree_Fahrenheit",
}
_QUANTITY_OF: dict[str, Quantity] = {unit: quantity for quantity, units in UNITS.items() for unit in units}


class Converted(TypedDict):
    """A value in another unit."""

    value: Annotated[float, Field(description="The value in `unit`, to 10 significant digits")]
    unit: UnitName
    quantity: Quantity


class UnitList(TypedDict):
    """The units of a quantity."""

    quantity: Quantity
    units: list[UnitName]


@tool(effect="read", examples=[{"arguments": {"value": 26.2, "from_unit": "mile", "to_unit": "kilometer"}}])
def convert_units(
    value: Annotated[float, Field(allow_inf_nan=False)], from_unit: UnitName, to_unit: UnitName
) -> Converted:
    """Convert a value from one unit to another of the same quantity.

    Args:
        value: the number of from_unit.

    Raises:
        ToolError: not_found: there is no such unit.
        ToolError: invalid_arguments: the units measure different quantities, or the result is too large.
    """
    quantities = [_quantity(unit) for unit in (from_unit, to_unit)]
    if quantities[0] != quantities[1]:
        raise data.invalid(f"{from_unit} measures {quantities[0]} and {to_unit} measures {quantities[1]}")
    registry = _registry()
    given = registry.Quantity(value, _SPELLED.get(from_unit, from_unit))
    converted = float(f"{given.to(_SPELLED.get(to_unit, to_unit)).magnitude:.10g}")
    if converted in (float("inf"), float("-inf")):
        raise data.invalid(f"{value} {from_unit} is too large a number of {to_unit}")
    return {"value": converted, "unit": to_unit, "quantity": quantities[0]}


@tool(effect="read", examples=[{"arguments": {"quantity": "temperature"}}])
def list_units(quantity: Quantity) -> UnitList:
    """List the names of the units that convert_units knows for a quantity."""
    return {"quantity": quantity, "units": list(UNITS[quantity])}


def _quantity(unit: str) -> Quantity:
    try:
        return _QUANTITY_OF[unit]
    except KeyError:
        raise data.not_found(f"unit {unit!r}", "list_units gives the names") from None


@cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    return pint.UnitRegistry()
