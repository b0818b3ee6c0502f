"""One run: what a strategy works with, the loop that writes, checks, runs and revises, and the strategies."""
