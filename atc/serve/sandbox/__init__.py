"""The sandbox as an HTTP service: programs come in, their tool calls go back to the caller, an outcome ends it.

It holds no credentials and executes no tools. ``server`` is its face, ``runs`` which runs were granted, ``service``
what is running and where, ``relay`` one run over its WebSocket, ``accounts`` what each tenant costs. Its client is a
driver (:mod:`atc.sandboxes.remote`).
"""
