"""How the optional parts of this package are installed: it is in no package index."""

TRAIN = "`pip install './research[train]'` in a checkout of ATC"
