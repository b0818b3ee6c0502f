"""The menu of the tools as a page: collapsible, with a search, without a server."""
