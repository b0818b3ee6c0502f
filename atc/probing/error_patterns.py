"""The fixed patterns by which error messages are read. Every repetition is bounded: matching is linear in the text."""

from __future__ import annotations

import re

from atc.schemas.infer.text import listed

NAME = r"[A-Za-z_$][\w$.\-]{0,60}(?:\[[\w*]{0,20}\]){0,2}"
OPEN, CLOSE = "[\"'`‘’“”*<\\[(]", "[\"'`‘’“”*>\\])]"
QUOTED = rf"[\"'`‘“]({NAME})[\"'`’”]"
ANY = rf"{OPEN}{{0,2}}({NAME}){CLOSE}{{0,2}}"
THING = r"(?:parameters?|params?|arguments?|args?|fields?|propert(?:y|ies)|attributes?|keys?|inputs?|query strings?)"
KIND = r"(?:request|query|path|body|form|url|uri|input|get|post|json|named|keyword|positional|string)"
STOP = listed(
    "a an the this that it its is are was be which what who field fields parameter parameters param argument "
    "arguments value values property properties key input request query body header path data object string "
    "number authentication authorization login subscription payment access permission token credentials you your "
    "we please error bad invalid missing required mandatory must should and or not for in of to with one at least "
    "following some any all no none validation failed exactly only there but if when json http https also either "
    "both expected message detail"
)
AUXILIARY = listed("must should is are was be has have needs need to can may cannot not only an a the value")

LIST = rf"{ANY}(?:(?:\s{{0,2}}[,&]\s{{0,2}}(?:and\s|or\s)?|\s(?:and|or)\s){ANY}){{0,12}}"
MISSING_THEN_NAMES = re.compile(
    rf"(?:missing|required|mandatory|must have|must include|must provide|must specify|requires?|absent)\s"
    rf"(?:the\s|a\s|an\s|\d{{1,2}}\s)?(?:missing\s|required\s|mandatory\s|following\s|non-optional\s)?"
    rf"(?:{KIND}[\s-]){{0,2}}{THING}(?:\(s\))?(?:\s(?:is|are|was|were))?(?:\s(?:missing|named|called))?"
    rf"\s{{0,2}}[:=-]?\s{{0,2}}(?P<names>{LIST})",
    re.IGNORECASE,
)
MISSING_TAIL = re.compile(
    r"(?:is|are|was|were)?\s?(?:a\s|an\s)?(?:(?:field|property|parameter|argument|value)\s)?"
    r"(?:required(?! type| format)|mandatory|missing|not (?:present|provided|given|specified|supplied|set)|undefined)"
    r"|(?:can ?not|can't|must not|may not|should not|shouldn't) be (?:blank|empty|null|none|undefined|missing|omitted)"
    r"|(?:must|should|needs? to|has to) be (?:provided|given|specified|supplied|set|present|included|filled)"
    r"|can't be blank",
    re.IGNORECASE,
)
MISSING_LEAD = re.compile(
    rf"(?:missing|param is missing or the value is empty|(?:please|must|you must|need to|have to)\s"
    rf"(?:provide|specify|supply|enter|include|pass|set)|no)\s{{0,2}}:?\s{{0,2}}"
    rf"(?:a\s|an\s|the\s|your\s)?(?:valid\s)?{ANY}",
    re.IGNORECASE,
)
BARE_MISSING = re.compile(
    r"(?:(?:this|the) )?(?:(?:field|value|parameter|property|argument|it) is |is )?(?:a )?"
    r"(?:required|missing|mandatory)(?: (?:field|property|value|parameter|argument|data))?\.?|"
    r"required value was not provided|"
    r"(?:this )?(?:field|value) (?:may|must|can ?not|should) (?:not )?be (?:blank|null|empty)\.?|"
    r"none is not an allowed value",
    re.IGNORECASE,
)
UNKNOWN = re.compile(
    rf"(?:unknown|unexpected|unrecognized|unrecognised|unsupported|extra(?:neous)?|undocumented)\s"
    rf"(?:{KIND}[\s-]){{0,2}}{THING}(?:\(s\))?\s{{0,2}}(?:in object|found|named)?"
    rf"\s{{0,2}}[:=-]?\s{{0,2}}(?P<names>{LIST})"
    rf"|additional propert(?:y|ies) (?:are|is) not allowed \(?\s{{0,2}}(?P<names2>{LIST})"
    rf"|(?:property|parameter|field|argument) (?P<names3>{ANY}) "
    r"(?:should not exist|is not (?:allowed|expected|recognized|known))",
    re.IGNORECASE,
)
UNKNOWN_TAIL = re.compile(
    r"(?:is|was|were|are) (?:not (?:allowed|permitted|expected|recognized|recognised|known)|unexpected|unknown|"
    r"not a (?:valid|known|recognized|supported) (?:parameter|field|argument|property))(?! (?:to|by|for|in|value))"
    r"|extra (?:inputs|fields) (?:are )?not permitted",
    re.IGNORECASE,
)
MEMBERS = re.compile(
    r"(?:must|should|has to|needs to|can(?: only)?|may(?: only)?|expected(?: to)?)?\s?"
    r"(?:be |to be |equal )?(?:exactly |either |any |only |set to )?(?:is not |not )?"
    r"(?:(?:one|any) of(?! (?:these|the following) formats?)"
    r"(?: the)?(?: following| allowed| valid| supported| permitted| enumerated)?"
    r"(?: values?| options?| choices?| members?)?"
    r"|(?<![a-z])(?:allowed|valid|accepted|permitted|possible|supported|available|acceptable|expected)(?: enum)? "
    r"(?:values?|options?|choices?|members?|types?|inputs?)"
    r"(?: for [\"'`]?(?P<for>[\w.-]{1,60})[\"'`]?)?(?: are| is| include)?"
    r"|allowed:|options are|choose (?:one of|from)|(?:must|should) be either|equal to one of the allowed values)"
    r"\s{0,2}[:=-]?\s{0,2}(?P<members>[^\n]{1,500})",
    re.IGNORECASE,
)
QUOTED_MEMBERS = re.compile(r"(?:should|must) be (?P<members>'[^\n]{1,500})", re.IGNORECASE)
NOT_ONE_OF = re.compile(r"(?P<given>\S{1,60}) is not (?:one|any) of", re.IGNORECASE)

TYPE_WORDS = {
    "integer": "integer", "int": "integer", "int32": "integer", "int64": "integer", "long": "integer",
    "whole number": "integer", "whole": "integer", "positive integer": "integer", "integer number": "integer",
    "number": "number", "numeric": "number", "float": "number", "double": "number", "decimal": "number",
    "bigdecimal": "number", "numerical": "number", "finite number": "number",
    "boolean": "boolean", "bool": "boolean", "string": "string", "str": "string", "text": "string",
    "array": "array", "list": "array", "object": "object", "dict": "object", "dictionary": "object",
}  # fmt: skip
TYPES = "|".join(sorted((re.escape(word) for word in TYPE_WORDS), key=len, reverse=True))
TYPE = re.compile(
    r"(?:must be|should be|has to be|needs to be|is not|isn't|not|expected|expects|expecting|to required type|"
    r"input should be|must contain|to type|convert to|parse)"
    r"(?: of)?(?: types?)?(?: a| an)?(?: valid)?(?: a| an)?(?: of)?(?: types?)?[\s:]{1,2}"
    r"['\"`\[]{0,2}(?:java\.\w{1,10}\.)?"
    rf"(?P<type>{TYPES})\b"
    rf"|\ba valid (?P<type2>{TYPES}) is required|invalid literal for (?P<int>int)\(\)"
    rf"|\b(?:invalid|malformed) (?P<type3>{TYPES})\b",
    re.IGNORECASE,
)
VALID_IS_REQUIRED = re.compile(r"\ba valid [a-z -]{1,30} is required", re.IGNORECASE)
WRONG = re.compile(
    r"(?P<selected>selected )?[\w.'\"-]{0,60}\s?"
    r"(?:is invalid|is not valid|invalid value|not a valid (?P<choice>choice|option|value)?)",
    re.IGNORECASE,
)
FORMAT_WORDS = {
    "date-time": "date-time", "datetime": "date-time", "date time": "date-time", "timestamp": "date-time",
    "date": "date", "time": "time", "email address": "email", "e-mail": "email", "email": "email", "uuid": "uuid",
    "guid": "uuid", "url": "uri", "uri": "uri", "ip address": "ipv4", "ipv4": "ipv4", "ipv6": "ipv6",
}  # fmt: skip
FORMATS = "|".join(sorted((re.escape(word) for word in FORMAT_WORDS), key=len, reverse=True))
FORMAT = re.compile(
    r"(?:must be|should be|is not|isn't|not|enter|invalid|malformed|valid|wrong|must match format|to match format|"
    rf"does not match format)(?: an?)?(?: valid)?(?: an?)?[\s:]{{1,2}}[\"'`]?(?P<format>{FORMATS})\b"
    r"|\b(?P<format2>date(?:time)?) has (?:the )?wrong format"
    r"|(?P<pattern>does not match|must match|should match|wrong format|invalid format|bad format|expected format|"
    r"in the format|iso[ -]?8601|format:? ?yyyy|not match the pattern)",
    re.IGNORECASE,
)
VALUE_FIRST = re.compile(
    r"is not of types? |is (?:greater|less) than the (?:minimum|maximum)|does not match", re.IGNORECASE
)
DATE_LAYOUT = re.compile(r"(?<!\w)(?:%Y-%m-%d|YYYY-MM-DD)(?P<time>[T ](?:HH|%H|hh))?")
NUMBER = r"(-?\d{1,15}(?:\.\d{1,10})?)"
BETWEEN = re.compile(
    rf"(?:between|in(?: the)? range(?: of)?|range is|from)\s[\[(]?{NUMBER}\s?(?:and|to|-|–|,|\.\.\.?)\s?{NUMBER}",
    re.IGNORECASE,
)
LEAST = (
    r"(?:greater than or equal to|larger than or equal to|>=|≥|at least|minimum(?: value)?(?: is| of|:)?|"
    r"not be (?:less|smaller|lower) than|is less than the minimum of|is shorter than|has (?:less|fewer) than|"
    r"min(?:\.| is|:))"
)
MOST = (
    r"(?:less than or equal to|<=|≤|at most|maximum(?: value)?(?: is| of|:)?|up to|no more than|"
    r"not (?:be )?(?:greater|more|larger|higher) than|not exceed|exceeds(?: the maximum of)?|"
    r"is greater than the maximum of|is longer than|has more than|max(?:\.| is|:))"
)
BOUNDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("minimum", re.compile(rf"{LEAST}\s?{NUMBER}", re.IGNORECASE)),
    ("exclusiveMinimum", re.compile(rf"(?:(?:greater|larger|higher|more|bigger) than|>)\s?{NUMBER}", re.IGNORECASE)),
    ("maximum", re.compile(rf"{MOST}\s?{NUMBER}", re.IGNORECASE)),
    ("exclusiveMaximum", re.compile(rf"(?:(?:less|smaller|lower|fewer) than|<)\s?{NUMBER}", re.IGNORECASE)),
)
NEGATED = re.compile(r"not (?:be )?(?:greater|more|larger|higher|less|smaller|lower|fewer) than", re.IGNORECASE)
LENGTH = re.compile(r"\b(?:characters?|chars?|length|long|letters|shorter|longer)\b", re.IGNORECASE)
ITEMS = re.compile(r"\b(?:items?|elements?|entries)\b", re.IGNORECASE)
OF_LENGTH = {"minimum": "minLength", "maximum": "maxLength"}
OF_ITEMS = {"minimum": "minItems", "maximum": "maxItems"}
WHERE = re.compile(r"\b(query|path|body|header|cookie)\b", re.IGNORECASE)
LABEL = re.compile(rf"\s{{0,3}}\$?\.?(?:(?:query|body|path|request|params|args)[./])?{ANY}\s{{0,2}}[:=]\s")
