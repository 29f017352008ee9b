"""Prompts decoded by llama-servers that are started for it: the real ones, as a user has them."""
