"""Two functions of a shop become tools, and one task needs both.

python examples/functions.py
"""

from typing import TypedDict

from atc import Agent, tool


class Customer(TypedDict):
    customer_id: str
    city: str


class Order(TypedDict):
    order_id: str
    product: str
    euros: int


CUSTOMERS: dict[str, Customer] = {
    "Ann Berg": {"customer_id": "c17", "city": "Oslo"},
    "Luca Conti": {"customer_id": "c23", "city": "Rome"},
}
ORDERS: dict[str, list[Order]] = {
    "c17": [
        {"order_id": "o1", "product": "lamp", "euros": 40},
        {"order_id": "o4", "product": "chair", "euros": 85},
        {"order_id": "o9", "product": "clock", "euros": 23},
    ],
    "c23": [{"order_id": "o2", "product": "table", "euros": 310}],
}


@tool(effect="read")
def find_customer(name: str) -> Customer:
    """Find a customer by the whole name."""
    return CUSTOMERS[name]


@tool(effect="read")
def list_orders(customer_id: str) -> list[Order]:
    """All orders of a customer."""
    return ORDERS[customer_id]


with Agent([find_customer, list_orders]) as agent:
    result = agent.run("How many euros did Ann Berg spend in all her orders? Answer with the number.")

print(result.program)
for call in result.calls:
    print(call.index, call.tool, call.arguments, call.status)
print(result.answer)
print(result.status, result.value)
