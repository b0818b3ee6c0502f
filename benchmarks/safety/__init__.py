"""Attacks and floods: prompt injection, system calls, hostile frames, and the service under load."""
