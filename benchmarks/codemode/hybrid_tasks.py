"""The tasks of :mod:`benchmarks.codemode.hybrid`: a shop made of a seed, its tools, and what each task asks of them.

Every answer is computed here from the data, and never by the tools. The tools are served by
:mod:`benchmarks.codemode.hybrid_server`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
SEED = 20
PAGE = 20
CITIES = ("Lisbon", "Turin", "Ghent", "Malmö", "Graz")
WAREHOUSES = tuple(f"W{number}" for number in range(1, 9))
STATUSES = ("open", "paid", "shipped", "cancelled", "on_hold")
CATEGORIES = ("garden", "kitchen", "office", "sport")
MANY = 500


@dataclass(frozen=True)
class ToolSpec:
    """A tool of the shop: its definition, and what it answers with.

    Raises of ``answer``: ``KeyError`` for a thing that is not there.
    """

    name: str
    about: str
    parameters: Mapping[str, str]
    returns: Json
    answer: Callable[[Shop, Json], Any]
    reads: bool = True

    def definition(self) -> Json:
        """As an MCP server lists it."""
        kinds = {name: {"type": "integer" if name == "page" else "string", "description": about}
                 for name, about in self.parameters.items()}  # fmt: skip
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": {"type": "object", "properties": kinds, "required": [*kinds]},
            "outputSchema": self.returns,
            "annotations": {"readOnlyHint": self.reads},
        }


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        id: also its kind.
        text: the same in every condition.
        answer: the only right one, as JSON.
        writes: what has to be written, in any order, and nothing else.
        many: it is asked of the server of :data:`MANY` tools.
    """

    id: str
    text: str
    answer: Json
    writes: Sequence[Json] = ()
    many: bool = False


class Shop:
    """The data, the same for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        made = random.Random(seed)
        self.customers: dict[str, Json] = {}
        self.orders: dict[str, Json] = {}
        self.products: dict[str, Json] = {}
        numbers = itertools.count(5001)
        for number in range(1001, 1041):
            key = f"C-{number}"
            name = f"{made.choice(('Ana', 'Bram', 'Ivo', 'Mila', 'Noor', 'Tess'))} {made.choice(_FAMILIES)}"
            email = f"{name.lower().replace(' ', '.')}{number}@example.com"
            self.customers[key] = {"customer_id": key, "name": name, "email": email, "city": CITIES[number % 5]}
            for _ in range(80 if key == "C-1003" else 16):
                order = f"O-{next(numbers)}"
                self.orders[order] = {
                    "order_id": order, "customer_id": key, "status": made.choice(STATUSES),
                    "total": made.randrange(1_000, 99_000) / 100, "shipment_id": f"S-{made.randrange(100, 160)}",
                }  # fmt: skip
        for number in range(101, 258):
            key = f"P-{number}"
            self.products[key] = {"product_id": key, "category": made.choice(CATEGORIES),
                                  "price": made.randrange(300, 9_000) / 100}  # fmt: skip
        self.stock: dict[tuple[str, str], int] = {
            (key, place): made.randrange(0, 90) for key in self.products for place in WAREHOUSES
        }
        self.shipments: dict[str, Json] = {
            f"S-{each}": {"carrier_id": f"K-{made.randrange(10, 30)}"} for each in range(100, 160)
        }
        self.carriers: dict[str, Json] = {
            f"K-{each}": {"hub_id": f"H-{made.randrange(40, 52)}"} for each in range(10, 30)
        }
        self.hubs: dict[str, Json] = {
            f"H-{each}": {"manager_id": f"E-{made.randrange(70, 95)}"} for each in range(40, 52)
        }
        self.employees: dict[str, Json] = {
            f"E-{each}": {"office_id": f"F-{made.randrange(1, 9)}"} for each in range(70, 95)
        }
        self.offices: dict[str, Json] = {
            f"F-{each}": {"phone": f"+351 21 {made.randrange(10**6, 10**7)}"} for each in range(1, 9)
        }
        self.leave: dict[str, Json] = {each: {"days": made.randrange(2, 30)} for each in self.employees}

    def orders_of(self, customer: str) -> list[Json]:
        """The orders of a customer, the oldest first."""
        self.customers[customer]
        return [each for each in self.orders.values() if each["customer_id"] == customer]

    def page(self, number: int) -> Json:
        """One page of the products. It says only whether there is one more."""
        items = [*self.products.values()][(number - 1) * PAGE : number * PAGE]
        return {"items": items, "next_page": number + 1 if number * PAGE < len(self.products) else None}

    def write(self, order: str, status: str) -> Json:
        """Set the status of an order."""
        if status not in STATUSES:
            raise KeyError(status)
        self.orders[order] = self.orders[order] | {"status": status}
        return self.orders[order]


_FAMILIES = ("Costa", "De Vos", "Ferri", "Lund", "Moser", "Nunes", "Rossi", "Wolf")

# -- tools -------------------------------------------------------------------------------------------------------------


def _object(**kinds: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in kinds.items()},
        "required": [*kinds],
    }


def _list_of(name: str, item: Json, **kinds: Any) -> Json:
    properties = {name: {"type": "array", "items": item}, **kinds}
    return {"type": "object", "properties": properties, "required": [*properties]}


_CUSTOMER = _object(customer_id="string", name="string", email="string", city="string")
_ORDER = _object(order_id="string", customer_id="string", status="string", total="number", shipment_id="string")
_PRODUCT = _object(product_id="string", category="string", price="number")
_NEXT = {"type": ["integer", "null"]}
_BY_ORDER = {"order_id": "the order's id, such as O-5001"}
_OF_CUSTOMER = {"customer_id": "the customer's id, such as C-1001"}

TOOLS = (
    ToolSpec("get_customer", "Get a customer by id.", _OF_CUSTOMER, _CUSTOMER,
             lambda shop, a: shop.customers[a["customer_id"]]),
    ToolSpec("find_customers", "Find all customers of a city.", {"city": "the city's name"},
             _list_of("customers", _CUSTOMER),
             lambda shop, a: {"customers": [each for each in shop.customers.values() if each["city"] == a["city"]]}),
    ToolSpec("get_order", "Get an order by id.", _BY_ORDER, _ORDER, lambda shop, a: shop.orders[a["order_id"]]),
    ToolSpec("list_orders", "List all orders of a customer.", _OF_CUSTOMER, _list_of("orders", _ORDER),
             lambda shop, a: {"orders": shop.orders_of(a["customer_id"])}),
    ToolSpec("list_products", f"List the products, {PAGE} on a page.", {"page": "the page's number, from 1"},
             _list_of("items", _PRODUCT, next_page=_NEXT), lambda shop, a: shop.page(a["page"])),
    ToolSpec("get_stock", "Get how many pieces of a product lie in a warehouse.",
             {"product_id": "the product's id, such as P-101", "warehouse": "the warehouse, W1 to W8"},
             _object(pieces="integer"), lambda shop, a: {"pieces": shop.stock[a["product_id"], a["warehouse"]]}),
    ToolSpec("get_shipment", "Get who carries a shipment.", {"shipment_id": "the shipment's id"},
             _object(carrier_id="string"), lambda shop, a: shop.shipments[a["shipment_id"]]),
    ToolSpec("get_carrier", "Get the hub that a carrier works from.", {"carrier_id": "the carrier's id"},
             _object(hub_id="string"), lambda shop, a: shop.carriers[a["carrier_id"]]),
    ToolSpec("get_hub", "Get the manager of a hub.", {"hub_id": "the hub's id"},
             _object(manager_id="string"), lambda shop, a: shop.hubs[a["hub_id"]]),
    ToolSpec("get_employee", "Get the office of an employee.", {"employee_id": "the employee's id"},
             _object(office_id="string"), lambda shop, a: shop.employees[a["employee_id"]]),
    ToolSpec("get_office", "Get the phone number of an office.", {"office_id": "the office's id"},
             _object(phone="string"), lambda shop, a: shop.offices[a["office_id"]]),
    ToolSpec("set_order_status", "Set the status of an order.",
             _BY_ORDER | {"status": f"one of {', '.join(STATUSES)}"}, _ORDER,
             lambda shop, a: shop.write(a["order_id"], a["status"]), reads=False),
)  # fmt: skip

_VERBS = ("list", "get", "find", "count", "compare", "export", "preview", "validate", "describe", "check")
_THINGS = (
    "invoice", "ticket", "branch", "page", "calendar", "contact", "contract", "campaign", "photo", "backup", "budget",
    "badge", "device", "domain", "event", "expense", "forecast", "goal", "grant", "incident", "interview", "job",
    "license", "machine", "meeting", "message", "milestone", "newsletter", "offer", "parcel", "payment", "permit",
    "policy", "project", "quote", "receipt", "report", "review", "room", "route", "rule", "sensor", "shift", "survey",
    "task", "team", "trip", "vehicle", "vendor", "visit",
)  # fmt: skip


def _nothing(shop: Shop, arguments: Json) -> Any:
    return {"items": []}


def many_tools() -> tuple[ToolSpec, ...]:
    """As many tools as :data:`MANY`, of which one is of use."""
    one = ToolSpec(
        "get_leave_balance", "Get how many days of leave an employee has left.", {"employee_id": "the employee's id"},
        _object(days="integer"), lambda shop, a: shop.leave[a["employee_id"]],
    )  # fmt: skip
    pairs = [*itertools.product(_VERBS, _THINGS)][: MANY - 1]
    others = [
        ToolSpec(
            f"{verb}_{thing}", f"{verb.capitalize()} one {thing}, or some of them.", {"query": f"which {thing}"},
            _list_of("items", {"type": "object"}), _nothing,
        )
        for verb, thing in pairs
    ]  # fmt: skip
    return (*others[:333], one, *others[333:])


# -- tasks -------------------------------------------------------------------------------------------------------------


def tasks() -> dict[str, Task]:
    """The eight tasks, by their ids, each with its answer."""
    shop = Shop()
    paid = {
        key: round(sum(each["total"] for each in shop.orders_of(key) if each["status"] == "paid"), 2)
        for key, customer in shop.customers.items()
        if customer["city"] == "Turin"
    }
    richest = max(paid, key=lambda key: paid[key])
    cancelled = [each["total"] for each in shop.orders_of("C-1003") if each["status"] == "cancelled"]
    garden = [each for each in shop.products.values() if each["category"] == "garden" and each["price"] > 40]
    held = [e["order_id"] for e in shop.orders_of("C-1008") if e["status"] == "open" and e["total"] > 300]
    hub = shop.carriers[shop.shipments[shop.orders["O-5120"]["shipment_id"]]["carrier_id"]]["hub_id"]
    office = shop.employees[shop.hubs[hub]["manager_id"]]["office_id"]
    made = (
        Task("lookup", "What is the e-mail address of customer C-1017? " + _form('{"email": …}'),
             {"email": shop.customers["C-1017"]["email"]}),
        Task("fan-out", "How many pieces of product P-150 lie in each of the warehouses W1 to W8? "
             + _form('{"W1": …, "W2": …, …, "W8": …}'),
             {place: shop.stock["P-150", place] for place in WAREHOUSES}),
        Task("reduce", "How many cancelled orders does customer C-1003 have, and what is the sum of their totals, "
             "rounded to two decimals? " + _form('{"orders": …, "sum": …}'),
             {"orders": len(cancelled), "sum": round(sum(cancelled), 2)}),
        Task("long chain", "Order O-5120 went out with a shipment. What is the phone number of the office of the "
             "manager of the hub that the shipment's carrier works from? " + _form('{"phone": …}'),
             {"phone": shop.offices[office]["phone"]}),
        Task("join", "Which of the customers in Turin has the highest sum of the totals of its orders with the status "
             "paid, and what is that sum, rounded to two decimals? " + _form('{"customer_id": …, "sum": …}'),
             {"customer_id": richest, "sum": paid[richest]}),
        Task("pagination", "How many products of the category garden cost more than 40, and what does the dearest of "
             "them cost? " + _form('{"products": …, "highest": …}'),
             {"products": len(garden), "highest": max(each["price"] for each in garden)}),
        Task("write after read", "Set every order of customer C-1008 that is open and has a total of more than 300 to "
             "on_hold. Which orders are these? " + _form('{"orders": ["O-…", …]}, sorted by id'),
             {"orders": sorted(held)}, [{"order_id": each, "status": "on_hold"} for each in held]),
        Task("one of 500", "How many days of leave has employee E-77 left? " + _form('{"days": …}'),
             {"days": shop.leave["E-77"]["days"]}, many=True),
    )  # fmt: skip
    return {each.id: each for each in made}


def _form(form: str) -> str:
    return f"Answer with JSON alone: {form}."
