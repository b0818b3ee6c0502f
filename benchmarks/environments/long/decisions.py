"""Steps of long tasks whose calls the text does not foretell: a choice among found items, a branch, a loop."""

from __future__ import annotations

from benchmarks.environments.long.steps import (
    COUNTRIES,
    COUNTRY,
    DATE,
    DATES,
    LANDS,
    MONEY,
    NUMBER,
    SYMBOL,
    WORD,
    NotFitting,
    Solver,
    Told,
    Value,
    best,
    listed,
    message,
    numbers_in,
    only,
    step,
)
from benchmarks.environments.long.writes import OWNER, SUBJECTS, TITLES, TRIPS, paid_before, stock

CAPS = (120, 200, 250)
MONTHS = {"May": "05", "June": "06", "August": "08", "November": "11", "December": "12"}
FIELDS = (
    ("price", "the highest price"),
    ("percent_change", "the largest change in percent"),
    ("volume", "the largest volume"),
)
TICKET_USER, TICKET_PASSWORD = "emma", "blue-9-kite"  # nobody's account


# Choices --------------------------------------------------------------------------------------------------------------


@step(decides="choice", group="hotel")
def best_hotel(solve: Solver) -> Told:
    city, cap = solve.one("city of hotels", ("Paris", "London")), solve.one("cap", CAPS)
    names = listed(solve("travel_get_all_hotels_in_city", city=city))
    prices = solve("travel_get_hotels_prices", hotel_names=names)
    ratings = solve("travel_get_rating_reviews_for_hotels", hotel_names=names)
    cheap = [name for name in names if numbers_in(prices[name])[0] <= cap]
    if len(cheap) < 2:
        raise NotFitting("no choice")
    name = best({name: numbers_in(ratings[name])[0] for name in cheap}, "hotel")
    text = f"among the hotels in {city} whose price range begins at {cap} or less, find the one with the best rating."
    return Told(
        text,
        [
            Value("name", "hotel", "the name of that hotel", name),
            Value("money", "night", "the lower end of the price range of that hotel", numbers_in(prices[name])[0]),
        ],
    )


@step(decides="choice")
def best_restaurant(solve: Solver) -> Told:
    city = solve.one("city of restaurants", ("Paris", "London"))
    names = listed(solve("travel_get_all_restaurants_in_city", city=city))
    kinds = solve("travel_get_cuisine_type_for_restaurants", restaurant_names=names)
    kind = solve.one("cuisine", sorted({each for each in kinds.values() if [*kinds.values()].count(each) > 1}))
    chosen = [name for name in names if kinds[name] == kind]
    ratings = solve("travel_get_rating_reviews_for_restaurants", restaurant_names=chosen)
    name = best({each: numbers_in(ratings[each])[0] for each in chosen}, "restaurant")
    price = solve("travel_get_price_for_restaurants", restaurant_names=[name])[name]
    return Told(
        f"among the restaurants in {city} with {kind} cuisine, find the one with the best rating.",
        [
            Value("name", "restaurant", "the name of that restaurant", name),
            Value("money", "meal", "the price for one person at that restaurant", price),
        ],
    )


@step(decides="loop", group="capital")
def largest_neighbour(solve: Solver) -> Told:
    name = solve.one("country with neighbours", COUNTRIES)
    code = only(solve("atlas_find_countries", name=name)["countries"], name)["country_code"]
    codes = solve("atlas_get_country", country_code=code)["neighbour_codes"]
    if not 1 < len(codes) < 8:
        raise NotFitting("no choice, or too many")
    around = {each: solve("atlas_get_country", country_code=each) for each in codes}
    top = around[best({each: country["population"] for each, country in around.items()}, "neighbour")]
    if top["capital"] is None or top["capital"]["city_id"] is None:
        raise NotFitting("no capital")
    return Told(
        f"among the countries that have a land border with {name}, find the one with the most inhabitants.",
        [
            Value("place", "neighbour_capital", "the capital of that neighbour", top["capital"]["city_id"]),
            Value("name", "neighbour", "the two-letter code of that neighbour", top["country_code"]),
            Value("country", "neighbour_country", "that neighbour", top["country_code"]),
        ],
    )


@step(decides="loop")
def rising_stock(solve: Solver) -> Told:
    symbols = solve("broker_get_available_stocks", sector="Technology")["stock_list"]
    found = {symbol: solve("broker_get_stock_info", symbol=symbol) for symbol in symbols}
    field, asked = solve.one(
        "field",
        (
            ("price", "the highest price"),
            ("percent_change", "the largest change in percent"),
            ("volume", "the largest volume"),
        ),
    )
    symbol = best({each: info[field] for each, info in found.items()}, "stock")
    return Told(
        f'among the stocks of the sector "Technology" at my broker, find the one with {asked}.',
        [
            Value("symbol", "stock_symbol", "the symbol of that technology stock", symbol),
            Value("price", "stock_price", "the current price of that technology stock", found[symbol]["price"]),
        ],
    )


@step(decides="loop")
def largest_channel(solve: Solver) -> Told:
    channels = solve("chat_get_channels")
    members = {each: solve("chat_get_users_in_channel", channel=each) for each in channels}
    name = best({each: len(users) for each, users in members.items()}, "channel")
    return Told(
        "find the chat channel with the most members.",
        [
            Value("name", "channel", "the name of that channel", name),
            Value("number", "members", "the number of members of that channel", len(members[name])),
        ],
    )


# Branches -------------------------------------------------------------------------------------------------------------


@step(DATE, decides="if")
def working_day(solve: Solver, date: Value) -> Told:
    land = solve.one("land of work", sorted(LANDS))
    day = date.value
    if not solve("atlas_check_date", country_code=LANDS[land], date=day)["is_business_day"]:
        day = solve("atlas_add_business_days", country_code=LANDS[land], start=day, days=1)["date"]
    text = (
        f"check whether {date.phrase} is a business day in {land}: if it is, this is the working date; if not, the "
        f"next business day in {land} after it is."
    )
    return Told(text, [Value("date", "working_date", "the working date", day)], ("atlas_add_business_days",))


@step(DATE, WORD, decides="if", group="event")
def busy_day(solve: Solver, date: Value, word: Value) -> Told:
    channel, title = solve.one("channel", sorted(solve.peek("chat_get_channels"))), solve.one("title", TITLES)
    asked, body = message(solve, word, "busy")
    found = len(solve("calendar_get_day_calendar_events", day=date.value))
    if found >= 2:
        solve("chat_send_channel_message", channel=channel, body=body)
    else:
        solve(
            "calendar_create_calendar_event",
            title=title,
            start_time=f"{date.value} 15:00",
            end_time=f"{date.value} 16:00",
        )
    text = (
        f"count the events in my calendar on {date.phrase}. If there are two or more, post the message {asked}, in the "
        f'chat channel "{channel}"; if there are fewer, put an event "{title}" into my calendar on that day, from '
        "15:00 to 16:00, without other participants."
    )
    branches = ("chat_send_channel_message", "calendar_create_calendar_event")
    return Told(text, [Value("number", "events", "the number of those events", found)], branches)


@step(MONEY, decides="if", group="transfer")
def afford(solve: Solver, money: Value) -> Told:
    subject, title = solve.one("subject", SUBJECTS), solve.one("ticket title", TITLES)
    date = solve.one("date", ("2024-06-01", "2024-06-10"))
    before = paid_before(solve)
    balance = solve("bank_get_balance")
    if balance >= money.value:
        rows = solve("bank_get_most_recent_transactions")
        iban = only([row["recipient"] for row in rows if row["subject"] == before], before)
        solve("bank_send_money", recipient=iban, amount=money.value, subject=subject, date=date)
    else:
        solve("ticket_ticket_login", username=TICKET_USER, password=TICKET_PASSWORD)
        solve("ticket_create_ticket", title=title, description=f"Missing: {money.value - balance:.2f}", priority=4)
    text = (
        f"look at the balance of my bank account. If it is at least {money.phrase}, send {money.phrase} to the account "
        f'that my payment "{before}" went to, with the subject "{subject}" and the date {date}. If it is less, send '
        f'nothing: log in to the ticket system (user "{TICKET_USER}", password "{TICKET_PASSWORD}") and create a '
        f'ticket of priority 4 with the title "{title}" and the description "Missing: X", with the difference for X.'
    )
    branches = (
        "bank_get_most_recent_transactions",
        "bank_send_money",
        "ticket_ticket_login",
        "ticket_create_ticket",
    )
    return Told(text, branches=branches)


@step(SYMBOL, decides="if", group="order")
def trend(solve: Solver, symbol: Value) -> Told:
    info = solve("broker_get_stock_info", symbol=symbol.value)
    number = int(solve.one("number to order", "12"))
    above = info["price"] > info["MA(20)"]
    if above:
        solve("broker_place_order", order_type="Buy", symbol=symbol.value, price=info["price"], amount=number)
    else:
        solve("broker_add_to_watchlist", stock=symbol.value)
    text = (
        f"compare the price of {stock(symbol)} with its 20-day moving average at my broker. If the price is higher, "
        f"place a buy order for {number} share{'s' * (number > 1)} of it at the current price; otherwise put its "
        "symbol on my watchlist."
    )
    return Told(text, branches=("broker_place_order", "broker_add_to_watchlist"))


@step(NUMBER, decides="if", group="fuel")
def refuel(solve: Solver, number: Value) -> Told:
    gallons = solve("car_displayCarStatus", option="fuel")["fuelLevel"]
    litres = solve("car_gallon_to_liter", gallon=gallons)["liter"]
    more = int(solve.one("gallons", ("5", "10", "20")))
    if litres < number.value:
        solve("car_fillFuelTank", fuelAmount=more)
    else:
        solve("car_setHeadlights", mode="on")
    text = (
        f"look how many litres of fuel are in the tank of my car. If that number is below {number.phrase}, fill in "
        f"{more} more gallons; otherwise turn the headlights on."
    )
    return Told(text, branches=("car_fillFuelTank", "car_setHeadlights"))


# Loops over what was found --------------------------------------------------------------------------------------------


@step(WORD, decides="loop")
def tell_guests(solve: Solver, word: Value) -> Told:
    titles = [each["title"] for each in solve.peek("calendar_search_calendar_events", query="")]
    title = solve.one("event with guests", sorted(titles))
    subject = solve.one("subject to guests", SUBJECTS)
    asked, body = message(solve, word, "guests")
    guests = [
        each
        for each in only(solve("calendar_search_calendar_events", query=title), title)["participants"]
        if not each.startswith(OWNER)
    ]
    if len(guests) < 2:
        raise NotFitting("no guests")
    for guest in guests:
        solve("mail_send_email", recipients=[guest], subject=subject, body=body)
    text = (
        f'send each participant of the event "{title}" in my calendar, except me ({_owner(solve)}), a mail of '
        f'their own with the subject "{subject}" and the text {asked}.'
    )
    return Told(text, [Value("number", "mails", "the number of mails sent to participants", len(guests))])


def _owner(solve: Solver) -> str:
    events = solve.peek("calendar_search_calendar_events", query="")
    found: str = next(each for each in events[0]["participants"] if each.startswith(OWNER))
    return found


@step(COUNTRY, decides="loop", group="event")
def mark_holidays(solve: Solver, country: Value) -> Told:
    month = solve.one("month", sorted(MONTHS))
    days = [
        each["date"]
        for each in solve("atlas_public_holidays", country_code=country.value, year=2024)["holidays"]
        if each["date"][5:7] == MONTHS[month]
    ]
    if not days or len(set(days)) != len(days):
        raise NotFitting("no holidays")
    for day in days:
        solve(
            "calendar_create_calendar_event",
            title=f"Holiday: {day}",
            start_time=f"{day} 08:00",
            end_time=f"{day} 09:00",
        )
    text = (
        f"for each nation-wide public holiday of {country.phrase} in {month} 2024, put an event with the title "
        '"Holiday: X", with its date (YYYY-MM-DD) for X, into my calendar on that day from 08:00 to 09:00, without '
        "other participants."
    )
    return Told(text, [Value("number", "holidays", "the number of those holidays", len(days))])


@step(WORD, decides="loop")
def tell_members(solve: Solver, word: Value) -> Told:
    channel = solve.one("channel of members", sorted(solve.peek("chat_get_channels")))
    asked, body = message(solve, word, "members")
    users = solve("chat_get_users_in_channel", channel=channel)
    if len(users) < 2:
        raise NotFitting("one member")
    for user in users:
        solve("chat_send_direct_message", recipient=user, body=body)
    text = f'send every member of the chat channel "{channel}" the direct message {asked}.'
    return Told(text, [Value("number", "told", "the number of members who got the message", len(users))])


@step(COUNTRY, decides="loop", group="trip")
def round_trip(solve: Solver, country: Value) -> Told:
    first = solve.one("first arrival", DATES)
    name, nights = solve.one("round trip", TRIPS), int(solve.one("nights each", "123"))
    codes = sorted(solve("atlas_get_country", country_code=country.value)["neighbour_codes"])
    if not 1 < len(codes) < 8:
        raise NotFitting("no tour, or too long")
    capitals = [solve("atlas_get_country", country_code=code)["capital"] for code in codes]
    if not all(town and town["city_id"] for town in capitals):
        raise NotFitting("no capital")
    made = solve("trips_create_trip", name=name, currency_code="EUR")["trip_id"]
    day = first
    for town in capitals:
        stop = solve("trips_add_stop", trip_id=made, city_id=town["city_id"], arrival=day, nights=nights)["stop"]
        day = stop["departure"]
    text = (
        f'create a trip "{name}" whose deposits are in EUR, with a stop of {nights} night{"s" * (nights > 1)} in the '
        f"capital of each country that has a land border with {country.phrase}, in the alphabetical order of the "
        f"two-letter codes of these countries: the first arrival is on {first}, and each stop begins on the day "
        "that the one before ends."
    )
    return Told(text, [Value("date", "tour_end", "the day that the last stop ends", day)])
