"""Rewrites a command in the words of its new llama-server, with everything in its place."""
