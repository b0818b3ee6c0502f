"""The driver of a sandbox behind HTTP (:mod:`atc.serve.sandbox`) is ``client``; both ends say ``messages``."""
