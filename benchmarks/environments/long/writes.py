"""Steps of long tasks that change something, with a value of an earlier step as an argument."""

from __future__ import annotations

from benchmarks.environments.long.steps import (
    DATE,
    DATES,
    EMAIL,
    MONEY,
    PLACE,
    WORD,
    NotFitting,
    Solver,
    Told,
    Value,
    listed,
    message,
    only,
    step,
)

OWNER = "emma"
SUBJECTS = ("Deposit", "Share of the costs", "Refund", "Advance")
PARTS = {"all of": 1.0, "half of": 0.5, "a tenth of": 0.1, "a quarter of": 0.25}
TITLES = ("Planning", "Check-in", "Review", "Preparation")
TRIPS = ("Spring tour", "Partner visit", "Long weekend", "Site visit")
FILES = ("summary.txt", "figures.txt", "trip-notes.txt", "memo.txt")


def contact(solve: Solver) -> str:
    """Draw the address of a colleague of the user."""
    rows: list[str] = [row["email"] for row in solve.peek("mail_search_contacts_by_name", query="")]
    domain = next(row for row in rows if row.startswith(OWNER)).partition("@")[2]
    return solve.one("contact", sorted(row for row in rows if row.endswith(domain) and not row.startswith(OWNER)))


def paid_before(solve: Solver) -> str:
    """Draw the subject of a payment that was made."""
    rows = solve.peek("bank_get_most_recent_transactions")
    subjects: list[str] = [row["subject"] for row in rows if row["sender"] == "me"]
    return solve.one("recipient", subjects)


def account(solve: Solver) -> tuple[str, str]:
    """Draw the subject of a payment, and look up the account that it went to."""
    subject = paid_before(solve)
    mine = solve("bank_get_most_recent_transactions")
    return subject, only([row["recipient"] for row in mine if row["subject"] == subject], subject)


def stock(symbol: Value) -> str:
    """Return what a symbol is the symbol of."""
    return symbol.phrase.removeprefix("the symbol of ")


@step(DATE, WORD, group="event")
def meet(solve: Solver, date: Value, word: Value) -> Told:
    title, hour, guest = solve.one("title", TITLES), int(solve.one("hour", "89")), contact(solve)
    solve(
        "calendar_create_calendar_event",
        title=f"{title}: {word.text}",
        start_time=f"{date.value} 0{hour}:30",
        end_time=f"{date.value} {hour + 1:02}:30",
        participants=[guest],
    )
    return Told(
        f'put an event with the title "{title}: X", with {word.exact} for X, into my calendar, on {date.phrase} from '
        f"0{hour}:30 to {hour + 1:02}:30, with {guest} as the only other participant."
    )


@step(MONEY, group="transfer")
def pay(solve: Solver, money: Value) -> Told:
    part, subject, date = solve.one("part", sorted(PARTS)), solve.one("subject", SUBJECTS), solve.one("date", DATES)
    before, iban = account(solve)
    amount = round(PARTS[part] * money.value, 2)
    solve("bank_send_money", recipient=iban, amount=amount, subject=subject, date=date)
    return Told(
        f'send {part} {money.phrase} (rounded to cents) from my bank account to the account that my payment "{before}" '
        f'went to, with the subject "{subject}" and the date {date}.'
    )


@step(MONEY, DATE, group="transfer")
def schedule(solve: Solver, money: Value, date: Value) -> Told:
    part, subject = solve.one("part", sorted(PARTS)), solve.one("subject", SUBJECTS)
    before, iban = account(solve)
    solve(
        "bank_schedule_transaction",
        recipient=iban,
        amount=round(PARTS[part] * money.value, 2),
        subject=subject,
        date=date.value,
        recurring=False,
    )
    return Told(
        f"schedule a transfer in my bank for {date.phrase}, once and not recurring, of {part} {money.phrase} (rounded "
        f'to cents), to the account that my payment "{before}" went to, with the subject "{subject}".'
    )


@step(WORD)
def post(solve: Solver, word: Value) -> Told:
    channel = solve.one("channel", sorted(solve.peek("chat_get_channels")))
    user = solve.one("user", sorted(solve.peek("chat_get_users_in_channel", channel="general")))
    asked, body = message(solve, word, "post")
    solve("chat_send_channel_message", channel=channel, body=body)
    solve("chat_send_direct_message", recipient=user, body=body)
    return Told(
        f'post the message {asked}, in the chat channel "{channel}", and send the same message to {user} directly.'
    )


@step(WORD, group="message")
def note(solve: Solver, word: Value) -> Told:
    name, guest = solve.one("file", FILES), contact(solve)
    asked, body = message(solve, word, "note")
    file = solve("drive_create_file", filename=name, content=body)
    solve("drive_share_file", file_id=file["id_"], email=guest, permission="r")
    return Told(
        f"make a new file {name} in my drive with the content {asked}, and share it with {guest}, for reading only."
    )


@step(WORD, group="message")
def append(solve: Solver, word: Value) -> Told:
    names = sorted(each["filename"] for each in solve.peek("drive_list_files"))
    name = solve.one("file to append to", names)
    asked, body = message(solve, word, "line")
    file = only(solve("drive_search_files_by_filename", filename=name), name)
    solve("drive_append_to_file", file_id=file["id_"], content=f"\n{body}")
    return Told(f"append a line {asked}, to the file {name} in my drive.")


@step(PLACE, DATE, MONEY, group="trip")
def trip(solve: Solver, place: Value, date: Value, money: Value) -> Told:
    name, nights, coin = solve.one("trip", TRIPS), int(solve.one("nights", "2345")), solve.one("coin", ("EUR", "USD"))
    made = solve("trips_create_trip", name=name, currency_code=coin)
    solve("trips_add_stop", trip_id=made["trip_id"], city_id=place.value, arrival=date.value, nights=nights)
    solve("trips_pay_deposit", trip_id=made["trip_id"], amount=money.value, currency_code=coin)
    return Told(
        f'create a trip "{name}" whose deposits are in {coin}, add a stop of {nights} nights in {place.phrase} with '
        f"arrival on {date.phrase}, and pay a deposit for it: the number of {coin} is {money.phrase}."
    )


@step(PLACE, DATE, group="trip")
def visit(solve: Solver, place: Value, date: Value) -> Told:
    name, nights, coin = solve.one("trip", TRIPS), int(solve.one("nights", "2345")), solve.one("coin", ("EUR", "USD"))
    made = solve("trips_create_trip", name=name, currency_code=coin)
    stop = solve("trips_add_stop", trip_id=made["trip_id"], city_id=place.value, arrival=date.value, nights=nights)
    text = (
        f'create a trip "{name}" whose deposits are in {coin}, and add a stop of {nights} nights in {place.phrase} '
        f"with arrival on {date.phrase}."
    )
    return Told(text, [Value("date", "departure", "the day that this stop ends", stop["stop"]["departure"])])


@step(frozenset({"symbol"}), frozenset({"price"}), group="order")
def buy(solve: Solver, symbol: Value, price: Value) -> Told:
    number = int(solve.one("number to buy", "123"))
    if price.key != symbol.key.replace("symbol", "price"):
        raise NotFitting("the price of another stock")
    solve("broker_place_order", order_type="Buy", symbol=symbol.value, price=price.value, amount=number)
    solve("broker_add_to_watchlist", stock=symbol.value)
    return Told(
        f"place a buy order for {number} share{'s' * (number > 1)} of {stock(symbol)} at {price.phrase} with my "
        "broker, and put the symbol on my watchlist."
    )


@step(WORD, group="message")
def ticket(solve: Solver, word: Value) -> Told:
    title, priority = solve.one("ticket", TITLES), int(solve.one("priority", "2345"))
    asked, body = message(solve, word, "ticket")
    solve("ticket_ticket_login", username="emma", password="blue-9-kite")
    solve("ticket_create_ticket", title=title, description=body, priority=priority)
    return Told(
        'log in to the ticket system (user "emma", password "blue-9-kite") and create a ticket of priority '
        f'{priority} with the title "{title}" and the description {asked}.'
    )


@step(DATE, group="reservation")
def reserve(solve: Solver, date: Value) -> Told:
    city = solve.one("city to stay in", ("Paris", "London"))
    hotel = solve.one("hotel", listed(solve.peek("travel_get_all_hotels_in_city", city=city)))
    nights = int(solve.one("nights to stay", "2345"))
    end = solve("atlas_add_days", date=date.value, days=nights)["date"]
    solve("travel_reserve_hotel", hotel=hotel, start_day=date.value, end_day=end)
    return Told(
        f"reserve the hotel {hotel} in {city} for {nights} nights, with check-in on {date.phrase}.",
        [Value("date", "check_out", "the day of check-out", end)],
    )


@step(EMAIL, WORD)
def write(solve: Solver, email: Value, word: Value) -> Told:
    subject = solve.one("mail subject", SUBJECTS)
    asked, body = message(solve, word, "mail")
    solve("mail_send_email", recipients=[email.value], subject=subject, body=body)
    return Told(f'send a mail to {email.phrase}, with the subject "{subject}" and the text {asked}.')


@step(MONEY)
def fund(solve: Solver, money: Value) -> Told:
    part = solve.one("part to fund", sorted(PARTS))
    balance = solve("broker_fund_account", amount=round(PARTS[part] * money.value, 2))["new_balance"]
    return Told(
        f"pay {part} {money.phrase} (rounded to cents) into my account at the broker.",
        [Value("money", "new_balance", "the new balance at the broker", round(balance, 2))],
    )
