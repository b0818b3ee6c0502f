"""All that touches the machine: files, locks, trust, installed extras, secrets and invisible characters in text."""
