"""A small MCP server: the orders of a shop, and a tool that cancels one. It adds each cancelled order to a file.

python examples/shop_server.py [FILE]
"""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

CANCELLED = Path(sys.argv[1] if sys.argv[1:] else "cancelled.txt")
server = MCPServer("shop", log_level="WARNING")


class Order(BaseModel):
    order_id: str
    product: str
    euros: int


class Receipt(BaseModel):
    order_id: str
    refunded_euros: int


ORDERS = {
    "ann@example.org": [
        Order(order_id="o17", product="lamp", euros=40),
        Order(order_id="o18", product="chair", euros=85),
        Order(order_id="o19", product="clock", euros=23),
    ]
}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_orders(customer: str) -> list[Order]:
    """List the open orders of a customer, who is named by an e-mail address."""
    return ORDERS.get(customer, [])


@server.tool(annotations=ToolAnnotations(read_only_hint=False))
def cancel_order(order_id: str) -> Receipt:
    """Cancel an order and refund what was paid."""
    order = next(each for orders in ORDERS.values() for each in orders if each.order_id == order_id)
    with CANCELLED.open("a") as lines:
        lines.write(f"{order_id}\n")
    return Receipt(order_id=order_id, refunded_euros=order.euros)


if __name__ == "__main__":
    server.run()
