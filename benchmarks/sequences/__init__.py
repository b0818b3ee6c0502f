"""Tasks in an order over one catalogue, whose tools break: what choosing, learning and mending are worth.

``python -m benchmarks.sequences --data DIR`` runs it; :mod:`benchmarks.sequences.world` says what it is made of.
"""
