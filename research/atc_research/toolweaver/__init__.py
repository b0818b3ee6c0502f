"""ToolWeaver: trained codes of tools, and a decoder that says them."""
