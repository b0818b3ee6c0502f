"""Names that services use for paging, as :func:`flat` writes them, and words that tell what a parameter means.

They were collected from public OpenAPI documents; ``benchmarks/paging.py`` counts what they recognise.
"""

from __future__ import annotations

import re

PAGE = frozenset({"page", "pagenumber", "pagenum", "pageno", "pageindex", "currentpage"})
OFFSET = frozenset({"offset", "skip", "pageoffset", "recordoffset", "startat", "startindex", "startrow", "firstresult"})
OFFSET_BESIDE_SIZE = frozenset({"start", "from"})
"""Names that mean an offset only where a page size stands beside them."""
SIZE = frozenset(
    """
    perpage pagesize limit size count maxresults pagelimit resultsperpage itemsperpage rows top max maxitems
    maxrecords numresults num take length pagelength maxkeys recordsperpage maxpagesize maxcount hitsperpage
    limitcount first
    """.split()
)
CURSOR = frozenset(
    """
    cursor pagetoken nextpagetoken nexttoken continuationtoken continuation continue paginationtoken pagingtoken
    nextcursor aftercursor pagecursor pageafter marker bookmark scrollid after startcursor startafter
    exclusivestartkey startkey skiptoken offset nextpage next pagekey nextpagekey start page startid from
    """.split()
)
AMBIGUOUS = frozenset({"after", "offset", "next", "start", "page", "startid", "from"})
"""Cursor names with other meanings: the response must have such a field, or the description must say cursor."""
SURE_CURSOR = frozenset(
    """
    cursor pagetoken nextpagetoken nexttoken continuationtoken paginationtoken pagingtoken nextcursor aftercursor
    pagecursor pageafter scrollid
    """.split()
)
"""Cursor names that mean a cursor even where no response is documented."""
LAST = frozenset({"startingafter", "afterid", "after", "sinceid", "since", "startafter", "lastid"})
"""Parameters that take the identifier of the last item of a page."""
NEXT = frozenset(
    """
    next nextpage nexturl nexturi nextlink nexthref nextpagetoken nexttoken nextcursor nextmarker nextoffset
    nextpageurl nextpageuri nextpagelink odatanextlink nextpagecursor nextcontinuationtoken nextpagepath nextkey
    nextpagekey nextpagenumber nextstart nextstartat nextrecordkey nextpaginationtoken nextstartkey endcursor
    aftercursor nextposition nextpageid
    """.split()
)
"""Response fields that say where the next page begins: a cursor, a number, or a URL."""
ADDRESS = ("href", "url", "uri")
"""Keys that hold the URL where such a field is an object."""
MORE = frozenset(
    """
    hasmore hasnext hasnextpage more hasmoreitems moreavailable istruncated truncated hasadditionalpages
    """.split()
)
DONE = frozenset({"islast", "islastpage", "last", "lastpage", "done"})
CONTAINERS = frozenset(
    """
    meta metadata pagination paging pageinfo links link responsemetadata page pages cursors cursor info pager
    paginationmetadata paginginfo listinfo resultinfo data result response pagingmetadata
    """.split()
)
"""Objects of a response that state its paging."""
WRAPPERS = frozenset(
    """
    data result response results embedded d payload body list page hits content collection resultset
    """.split()
)
"""Objects of a response in which its list may lie."""
ITEMS = tuple(
    """
    items data results result value values records entries list content rows elements objects hits resources
    resource docs members
    """.split()
)
ASIDE = frozenset(
    """
    errors warnings links included meta facets aggregations notices error schemas expand
    """.split()
)
POSITIONAL = frozenset(
    """
    page pagination paging cursor offset skip start starting limit after before since marker continue continuation
    next bookmark scroll per
    """.split()
)
CURSOR_WORDS = re.compile(
    r"(?i)\b(?:cursor|paginat|next page|start of the page|link header|previous (?:response|page|call|request))"
)
PAGE_WORDS = re.compile(r"(?i)\b(?:page (?:number|index)|number of the page|which page)\b|^\W*(?:the )?page of\b")
TOKEN_WORDS = re.compile(r"(?i)\b(?:cursor|token)\b")
TIME_WORDS = re.compile(r"(?i)\b(?:date|time|timestamp)\b")
ID_WORDS = re.compile(r"(?i)\bids?\b|\bidentifier\b|\bcursor\b")
FROM_ZERO = re.compile(
    r"(?i)\b(?:zero|0)[- ](?:based|indexed)|\b(?:starts?|starting|begins?) (?:at|from|with) (?:0|zero)\b"
)


def flat(name: str) -> str:
    """A name without case and signs: ``@odata.nextLink`` is ``odatanextlink``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
