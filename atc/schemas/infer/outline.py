"""What is kept of responses beyond a run: keys and types with counts, never a value.

An :class:`Outline` is made of a :class:`~atc.schemas.infer.shape.Shape`, which holds strings and ranges and so lives no
longer than the run. The values of a dictionary are taken as one, without their keys.

A key such as ``alice`` or ``Lisbon`` looks like any name of a field. So a key is taken for a name, and kept, only where
each of its words is common in interfaces, or stands in the documents of the tools (:func:`is_field_name`). Names of
persons, places, colours, months, days, languages and currencies are left out, as far as they mean nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from atc.schemas.identifiers import (
    CONTAINERS,
    COORDINATES,
    GENERIC,
    HANDED_OUT,
    LABELS,
    NAMES,
    QUALIFIERS,
    REGISTERED,
    THINGS,
    VERBS,
    singular,
    split,
)
from atc.schemas.infer.evidence import Node, Objects
from atc.schemas.infer.keys import dictionary
from atc.schemas.infer.shape import Shape, merged_nodes
from atc.schemas.infer.text import listed, looks_secret, may_be_name
from atc.schemas.protocol import JsonSchema
from atc.schemas.types import EVIDENCE, OBSERVED

MAX_DIGITS = 2
"""Digits that may stand together in a name (``address_2``)."""
_NAME = re.compile(r"[A-Za-z_$@][A-Za-z0-9_.$@-]*")
_TICKET = re.compile(r"[A-Z]{2,10}-\d+")
"""``ORD-12``: the number of a thing, though its letters may be a word."""
_COMMON = listed(
    "a abbreviation about absolute ac accept accepted access account accuracy act action active activity actor actual "
    "ad add added additional addr address adjusted admin administrative ads adult advance affected after age agent "
    "aggregate ago agreement air airline airport album alert algorithm alias alignment allergen allow allowed alpha "
    "alt alternative altitude always amenity amount an analysis anchor and angle animal annotation annual answer "
    "answered any api app apparent applicable application applied appointment approval approved archive archived are "
    "area argument array arrival article artist as ask asn aspect asset assigned assignee assignment association async "
    "at atmosphere attachment attempt attendee attribute audience audio author authority auto availability available "
    "avatar average avg away axis b back background badge balance bank banner bar barcode base basic batch bathroom "
    "battery bbox be bed bedroom before begin behavior benefit best bid billing binary bio birth birthday bit block "
    "blocked blog board body bonus book booked booking boolean border bottom boundary bounding box branch brand break "
    "brightness broker browser bucket budget buffer build building built bundle business button buy buyer by byte c "
    "cache calendar call callback caller calorie campaign can cancel canceled cancelled candidate canonical cap "
    "capacity capital caption capture car carbon card care cargo carrier cart case cash cast catalog catalogue "
    "category cause cc cell center centre certificate chain change changed channel chapter character charge chart chat "
    "check checked checkout checksum child children choice circle circuit citation city claim class classification "
    "click client clip clock close closed cloud club cluster coach coast code codec coefficient collection collector "
    "color colour column com combined comment commit commodity common community company comparison competition "
    "complete completed completion component composer compound concept condition conference confidence config "
    "configuration confirm confirmation confirmed connection constraint consumer consumption contact container content "
    "contest context continent contract contribution contributor control conversation conversion converted coord "
    "coordinate copy copyright core correct cost count counter country county coupon course court cover coverage cpu "
    "create created createdat creation creator credit crew criteria crop cross currency current cursor custom customer "
    "cycle d daily damage dashboard data database dataset date datetime day daylight dc deadline deal death debit debt "
    "decimal decision declared default defect definition degree delay delete deleted delivered delivery delta demand "
    "density department departure deposit depth derived desc description design desired dest destination detail "
    "detailed detected detection developer device dew diagnosis diameter diet difference difficulty digest dimension "
    "diploma dir direct direction director directory disabled disc discount discovery disk displacement display "
    "distance distributor district division dns do doc doctor document domain done door dose download draft draw drive "
    "driver drug dst dt due duration duty dynamic e early earning earnings east edge edit edited edition editor "
    "education effect effective efficiency election element elevation eligible email embed embedding emission employee "
    "employer empty enable enabled encoding end ended ending endpoint energy engine enrollment entity entrance entry "
    "enum environment episode epoch eps equipment equity err error estimate estimated eta etag evaluation event exact "
    "exam example exception excerpt exchange exclude excluded exclusive execution exercise exit expanded expected "
    "expense experience expiration expire expired expires expiry explanation explicit export expression ext extended "
    "extension extent external extra f face facet facility fact factor fail failed failure family fare farm fat fault "
    "favorite favourite feature featured fee feed feedback feel feels fiber field fifth figure file filename fill "
    "filter filtered final finance financial find fine finish finished first firstname fit five fixed flag flat flavor "
    "fleet flight floor flow fmt folder follow followed follower following font food foot footer for force forecast "
    "foreign fork form format formatted formula forum forward found four fourth fps fraction frame free frequency "
    "friend from front ft fuel full function fund future g gain galaxy gallery game gas gate gateway gb gear gender "
    "general generated generation genre geo geocode geography geometry gift global gmt goal gold good gps grade grand "
    "graph gravity grid gross ground group growth guarantee guest guide gust h habitat handling has hash head header "
    "headline health heat height held help hex hidden high highest highlight hint histogram historical history hit "
    "hold holder holiday home horizontal host hotel hour hourly house hpa href html http hub human humidity icon "
    "identification identifier identity ignore ignored illumination image img impact import important impression in "
    "inch incident include included inclusive income incoming index indexed indicator individual industry info "
    "information ingredient initial inline input insert inspection installed instance instruction instructor "
    "instrument insurance int integer intensity interest interface internal international interval introduction "
    "invalid inventory investment invitation invoice ip is isactive iso issue issued issuer it item iteration "
    "itinerary job join joined journal journey json jurisdiction k kb keyword kg kilometer kind km kmh l label land "
    "landing lang language large last lastname late latency latest launch law layer layout lead leader league lease "
    "left leg legal legend length lesson letter level library license lifetime light like liked limit limited line "
    "lineup link liquidity list listing literal live load loan loc local locale locality localized location lock "
    "locked log login logo long loss lot low lowest loyalty m machine magnitude mail main maintainer maintenance major "
    "make man manager manufacturer map margin marker market mass master match matched material matrix max maximum mb "
    "meal mean meaning measure measurement mechanism media median medical medium meeting member membership memory "
    "mention menu merchant merge merged message meta metadata meter method metric mi mid middle mile mileage milestone "
    "millisecond mime min minimum minor minute missing mission mm mobile mod mode model moderate modified modifier "
    "module moment month monthly moon more mortgage most motion motto mount mountain movie mph ms msg multiple "
    "multiplier municipality muscle museum music mx n name nation national nationality native natural nb near nearby "
    "nearest needed negative neighborhood neighbourhood net network new news next nick nickname night no node nominal "
    "non normal north not note notice notification now null num numeric nutrient nutrition object objective "
    "observation observed occupancy occupation occurrence ocean of off offer office officer official offset oil ok on "
    "once one online only open opened opening operating operation operator opponent option optional or orbit order "
    "ordered ordering ordinal org organ organisation organization organizer origin original other out outcome outdoor "
    "outgoing output outside over overall overview owned owner ownership p pack package page pagination paging paid "
    "pair panel paper paragraph param parameter parent park parking part partial participant partner party pass "
    "passage passenger password past path patient pattern pause pay payload payment pct peak pending people per "
    "percent percentage percentile performance period permalink permission permitted person personal phase phone "
    "phonetic photo photographer phrase physical pic pick pickup picture piece pilot pin pipeline pitch pixel place "
    "placed plan planet plant platform play played player playlist plot plus podcast point pointer policy poll pollen "
    "pollution pool popular popularity population port portfolio portion position positive post postal postcode poster "
    "power precip precipitation precise precision prediction preference preferred premium preparation prescription "
    "presence present pressure prev preview previous price pricing primary print priority privacy private prize "
    "probability problem procedure process processed processing processor producer product production profession "
    "profile profit program progress project promotion pronunciation proof property proposal protein protocol provider "
    "province public publication publish published publisher pull purchase purpose push quality quantity quarter query "
    "question queue quota quote r race radius rain ram random range rank ranking rate rated rating ratio raw reach "
    "reaction read reading ready real reason receipt received receiver recent recipe recipient recommendation "
    "recommended record recorded recurrence redirect reduction reference referral refund region registered "
    "registration registry regular related relation relationship relative release released relevance remaining remark "
    "reminder remote removed rent reply repo report reported reporter repository request requested required "
    "requirement resale reservation reserve reset residence resolution resolved resource response responsible rest "
    "restaurant restricted result ret retail retry return returned revenue review reviewer revision reward right ring "
    "rise risk river road role rollback room root rotation round rounded route routing row rule run runtime s safe "
    "safety salary sale sample satellite saturation save saved scale scene schedule scheduled schema school science "
    "scope score scored screen script sea seal search season seat sec second secondary section sector security seed "
    "seen segment selected selection self sell seller send sender senior sensor sent sentence sentiment sequence "
    "serial series serve server service serving session set setting settlement setup severity sex shape share shared "
    "sheet shelf shift ship shipment shipped shipping shop short show side sign signal signature similar similarity "
    "simple since single site size sky sleep slope slot sma small smoke snapshot snippet snow social software soil "
    "solar sold solution song sort sound source south space span speaker spec special species specification speed "
    "spend sponsor sport spot spread spring square src stability stadium staff stage standard standing star start "
    "started starting state statement station statistic stats status std step stock stop storage store story str "
    "strategy stream street strength stress string strong structure student studio study style sub subject submission "
    "submitted subscriber subscription subtitle subtotal suburb success successful sugar suggestion suite sum summary "
    "sun sunrise sunset supplier supply support supported surface surname survey symbol symptom synonym synopsis "
    "syntax system t table tag tagline taken target task tax team technical technology tel telephone temp temperature "
    "template temporary term terminal territory test text than the thermal third three threshold thumb thumbnail "
    "ticket tide tier tile time timeline timeout timestamp timezone title tld to today token tomorrow tone tool top "
    "topic total tour tournament track tracking trade trading traffic trailer train training transaction transcript "
    "transfer transform transit translation transmission transport transportation travel treatment tree trend trip "
    "truncated trust try ts tuition turn tutor tv two txt type u uid unavailable unique unit university unix unread "
    "until up update updated updatedat upload uploaded upper upvote uri url usage use used user username utc "
    "utilization uv v valid validation validity value variable variant variation vehicle velocity vendor venue "
    "verification verified version vertical vessel via video view viewer virtual visibility visible visit visitor "
    "vitamin voice volatility voltage volume vote voter w wage wait waiting wallet warehouse warning was watch water "
    "wave wavelength way weather web webhook website week weekly weight west wheel wholesale width wiki wikipedia win "
    "wind window winner winning with withdrawal without wk woman word work worker workflow working workout world worth "
    "x xml y year yearly yesterday yield z zip zipcode zone"
)
_WORDS = frozenset(map(singular, _COMMON)) | {
    *THINGS, *HANDED_OUT, *REGISTERED, *LABELS, *COORDINATES, *NAMES, *GENERIC, *QUALIFIERS, *VERBS, *CONTAINERS,
}  # fmt: skip


def vocabulary(texts: Collection[str]) -> frozenset[str]:
    """The words of names and texts, as :func:`is_field_name` takes them."""
    return frozenset(singular(word) for text in texts for word in split(text, digits=True))


def is_field_name(key: str, documented: Collection[str] = frozenset()) -> bool:
    """Whether a key of an object is the name of a field beyond doubt.

    Args:
        key: of a response.
        documented: words that stand in the documents of tools (:func:`vocabulary`).
    """
    if not may_be_name(key) or not _NAME.fullmatch(key) or _TICKET.fullmatch(key) or looks_secret(key):
        return False
    words = split(key, digits=True)
    return bool(words) and all(_is_known(word, documented) for word in words)


def _is_known(word: str, documented: Collection[str]) -> bool:
    if word.isdigit():
        return len(word) <= MAX_DIGITS
    stem = singular(word)
    return stem in _WORDS or stem in documented or word in _WORDS


MAX_FIELDS, MAX_DEPTH, MAX_PLACES = 100, 8, 400
"""Fields of one object, levels, and places in all. An object with more fields is a dictionary; what lies deeper or
beyond is left out."""
MAX_ITEMS, MAX_PARTS = 200, 100_000
"""Items of one list that are looked at, and parts of all responses of a tool: megabytes teach no more than a page."""
_Type = Literal["null", "boolean", "string", "integer", "number", "array", "object"]


class Outline(BaseModel):
    """What was observed at one place.

    Attributes:
        seen: values that were there.
        types: how many were of each JSON type.
        fields: the named fields of the objects. ``values``: those of a dictionary, and of keys that are not surely
            names, as one. ``items``: those of lists.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seen: int = Field(ge=0, le=10**12)
    types: dict[_Type, int] = {}
    fields: dict[str, Outline] = {}
    values: Outline | None = None
    items: Outline | None = None

    def schema_seen(self) -> JsonSchema:
        """The JSON Schema of what was observed; empty where that says nothing.

        It enforces nothing: its types are marked as observed (:data:`atc.schemas.types.OBSERVED`), others are allowed.
        ``required`` are the fields that every object had. Counts stand beside each part.
        """
        return _schema(self, self.seen) if self.types.keys() - {"null"} else {}


def outline_of(values: Sequence[Any], documented: Collection[str] = frozenset()) -> Outline:
    """The outline of responses of one tool.

    Args:
        values: JSON values.
        documented: words of the tools' documents, of which names of fields may be made.
    """
    shape, left = Shape(), [MAX_PARTS]
    for value in values:
        if left[0] > 0:
            shape.add(_looked_at(value, left))
    return _outline(shape.root, documented, 0, _Places())


def merged(first: Outline, second: Outline) -> Outline:
    """One outline of the evidence of both."""
    return _merged(first, second, _Places())


def _looked_at(value: Any, left: list[int], depth: int = 0) -> Any:
    """A response with the first items of its lists alone; ``left`` counts down the parts that are looked at."""
    left[0] -= 1
    if depth > MAX_DEPTH and isinstance(value, list | dict):  # what lies in it is left out
        return type(value)()
    if isinstance(value, list):
        items: list[Any] = []
        for item in value[:MAX_ITEMS]:
            if left[0] <= 0 and items:
                break
            items.append(_looked_at(item, left, depth + 1))
        return items
    if isinstance(value, dict):
        return {key: _looked_at(part, left, depth + 1) for key, part in value.items()}
    return value


class _Places:
    """How many places an outline may yet have."""

    def __init__(self) -> None:
        self.left = MAX_PLACES

    def take(self, depth: int) -> bool:
        """Whether there is leave for one more."""
        self.left -= 1
        return self.left >= 0 and depth < MAX_DEPTH


def _outline(node: Node, documented: Collection[str], depth: int, places: _Places) -> Outline:
    types: dict[_Type, int] = {"null": node.nulls, "boolean": node.booleans}
    fields: dict[str, Outline] = {}
    values = items = None
    if node.strings is not None:
        types["string"] = node.strings.count
    if node.numbers is not None:
        whole = node.numbers.to_schema()["type"] == "integer"
        types["integer" if whole else "number"] = node.count - _others(node)
    if node.arrays is not None:
        types["array"] = node.arrays.count
        if node.arrays.items is not None and places.take(depth):
            items = _outline(node.arrays.items, documented, depth + 1, places)
    if node.objects is not None:
        types["object"] = node.objects.count
        named, rest = _taken_apart(node.objects, documented)
        for key, part in named.items():
            if places.take(depth):
                fields[key] = _outline(part, documented, depth + 1, places)
        if rest and places.take(depth):
            values = _outline(merged_nodes(rest), documented, depth + 1, places)
    seen = {kind: count for kind, count in types.items() if count}
    return Outline(seen=node.count, types=seen, fields=fields, values=values, items=items)


def _others(node: Node) -> int:
    """How many values of a place were no numbers."""
    held = [known.count for known in (node.strings, node.arrays, node.objects) if known is not None]
    return node.nulls + node.booleans + sum(held)


def _taken_apart(objects: Objects, documented: Collection[str]) -> tuple[dict[str, Node], Sequence[Node]]:
    """The fields whose keys are names, and the other values: of a dictionary, or of keys that are not surely names."""
    found = dictionary(objects)
    fields = objects.fields if found is None else found.named
    rest = [] if found is None else [*found.values]
    if len(fields) > MAX_FIELDS:
        return {}, [*fields.values(), *rest]
    named = {key: node for key, node in fields.items() if is_field_name(key, documented)}
    return named, [*rest, *(node for key, node in fields.items() if key not in named)]


def _merged(first: Outline, second: Outline, places: _Places, depth: int = 0) -> Outline:
    types = {kind: first.types.get(kind, 0) + second.types.get(kind, 0) for kind in first.types | second.types}
    fields: dict[str, Outline] = {}
    for key in first.fields | second.fields:
        both = _either(first.fields.get(key), second.fields.get(key), places, depth)
        if both is not None and len(fields) < MAX_FIELDS:
            fields[key] = both
    values = _either(first.values, second.values, places, depth)
    items = _either(first.items, second.items, places, depth)
    return Outline(seen=first.seen + second.seen, types=types, fields=fields, values=values, items=items)


def _either(first: Outline | None, second: Outline | None, places: _Places, depth: int) -> Outline | None:
    some = first or second
    if some is None or not places.take(depth):
        return None
    return _merged(first or _NONE, second or _NONE, places, depth + 1)


_NONE = Outline(seen=0)


def _schema(outline: Outline, of: int) -> JsonSchema:
    types = [*sorted(outline.types.keys() - {"null"}), *["null"] * ("null" in outline.types)]
    made: JsonSchema = {OBSERVED: types[0] if len(types) == 1 else types} if types else {}
    if outline.fields:
        made["properties"] = {key: _schema(part, outline.seen) for key, part in outline.fields.items()}
        objects = outline.types.get("object", 0)
        if always := [key for key, part in outline.fields.items() if 0 < objects <= part.seen]:
            made["required"] = always
    if "object" in outline.types:
        made["additionalProperties"] = True if outline.values is None else _schema(outline.values, outline.values.seen)
    if outline.items is not None:
        made["items"] = _schema(outline.items, outline.items.seen)
    nulls = {"null": outline.types["null"]} if "null" in outline.types else {}
    return made | {EVIDENCE: {"seen": outline.seen, "of": of, **nulls}}
