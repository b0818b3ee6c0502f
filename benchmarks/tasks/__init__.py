"""Whole tasks: the ruler that lets systems try them, its rows and its tables."""
