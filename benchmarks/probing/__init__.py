"""Probing: what is found out about a service of which only names are given."""
