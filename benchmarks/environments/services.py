"""The services of :mod:`benchmarks.environments.shops`: a shop, a library, a clinic and a workshop.

Lists come five at a time, and a table refers to others by their identifiers: to name a row, a program must first find
it, and the field of that name in another table is often not the one.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, Field

from atc.errors import ToolError
from benchmarks.environments.service import Limit, Page, Service, found, page_of, route

# -- a shop ------------------------------------------------------------------------------------------------------------


class Product(BaseModel):
    id: int
    name: str
    category: Literal["food", "tools", "toys"]
    price_cents: int
    stock: int


class Customer(BaseModel):
    id: int
    name: str
    city: str


class OrderLine(BaseModel):
    product_id: int
    quantity: int


class Order(BaseModel):
    id: int
    customer_id: int
    status: Literal["open", "shipped", "cancelled"]
    created: date
    lines: list[OrderLine]


class Products(Page):
    items: list[Product]


class Customers(Page):
    items: list[Customer]


class Orders(Page):
    items: list[Order]


class Shop(Service):
    """Products, customers, and orders that refer to both."""

    title = "Corner Shop"
    products: ClassVar[dict[int, Product]] = {
        number: Product(id=number, name=name, category=category, price_cents=price, stock=stock)  # type: ignore[arg-type]
        for number, (name, category, price, stock) in enumerate(
            [
                ("Apple", "food", 50, 120), ("Bread", "food", 275, 30), ("Hammer", "tools", 1899, 7),
                ("Saw", "tools", 2450, 0), ("Teddy", "toys", 1599, 12), ("Kite", "toys", 899, 3),
                ("Milk", "food", 125, 60), ("Drill", "tools", 7999, 2), ("Puzzle", "toys", 1250, 9),
            ],
            start=1,
        )
    }  # fmt: skip
    customers: ClassVar[dict[int, Customer]] = {
        number: Customer(id=number, name=name, city=city)
        for number, (name, city) in enumerate(
            [("Ann Berg", "Oslo"), ("Luca Conti", "Rome"), ("Mia Lund", "Oslo"), ("Ann Smith", "Leeds")], start=1
        )
    }
    orders: ClassVar[dict[int, Order]] = {
        number: Order(
            id=number,
            customer_id=1 + number % 4,
            status=("open", "shipped", "cancelled")[number % 3],
            created=date(2026, 1 + number % 6, 1 + number),
            lines=[OrderLine(product_id=1 + number % 9, quantity=1 + number % 3)],
        )
        for number in range(1, 13)
    }

    @route("get", "/products")
    def list_products(self, category: str | None = None, cursor: str | None = None, limit: Limit = 5) -> Products:
        """List products, page by page."""
        rows = [each for each in self.products.values() if category in (None, each.category)]
        return Products(**page_of(rows, cursor, limit))

    @route("get", "/products/{product_id}")
    def get_product(self, product_id: int) -> Product:
        """One product."""
        return found(self.products, product_id, "product")

    @route("patch", "/products/{product_id}/stock")
    def change_stock(self, product_id: int, delta: int) -> Product:
        """Add to (or take from) the stock of a product."""
        product = found(self.products, product_id, "product")
        product.stock += delta
        return product

    @route("get", "/customers")
    def search_customers(self, q: str = "", cursor: str | None = None, limit: Limit = 5) -> Customers:
        """Search customers by a part of the name."""
        return Customers(
            **page_of([each for each in self.customers.values() if q.lower() in each.name.lower()], cursor, limit)
        )

    @route("get", "/customers/{customer_id}")
    def get_customer(self, customer_id: int) -> Customer:
        return found(self.customers, customer_id, "customer")

    @route("get", "/orders")
    def list_orders(self, customer_id: int | None = None, cursor: str | None = None, limit: Limit = 5) -> Orders:
        """List orders, oldest first, page by page."""
        rows = [each for each in self.orders.values() if customer_id in (None, each.customer_id)]
        return Orders(**page_of(rows, cursor, limit))

    @route("get", "/orders/{order_id}")
    def get_order(self, order_id: int) -> Order:
        return found(self.orders, order_id, "order")

    @route("post", "/orders")
    def create_order(self, customer_id: int, lines: list[OrderLine]) -> Order:
        """Create an order. Takes the goods from the stock; 409 if there are not enough."""
        found(self.customers, customer_id, "customer")
        for line in lines:
            product = found(self.products, line.product_id, "product")
            if product.stock < line.quantity:
                raise ToolError(f"the service answered 409: only {product.stock} left", status=409)
        for line in lines:
            self.products[line.product_id].stock -= line.quantity
        number = max(self.orders) + 1
        self.orders[number] = Order(
            id=number, customer_id=customer_id, status="open", created=date(2026, 11, 26), lines=lines
        )
        return self.orders[number]

    @route("delete", "/orders/{order_id}")
    def delete_order(self, order_id: int) -> None:
        """Delete an order."""
        found(self.orders, order_id, "order")
        del self.orders[order_id]


# -- a library ---------------------------------------------------------------------------------------------------------


class Author(BaseModel):
    id: int
    name: str


class Book(BaseModel):
    id: int
    title: str
    author_id: int
    copies: int


class Member(BaseModel):
    id: int
    name: str
    town: str


class Loan(BaseModel):
    id: int
    book_id: int
    member_id: int
    due: date
    returned: bool = False


class Books(Page):
    items: list[Book]


class Members(Page):
    items: list[Member]


class Loans(Page):
    items: list[Loan]


class Library(Service):
    """Books of authors, members, and loans that refer to books and members; loans are documented first."""

    title = "Town Library"
    authors: ClassVar[dict[int, Author]] = {
        number: Author(id=number, name=name)
        for number, name in enumerate(
            ["Jane Austen", "George Eliot", "Frank Herbert", "Mary Shelley", "Herman Melville", "Tove Jansson"],
            start=11,
        )
    }
    books: ClassVar[dict[int, Book]] = {
        number: Book(id=number, title=title, author_id=author, copies=copies)
        for number, (title, author, copies) in enumerate(
            [
                ("Middlemarch", 12, 2), ("Dune", 13, 4), ("Frankenstein", 14, 3), ("Moby-Dick", 15, 1),
                ("Pride and Prejudice", 11, 5), ("Silas Marner", 12, 1), ("Emma", 11, 6), ("The Summer Book", 16, 2),
                ("Persuasion", 11, 3),
            ],
            start=201,
        )
    }  # fmt: skip
    members: ClassVar[dict[int, Member]] = {
        number: Member(id=number, name=name, town=town)
        for number, (name, town) in enumerate(
            [
                ("Iris Holm", "Vik"), ("Paul Ek", "Vik"), ("Nora Quist", "Lund"), ("Noah Quist", "Lund"),
                ("Elin Falk", "Skara"), ("Omar Said", "Vik"), ("Greta Ljung", "Lund"),
            ],
            start=31,
        )
    }  # fmt: skip
    loans: ClassVar[dict[int, Loan]] = {
        number: Loan(id=number, book_id=book, member_id=member, due=date(2026, 12, number - 700), returned=returned)
        for number, (book, member, returned) in enumerate(
            [
                (202, 35, True), (201, 31, True), (205, 32, False), (207, 36, False), (203, 33, True),
                (202, 37, False), (201, 31, False), (204, 34, True),
            ],
            start=701,
        )
    }  # fmt: skip

    @route("get", "/loans")
    def list_loans(
        self, member_id: int | None = None, book_id: int | None = None, cursor: str | None = None, limit: Limit = 5
    ) -> Loans:
        """List loans, those that were returned too, page by page."""
        rows = [
            each
            for each in self.loans.values()
            if member_id in (None, each.member_id) and book_id in (None, each.book_id)
        ]
        return Loans(**page_of(rows, cursor, limit))

    @route("post", "/loans")
    def lend(self, book_id: int, member_id: int) -> Loan:
        """Lend a book to a member."""
        found(self.books, book_id, "book")
        found(self.members, member_id, "member")
        number = max(self.loans) + 1
        self.loans[number] = Loan(id=number, book_id=book_id, member_id=member_id, due=date(2026, 12, 24))
        return self.loans[number]

    @route("get", "/loans/{loan_id}")
    def get_loan(self, loan_id: int) -> Loan:
        return found(self.loans, loan_id, "loan")

    @route("post", "/loans/{loan_id}/return")
    def take_back(self, loan_id: int) -> Loan:
        """Record that the book of a loan was brought back."""
        loan = found(self.loans, loan_id, "loan")
        loan.returned = True
        return loan

    @route("get", "/books/{book_id}")
    def get_book(self, book_id: int) -> Book:
        """One book."""
        return found(self.books, book_id, "book")

    @route("get", "/books")
    def list_books(self, cursor: str | None = None, limit: Limit = 5) -> Books:
        """The catalogue, page by page."""
        return Books(**page_of([*self.books.values()], cursor, limit))

    @route("delete", "/books/{book_id}")
    def discard_book(self, book_id: int) -> None:
        """Take a book out of the catalogue."""
        found(self.books, book_id, "book")
        del self.books[book_id]

    @route("get", "/authors")
    def list_authors(self) -> list[Author]:
        return [*self.authors.values()]

    @route("get", "/authors/{author_id}/books")
    def books_of_author(self, author_id: int) -> list[Book]:
        """The books of an author."""
        found(self.authors, author_id, "author")
        return [each for each in self.books.values() if each.author_id == author_id]

    @route("get", "/members")
    def search_members(self, q: str = "", cursor: str | None = None, limit: Limit = 5) -> Members:
        """Search members by a part of the name."""
        rows = [each for each in self.members.values() if q.lower() in each.name.lower()]
        return Members(**page_of(rows, cursor, limit))

    @route("get", "/members/{member_id}")
    def get_member(self, member_id: int) -> Member:
        return found(self.members, member_id, "member")


# -- a clinic ----------------------------------------------------------------------------------------------------------


Hour = Annotated[int, Field(ge=8, le=17)]


class Doctor(BaseModel):
    id: str
    name: str
    specialty: str


class Patient(BaseModel):
    id: str
    name: str
    born: date
    doctor_id: str


class Appointment(BaseModel):
    id: str
    patient_id: str
    doctor_id: str
    day: date
    hour: int


class Prescription(BaseModel):
    number: int
    patient_id: str
    drug: str
    repeats_left: int


class Patients(Page):
    items: list[Patient]


class Appointments(Page):
    items: list[Appointment]


class Clinic(Service):
    """Patients of doctors, appointments of both, and prescriptions that are listed with their patient alone."""

    title = "Clinic"
    doctors: ClassVar[dict[str, Doctor]] = {
        id: Doctor(id=id, name=name, specialty=specialty)
        for id, name, specialty in [
            ("D1", "Ken Sato", "cardiology"), ("D2", "Priya Nair", "dermatology"), ("D3", "Ruth Adler", "general"),
            ("D4", "Ivo Marek", "dermatology"),
        ]
    }  # fmt: skip
    patients: ClassVar[dict[str, Patient]] = {
        id: Patient(id=id, name=name, born=date.fromisoformat(born), doctor_id=doctor)
        for id, name, born, doctor in [
            ("P10", "Anna Kraus", "1981-03-02", "D3"), ("P11", "Bo Lindqvist", "1990-07-19", "D3"),
            ("P12", "Carla Ruiz", "1975-11-30", "D1"), ("P13", "Dana Weiss", "2001-01-08", "D2"),
            ("P14", "Emil Weiss", "1969-05-21", "D1"), ("P15", "Lena Vogt", "1988-09-14", "D3"),
            ("P16", "Omar Haddad", "1954-12-05", "D1"),
        ]
    }  # fmt: skip
    appointments: ClassVar[dict[str, Appointment]] = {
        id: Appointment(id=id, patient_id=patient, doctor_id=doctor, day=date(2026, 3, day), hour=hour)
        for id, patient, doctor, day, hour in [
            ("A500", "P12", "D1", 2, 9), ("A501", "P13", "D2", 2, 10),
            ("A502", "P10", "D3", 3, 8), ("A503", "P16", "D4", 3, 11),
            ("A504", "P14", "D1", 4, 9), ("A505", "P16", "D1", 4, 14),
        ]
    }  # fmt: skip
    prescriptions: ClassVar[dict[int, Prescription]] = {
        number: Prescription(number=number, patient_id=patient, drug=drug, repeats_left=left)
        for number, patient, drug, left in [
            (9001, "P15", "ibuprofen", 0), (9002, "P16", "amoxicillin", 1), (9003, "P15", "amoxicillin", 3),
        ]
    }  # fmt: skip

    @route("get", "/appointments")
    def list_appointments(
        self, patient_id: str | None = None, doctor_id: str | None = None, cursor: str | None = None, limit: Limit = 5
    ) -> Appointments:
        """List appointments, the earliest first, page by page."""
        rows = [
            each
            for each in self.appointments.values()
            if patient_id in (None, each.patient_id) and doctor_id in (None, each.doctor_id)
        ]
        return Appointments(**page_of(rows, cursor, limit))

    @route("post", "/appointments")
    def book_appointment(self, patient_id: str, doctor_id: str, day: date, hour: Hour) -> Appointment:
        """Book an appointment of a patient with a doctor, at a full hour."""
        found(self.patients, patient_id, "patient")
        found(self.doctors, doctor_id, "doctor")
        id = f"A{1 + max(int(each[1:]) for each in self.appointments)}"
        self.appointments[id] = Appointment(id=id, patient_id=patient_id, doctor_id=doctor_id, day=day, hour=hour)
        return self.appointments[id]

    @route("delete", "/appointments/{appointment_id}")
    def cancel_appointment(self, appointment_id: str) -> None:
        """Cancel an appointment."""
        found(self.appointments, appointment_id, "appointment")
        del self.appointments[appointment_id]

    @route("get", "/patients/{patient_id}")
    def get_patient(self, patient_id: str) -> Patient:
        return found(self.patients, patient_id, "patient")

    @route("get", "/patients")
    def list_patients(self, cursor: str | None = None, limit: Limit = 5) -> Patients:
        """List patients by name, page by page."""
        return Patients(**page_of([*self.patients.values()], cursor, limit))

    @route("get", "/patients/{patient_id}/prescriptions")
    def prescriptions_of_patient(self, patient_id: str) -> list[Prescription]:
        """The prescriptions of a patient."""
        found(self.patients, patient_id, "patient")
        return [each for each in self.prescriptions.values() if each.patient_id == patient_id]

    @route("post", "/prescriptions/{number}/renew")
    def renew_prescription(self, number: int) -> Prescription:
        """Renew a prescription, which takes one of its repeats; 409 if none is left."""
        prescription = found(self.prescriptions, number, "prescription")
        if not prescription.repeats_left:
            raise ToolError("the service answered 409: no repeat is left", status=409)
        prescription.repeats_left -= 1
        return prescription

    @route("get", "/doctors/{doctor_id}")
    def get_doctor(self, doctor_id: str) -> Doctor:
        return found(self.doctors, doctor_id, "doctor")

    @route("get", "/doctors")
    def list_doctors(self, specialty: str | None = None) -> list[Doctor]:
        """List doctors."""
        return [each for each in self.doctors.values() if specialty in (None, each.specialty)]


# -- a workshop --------------------------------------------------------------------------------------------------------


class Owner(BaseModel):
    id: int
    name: str


class Car(BaseModel):
    plate: str
    model: str
    owner_id: int


class Mechanic(BaseModel):
    id: int
    name: str


class Piece(BaseModel):
    sku: str
    name: str
    price_cents: int
    stock: int


class Used(BaseModel):
    sku: str
    quantity: int


class Repair(BaseModel):
    number: int
    plate: str
    work: str
    mechanic_id: int | None = None
    done: bool = False
    parts: list[Used] = []


class Cars(Page):
    items: list[Car]


class Pieces(Page):
    items: list[Piece]


class Repairs(Page):
    items: list[Repair]


class Workshop(Service):
    """Cars of owners, repairs of cars by mechanics, and parts: identifiers are plates, numbers and article codes."""

    title = "Car Workshop"
    owners: ClassVar[dict[int, Owner]] = {
        number: Owner(id=number, name=name)
        for number, name in enumerate(["Karim Aziz", "Greta Olsen", "Hugo Blanc", "Greta Olson"], start=61)
    }
    cars: ClassVar[dict[str, Car]] = {
        plate: Car(plate=plate, model=model, owner_id=owner)
        for plate, model, owner in [
            ("ABC123", "Golf", 63), ("DEF456", "Yaris", 64), ("GHJ789", "Clio", 61), ("KLM442", "Volvo 240", 63),
            ("NPR310", "Corolla", 64), ("STU905", "Fiesta", 62),
        ]
    }  # fmt: skip
    mechanics: ClassVar[dict[int, Mechanic]] = {
        number: Mechanic(id=number, name=name) for number, name in [(3, "Pia Berg"), (5, "Tove Lund"), (8, "Jan Maas")]
    }
    parts: ClassVar[dict[str, Piece]] = {
        sku: Piece(sku=sku, name=name, price_cents=price, stock=stock)
        for sku, name, price, stock in [
            ("OF-11", "oil filter", 990, 40), ("SP-04", "spark plug", 650, 64), ("WB-20", "wiper blade", 1450, 18),
            ("AF-07", "air filter", 1790, 12), ("BD-31", "brake disc", 6900, 8), ("BP-30", "brake pad", 2350, 16),
            ("TB-52", "timing belt", 8430, 5),
        ]
    }  # fmt: skip
    repairs: ClassVar[dict[int, Repair]] = {
        number: Repair(number=number, plate=plate, work=work, mechanic_id=mechanic, done=done)
        for number, plate, work, mechanic, done in [
            (4001, "GHJ789", "oil change", 3, True), (4002, "ABC123", "new clutch", 8, False),
            (4003, "KLM442", "inspection", 5, True), (4004, "STU905", "new tyres", 3, True),
            (4005, "KLM442", "brakes", 3, False), (4006, "GHJ789", "timing belt", None, False),
        ]
    }  # fmt: skip

    @route("get", "/repairs")
    def list_repairs(self, plate: str | None = None, cursor: str | None = None, limit: Limit = 5) -> Repairs:
        """List repairs, the oldest first, page by page."""
        rows = [each for each in self.repairs.values() if plate in (None, each.plate)]
        return Repairs(**page_of(rows, cursor, limit))

    @route("put", "/repairs/{number}/mechanic")
    def assign_mechanic(self, number: int, mechanic_id: int) -> Repair:
        """Give a repair to a mechanic."""
        found(self.mechanics, mechanic_id, "mechanic")
        repair = found(self.repairs, number, "repair")
        repair.mechanic_id = mechanic_id
        return repair

    @route("post", "/repairs/{number}/parts")
    def add_part(self, number: int, sku: str, quantity: int) -> Repair:
        """Put a part onto a repair, and take it from the stock; 409 if there are not enough."""
        repair = found(self.repairs, number, "repair")
        part = found(self.parts, sku, "part")
        if part.stock < quantity:
            raise ToolError(f"the service answered 409: only {part.stock} left", status=409)
        part.stock -= quantity
        repair.parts = [*repair.parts, Used(sku=sku, quantity=quantity)]
        return repair

    @route("get", "/parts/{sku}")
    def get_part(self, sku: str) -> Piece:
        return found(self.parts, sku, "part")

    @route("get", "/parts")
    def list_parts(self, cursor: str | None = None, limit: Limit = 5) -> Pieces:
        """The parts in stock, page by page."""
        return Pieces(**page_of([*self.parts.values()], cursor, limit))

    @route("get", "/cars")
    def list_cars(self, cursor: str | None = None, limit: Limit = 5) -> Cars:
        """List cars by plate, page by page."""
        return Cars(**page_of([*self.cars.values()], cursor, limit))

    @route("get", "/cars/{plate}")
    def get_car(self, plate: str) -> Car:
        return found(self.cars, plate, "car")

    @route("get", "/owners")
    def list_owners(self) -> list[Owner]:
        return [*self.owners.values()]

    @route("get", "/owners/{owner_id}/cars")
    def cars_of_owner(self, owner_id: int) -> list[Car]:
        """The cars of an owner."""
        found(self.owners, owner_id, "owner")
        return [each for each in self.cars.values() if each.owner_id == owner_id]

    @route("get", "/mechanics")
    def list_mechanics(self) -> list[Mechanic]:
        return [*self.mechanics.values()]
