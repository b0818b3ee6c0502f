"""Kills at random moments: nothing is written twice, and nothing is lost."""
