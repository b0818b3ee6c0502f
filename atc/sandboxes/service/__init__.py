"""The sandbox as an HTTP service: programs come in, their tool calls go back to the caller, an outcome ends it.

It holds no credentials and executes no tools. ``server`` starts it, ``app`` is its face, ``runs`` who may run what,
``relay`` one run over its WebSocket, ``jails`` where programs run, ``messages`` what both ends say.
"""
