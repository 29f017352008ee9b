"""Replay of other settings on the session's own answers."""
