"""Near-duplicates of reads: what another vendor offers in their place, with other names for the same things.

A twin is made of a tool's names and types alone. Words of its names are changed by a table of synonyms: a third of
them, two thirds, or all, for vendors differ from each other more or less. Its descriptions are made of the words of the
names, and no sentence of the original is kept. It takes and answers the same values, so it is right wherever the
original is.

What one service calls a thing by (an ``id``, a ``token``) means nothing to another, nor does another know what was
written to it. So a twin that takes or gives such a value, or reads what its user keeps there, belongs to the same
service, as another edition of the operation; any other is of another service.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from atc.result import Effect
from atc.schemas.identifiers import HANDED_OUT, THINGS, is_identifier
from atc.schemas.protocol import JsonSchema, Protocol, Provenance, Source, parameters_of
from atc.tools.tool import Tool, Transport

_SYNONYMS: Mapping[str, str] = dict(
    pair.split(":")
    for pair in """
    city:town country:nation place:spot location:place address:street region:area state:province
    airport:airfield port:harbour station:stop language:lang currency:ccy population:inhabitants border:frontier
    distance:span duration:length timezone:tz latitude:lat longitude:lng lat:latitude lng:longitude lon:longitude
    weather:conditions temperature:temp forecast:outlook
    name:title title:headline label:caption symbol:ticker type:kind kind:type category:group status:state
    description:summary overview:synopsis summary:digest text:content body:content content:body message:note
    subject:topic topic:theme comment:remark url:link link:url image:picture photo:picture poster:placard
    backdrop:background
    price:cost cost:charge amount:sum fee:surcharge total:overall count:total quantity:pieces average:mean rating:score
    score:mark vote:ballot review:critique rate:ratio discount:reduction
    date:day start:begin end:finish begin:opening first:earliest last:latest created:made updated:changed
    arrival:arriving departure:leaving from:origin to:target origin:start destination:target
    min:least max:most minimum:least maximum:most limit:most page:sheet offset:skip sort:order_by
    user:account username:login user_name:login email:mail phone:telephone member:reader person:individual
    people:individuals customer:client client:customer owner:holder author:writer employee:worker company:firm
    network:broadcaster department:division job:role cast:actors crew:staff character:part gender:sex
    movie:film film:picture tv:series season:run genre:style keyword:tag collection:franchise
    song:track album:record artist:performer playlist:mix recipe:dish ingredient:component menu:card food:meal
    hotel:lodging room:chamber flight:air_trip airline:carrier cabin:class car:vehicle vehicle:car rental:hire
    supplier:provider attraction:sight taxi:cab booking:reservation reservation:booking trip:journey
    passenger:traveller adult:grown_up children:minors
    product:article item:entry stock:inventory brand:make part:component repair:job mechanic:fitter
    plate:registration book:volume loan:lending doctor:physician patient:case appointment:visit
    prescription:medication specialty:field disease:illness symptom:complaint
    data:payload query:term info:facts details:facts file:document folder:directory directory:folder
    event:happening meeting:session calendar:agenda task:job project:undertaking board:panel
    visit:call traffic:visits
    """.split()
)
"""Words of names, and what another vendor says for them."""
DISTANCES = (1 / 3, 2 / 3, 1.0)
"""Shares of the words that have a synonym and are changed; a twin has one of them, by the original's name."""
_VERBS: Mapping[str, str] = dict(
    pair.split(":")
    for pair in """
    get:fetch list:show search:find find:look_up query:ask lookup:find check:examine calculate:compute compute:calculate
    convert:change display:show view:show retrieve:fetch read:open estimate:guess filter:narrow verify:confirm
    discover:explore summarize:outline add:sum_up
    """.split()
)
"""First words of tools' names, which a twin always changes."""
_IDENTIFIERS = ("ref", "uuid", "id")
"""Words for ``id``: a vendor has one of them."""
_LONG: Mapping[str, str] = {
    "id": "identifier", "ccy": "currency", "lang": "language",
    "lat": "latitude", "lng": "longitude", "lon": "longitude", "tz": "time zone", "num": "number",
    "min": "least", "max": "greatest", "url": "address on the web", "iata": "IATA code", "icao": "ICAO code",
}  # fmt: skip
_HEADS = frozenset("id name code date time number type count url rating price title key status".split())
"""Last words of a name that say what of a thing is meant: ``city_name`` is the name of the city."""
_VENDORS = ("meridian", "northlight", "bluefinch", "oakline", "silverbay", "kestrel", "amberway", "fieldstone")
_SINGULAR: Mapping[str, str] = {"cities": "city", "countries": "country", "currencies": "currency"}
_T = TypeVar("_T")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NAMED = ("properties", "$defs", "definitions")
"""Keywords whose value has a schema for each name."""
_KEPT = frozenset(
    """
    type format enum const pattern minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength minItems
    maxItems uniqueItems multipleOf default $ref additionalProperties items anyOf oneOf allOf not prefixItems
    nullable
    """.split()
)  # fmt: skip
"""Keywords that say what values there are. All others are words, or notes of an importer."""


@dataclass(frozen=True)
class Twin:
    """A near-duplicate of a tool.

    Attributes:
        name: of the twin, in the catalogue.
        adapter: Python text that defines ``_<original>``, which takes the arguments of the original by name and answers
            as the original does, by a call of the twin.
        protocol: what is read of the twin.
        names: what the twin calls each argument and field of the original.
        same_service: whether it is another edition of the operation at the original's own service.
        distance: share of the words that are changed, of those that have a synonym.
    """

    name: str
    adapter: str
    protocol: Protocol
    names: Mapping[str, str]
    same_service: bool
    distance: float

    def tool(self, transport: Transport) -> Tool:
        """Make the tool: it works on what the original works on.

        Args:
            transport: of the original, whole.
        """
        return Tool(self.protocol, _Under(transport, self.names))


@dataclass(frozen=True)
class _Under:
    """A transport under other names."""

    inner: Transport
    names: Mapping[str, str]

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        back = {new: old for old, new in self.names.items()}
        return under(self.names, await self.inner(under(back, arguments)))

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self.inner.opened()


def under(names: Mapping[str, str], value: Any) -> Any:
    """A value whose keys have other names, at any depth; a key without another name keeps its own."""
    if isinstance(value, dict):
        return {names.get(key, key): under(names, part) for key, part in value.items()}
    return [under(names, part) for part in value] if isinstance(value, list) else value


def twin_of(protocol: Protocol, taken: Collection[str] = (), *, public: bool = True) -> Twin | None:
    """Make the near-duplicate of a read.

    Args:
        protocol: of the original.
        taken: names of tools that the twin must not have.
        public: whether what it reads is the same for everybody.

    Returns:
        The twin; ``None`` where the tool does more than read, or its document does not say what it answers with.
    """
    fields = [*_properties(protocol.returns)]
    if protocol.effect is not Effect.READ or not (fields or _is_plain(protocol.returns)):
        return None
    arguments = [*_properties(protocol.parameters)]
    other_words = _Words(protocol.name, _one_of(DISTANCES, protocol.name))
    names = _renamed([*arguments, *fields], other_words)
    own = not public or any(is_identifier(name, THINGS | HANDED_OUT) for name in names)
    name = other_words.tool(taken)
    source = protocol.source
    if not own:
        vendor = _one_of(_VENDORS, source.location)
        location = f"https://api.{vendor}.example"
        source = Source(kind=source.kind, location=location, title=vendor.title())
    made = Protocol(
        name=name,
        description=_tool_described(name, [*map(names.__getitem__, dict.fromkeys(fields))]),
        parameters=_translated(protocol.parameters, names),
        returns=_translated(protocol.returns, names),
        effect=Effect.READ,
        source=source.model_copy(update={"operation": name, "path": "", "name": ""}),
        provenance=Provenance.IMPORTED,
    )
    return Twin(name, _adapter(protocol, made, names), made, names, own, other_words.distance)


def words(name: str) -> list[str]:
    """The words of a name in lower case, whatever its style."""
    return [word.lower() for word in _WORD.findall(name)]


@dataclass(frozen=True)
class _Words:
    """The words of one vendor.

    Attributes:
        original: the name of the tool whose twin is made; it draws the words.
        distance: share of the words that are changed.
    """

    original: str
    distance: float

    def name(self, name: str) -> str:
        """A name in other words, where there are such."""
        whole = "_".join(words(name))
        if whole in _SYNONYMS and self._changes(whole):
            return _SYNONYMS[whole]
        return "_".join(self._word(each) for each in words(name))

    def tool(self, taken: Collection[str]) -> str:
        """The name of the tool; its verb is always another one."""
        first, *rest = words(self.original)
        other = "_".join([_VERBS[first] if first in _VERBS else self._word(first), *map(self._word, rest)])
        if other == self.original:
            other = f"look_up_{other}"
        return other if other not in taken else f"{other}_2"

    def _changes(self, word: str) -> bool:
        return _drawn(f"{self.original}/{word}") < self.distance

    def _word(self, word: str) -> str:
        if word in ("id", "ids"):
            return _one_of(_IDENTIFIERS, self.original) + word[2:]
        single = _SINGULAR.get(word, word.removesuffix("s"))
        if word in _SYNONYMS:
            return _SYNONYMS[word] if self._changes(word) else word
        if single not in _SYNONYMS or not self._changes(single):
            return word
        other = _SYNONYMS[single]
        return other if other.endswith("s") else f"{other}s"


def _drawn(text: str) -> float:
    return int.from_bytes(sha256(text.encode()).digest()[:4]) / 2**32


def _one_of(some: Sequence[_T], name: str) -> _T:
    return some[int(_drawn(name) * len(some))]


def _renamed(originals: Sequence[str], other_words: _Words) -> dict[str, str]:
    made: dict[str, str] = {}
    for name in dict.fromkeys(originals):
        other = other_words.name(name)
        usable = other.isidentifier() and other not in made.values() and (other == name or other not in originals)
        made[name] = other if usable else name
    return made


def _phrase(name: str) -> str:
    spelled = [_LONG.get(word, word) for word in words(name)]
    if len(spelled) > 1 and words(name)[-1] in _HEADS:
        return f"{spelled[-1]} of the {' '.join(spelled[:-1])}".capitalize()
    return " ".join(spelled).capitalize()


def _tool_described(name: str, fields: Sequence[str]) -> str:
    spelled = " ".join(words(name)).capitalize()
    if not fields:
        return f"{spelled}."
    return f"{spelled}. Gives {', '.join(' '.join(words(field)) for field in fields[:6])}."


def has_keys(protocol: Protocol) -> bool:
    """Tell whether the document of a tool names fields of its response."""
    return any(_properties(protocol.returns))


def _is_plain(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    return kind in ("string", "integer", "number", "boolean") or (kind == "array" and _is_plain(schema.get("items")))


def _properties(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _properties(part)
    elif isinstance(schema, dict):
        for key, part in schema.items():
            if key in _NAMED and isinstance(part, dict):
                yield from part if key == "properties" else ()
                yield from _properties([*part.values()])
            elif key in _KEPT - {"enum", "const", "default"}:
                yield from _properties(part)


def _translated(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_translated(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: JsonSchema = {}
    for key, part in schema.items():
        if key == "properties" and isinstance(part, dict):
            made[key] = {names.get(name, name): _property(name, each, names) for name, each in part.items()}
        elif key in _NAMED and isinstance(part, dict):
            made[key] = {name: _translated(each, names) for name, each in part.items()}
        elif key == "required" and isinstance(part, list):
            made[key] = [names.get(name, name) for name in part]
        elif key in ("enum", "const", "default"):
            made[key] = part
        elif key in _KEPT:
            made[key] = _translated(part, names)
    return made


def _property(name: str, schema: Any, names: Mapping[str, str]) -> Any:
    made = _translated(schema, names)
    return {**made, "description": _phrase(name)} if isinstance(made, dict) else made


_ADAPTER = """
def _under(names, value):
    if isinstance(value, dict):
        return {{names.get(key, key): _under(names, part) for key, part in value.items()}}
    return [_under(names, part) for part in value] if isinstance(value, list) else value


def _{original}({parameters}):
    found = {twin}({arguments})
    return _under({back!r}, found)
"""


def _adapter(original: Protocol, twin: Protocol, names: Mapping[str, str]) -> str:
    """The text of a function that answers as the original does. What an argument holds is renamed as its name is."""
    there = {argument.original: argument.name for argument in parameters_of(twin)}
    parameters, arguments, optional = [], [], {}
    for each in parameters_of(original):
        new = there[names[each.original]]
        if not each.required:
            optional[each.name] = new
            continue
        parameters.append(each.name)
        inner = {name: names[name] for name in _properties(each.schema)}
        arguments.append(f"{new}=_under({inner!r}, {each.name})" if inner else f"{new}={each.name}")
    if optional:
        parameters.append("**more")
        arguments.append(f"**_under({optional | _inner(original, names)!r}, more)")
    back = {new: old for old, new in names.items() if new != old}
    return _ADAPTER.format(
        original=original.name,
        twin=twin.name,
        parameters=", ".join(parameters),
        arguments=", ".join(arguments),
        back=back,
    )


def _inner(protocol: Protocol, names: Mapping[str, str]) -> dict[str, str]:
    required = set(protocol.required)
    schemas = [part for name, part in protocol.parameters["properties"].items() if name not in required]
    return {name: names[name] for name in _properties(schemas)}
