"""The page on which a user looks at runs, approves writes, and begins and resumes tasks (``atc ui``)."""
