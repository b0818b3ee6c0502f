"""Documents of others: OpenAPI imports, pages, effects; and a new user's first commands."""
