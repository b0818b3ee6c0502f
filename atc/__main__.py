"""``python -m atc``."""

from atc.cli import main

main()
