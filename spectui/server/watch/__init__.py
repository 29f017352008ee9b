"""Watches a llama-server that runs, for ``spectui attach``."""
