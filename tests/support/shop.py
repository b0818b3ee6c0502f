"""A small web shop as a browser uses it: its pages log in with a form and fetch JSON; without a login it says no."""

from __future__ import annotations

import html
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.browser import Page
from tests.support.har import recording
from tests.support.http import Handler, served

USER, PASSWORD = "mira", "tulip-garden-41"
COOKIE, CSRF = "shop_sid", "X-CSRF-Token"
PAGE_SIZE = 4

GOODS = [
    {"sku": f"SKU-{number}", "name": name, "category": category, "price": price, "stock": stock}
    for number, name, category, price, stock in (
        (4107, "Oak chair", "chairs", 89.0, 12),
        (4112, "Beech chair", "chairs", 74.5, 3),
        (4119, "Steel stool", "chairs", 39.9, 0),
        (4203, "Oak table", "tables", 249.0, 5),
        (4211, "Glass table", "tables", 199.0, 2),
        (4302, "Desk lamp", "lamps", 34.0, 20),
        (4307, "Floor lamp", "lamps", 59.0, 7),
        (4311, "Wall lamp", "lamps", 44.0, 9),
    )
]

PAGE = """<!doctype html><html><head><title>Shop</title><meta name="csrf" content="{csrf}">
<link rel="stylesheet" href="/static/shop.css"></head><body>
<input id="q"><button id="find" onclick="find()">Find</button><ul id="goods"></ul><pre id="shown"></pre>
<script src="/static/shop.js"></script>{tracker}</body></html>"""

LOGIN = """<!doctype html><html><body><form method="post" action="/login">
<input name="user" id="user"><input name="password" id="password" type="password"><button id="go">Log in</button>
</form></body></html>"""

SCRIPT = """
const csrf = document.querySelector('meta[name=csrf]').content;
window.answers = 0;
async function call(method, path, body) {
  const given = {method, headers: {'Accept': 'application/json', 'X-CSRF-Token': csrf}};
  if (body) { given.body = JSON.stringify(body); given.headers['Content-Type'] = 'application/json'; }
  const answer = await fetch(path, given);
  const value = await answer.json();
  document.querySelector('#shown').textContent = JSON.stringify(value);
  window.answers += 1;
  return value;
}
const goods = (query) => call('GET', '/api/products?' + new URLSearchParams(query));
const find = () => goods({q: document.querySelector('#q').value, page: 1});
const look = (sku) => call('GET', '/api/products/' + sku);
const put = (sku, quantity) => call('POST', '/api/cart/items', {sku, quantity});
const cart = () => call('GET', '/api/cart');
const order = (street, city) => call('POST', '/api/orders', {address: {street, city}});
const orders = () => call('GET', '/api/orders');
const ordered = (number) => call('GET', '/api/orders/' + number);
"""


@dataclass
class Shop:
    """What the shop knows, by its sessions.

    Attributes:
        requests: the method and path of each request, and whether it bore a session that holds.
        tracked: requests to the third party.
    """

    sessions: dict[str, str] = field(default_factory=dict)
    cart: list[dict[str, Any]] = field(default_factory=list)
    orders: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, bool]] = field(default_factory=list)
    tracked: list[str] = field(default_factory=list)
    url: str = ""
    tracker: str = ""

    def forget(self) -> None:
        """End all sessions, as a shop does after a while."""
        self.sessions.clear()

    def goods(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """One page of the goods whose name has a text, or that are of a category."""
        text, category = query.get("q", [""])[0].lower(), query.get("category", [""])[0]
        found = [g for g in GOODS if text in str(g["name"]).lower() and category in ("", g["category"])]
        page = int(query.get("page", ["1"])[0])
        return {"items": found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE], "page": page, "total": len(found)}

    def put(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Put something in the cart."""
        known = next((g for g in GOODS if g["sku"] == body.get("sku")), None)
        quantity = body.get("quantity")
        if known is None or not isinstance(quantity, int) or quantity < 1:
            return None
        self.cart.append({"sku": known["sku"], "quantity": quantity, "sum": known["price"] * quantity})  # type: ignore[operator]
        return self.shown_cart()

    def shown_cart(self) -> dict[str, Any]:
        return {"items": list(self.cart), "total": sum(item["sum"] for item in self.cart)}

    def order(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Order what is in the cart."""
        address = body.get("address")
        if not self.cart or not isinstance(address, dict) or not {"street", "city"} <= address.keys():
            return None
        made = {"order_number": 70_031 + len(self.orders), "status": "placed", **self.shown_cart(), "address": address}
        self.orders.append(made)
        self.cart.clear()
        return made


@contextmanager
def running_shop() -> Iterator[Shop]:
    """A shop on loopback, and a third party that its pages tell of their visitors."""
    shop = Shop()
    with served(_handler(shop)) as shop.url, served(_tracker(shop)) as tracker:
        shop.tracker = tracker.replace("127.0.0.1", "localhost")
        yield shop


class _Quiet(Handler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body in a second packet would wait for 40 ms

    def send(self, status: int, body: str, kind: str, **headers: str) -> None:
        self.say(status, body.encode(), kind, **headers)


def _tracker(shop: Shop) -> type[_Quiet]:
    class Tracker(_Quiet):
        def do_GET(self) -> None:
            shop.tracked.append(self.path)
            self.send(200, "{}", "application/json", Access_Control_Allow_Origin="*")

    return Tracker


def _handler(shop: Shop) -> type[_Quiet]:
    class Serving(_Quiet):
        def do_GET(self) -> None:
            self.serve(b"")

        def do_POST(self) -> None:
            self.serve(self.read_body())

        def serve(self, body: bytes) -> None:
            parts = urlsplit(self.path)
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
            csrf = shop.sessions.get(morsel.value) if morsel is not None else None
            shop.requests.append((self.command, parts.path, csrf is not None))
            if parts.path.startswith("/static/"):
                js = parts.path.endswith(".js")
                self.send(200, SCRIPT if js else "body{}", "text/javascript" if js else "text/css")
            elif parts.path == "/login" and self.command == "POST":
                self.log_in(parse_qs(body.decode()))
            elif parts.path == "/login":
                self.send(200, LOGIN, "text/html")
            elif parts.path.startswith("/api/"):
                self.api(parts.path.split("/")[2:], parse_qs(parts.query), body, csrf)
            elif csrf is None:
                self.send(302, "", "text/html", Location="/login")
            else:
                tracker = f"<script>fetch('{shop.tracker}/collect?page=shop')</script>"
                self.send(200, PAGE.format(csrf=html.escape(csrf), tracker=tracker), "text/html")

        def log_in(self, form: dict[str, list[str]]) -> None:
            if (form.get("user"), form.get("password")) != ([USER], [PASSWORD]):
                self.send(403, LOGIN, "text/html")
                return
            sid = f"sid-{secrets.token_hex(16)}"
            shop.sessions[sid] = f"csrf-{secrets.token_hex(12)}"
            self.send(303, "", "text/html", Location="/", Set_Cookie=f"{COOKIE}={sid}; Path=/; HttpOnly; Max-Age=86400")

        def api(self, way: list[str], query: dict[str, list[str]], body: bytes, csrf: str | None) -> None:
            if csrf is None:
                self.answer(401, {"error": "log in first"})
            elif self.command == "POST" and self.headers.get(CSRF) != csrf:
                self.answer(403, {"error": "the CSRF token is wrong"})
            elif self.command == "POST":
                self.post(way, json.loads(body or b"{}"))
            else:
                self.get(way, query)

        def get(self, way: list[str], query: dict[str, list[str]]) -> None:
            match way:
                case ["products"]:
                    self.answer(200, shop.goods(query))
                case ["products", sku]:
                    self.one((g for g in GOODS if g["sku"] == sku), lambda g: {**g, "weight_kg": 4.5})
                case ["cart"]:
                    self.answer(200, shop.shown_cart())
                case ["orders"]:
                    self.answer(200, [{k: o[k] for k in ("order_number", "status", "total")} for o in shop.orders])
                case ["orders", number]:
                    self.one((o for o in shop.orders if str(o["order_number"]) == number), dict)
                case _:
                    self.answer(404, {"error": "there is nothing here"})

        def post(self, way: list[str], body: dict[str, Any]) -> None:
            made = shop.put(body) if way == ["cart", "items"] else shop.order(body) if way == ["orders"] else None
            self.answer(
                201 if made is not None else 422, made if made is not None else {"error": "that cannot be done"}
            )

        def one(self, found: Iterator[dict[str, Any]], shown: Any) -> None:
            first = next(found, None)
            self.answer(200 if first else 404, shown(first) if first else {"error": "there is no such one"})

        def answer(self, status: int, value: Any) -> None:
            self.send(status, json.dumps(value), "application/json")

    return Serving


def visit(page: Page, shop: Shop) -> dict[str, Any]:
    """Use the shop as a customer does: log in, look for chairs and lamps, order one, look at the order.

    Returns:
        What the browser's network tab saves of it.
    """
    with recording(page) as recorder:
        page.open(f"{shop.url}/")
        page.wait("document.querySelector('#go') !== null")
        _fill(page, user=USER, password=PASSWORD)
        page.run("document.querySelector('#go').click()")
        page.wait("document.querySelector('#find') !== null && window.answers === 0")
        _fill(page, q="chair")
        steps = (
            "document.querySelector('#find').click()",
            "void look('SKU-4107')",
            "void goods({category: 'lamps', page: 1})",
            "void look('SKU-4302')",
            "void put('SKU-4302', 1)",
            "void cart()",
            "void order('Lindenweg 4', 'Basel')",
            "void orders()",
            "void ordered(70031)",
        )
        for number, step in enumerate(steps, 1):
            page.run(step)
            page.wait(f"window.answers === {number}")
            recorder.take_bodies()
    assert not [each for each in page.messages if "rror" in each], page.messages
    return recorder.har()


def _fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.run(f"document.querySelector('#{name}').focus()")
        page.type(value)
