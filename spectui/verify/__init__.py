"""Holds a promised speedup against what the user's own llama-server delivers."""
