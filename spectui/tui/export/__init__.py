"""Flags for the user's own llama-server."""
