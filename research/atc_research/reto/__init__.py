"""RETO: tools in layers, by programs and by tool calls."""
