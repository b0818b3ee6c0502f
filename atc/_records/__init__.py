"""Plain data without sentences. Nothing here imports a room above it."""
