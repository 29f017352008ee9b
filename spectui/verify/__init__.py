"""Compares a promised speedup with the one that the user's own llama-server delivers."""
