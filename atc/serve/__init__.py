"""What the HTTP servers of ATC share: ``atc mcp --http``, the page of ``atc ui`` and the sandbox service.

``accepting`` counts connections from when they are accepted, ``http`` reads requests and ends a server after its work,
``request_guard`` says what a request must be, and ``tokens`` who shows it.
"""
