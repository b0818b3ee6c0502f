"""Language models: one client for every OpenAI-compatible endpoint, a small model on this machine, a fake for tests."""
