"""The screen over a llama-server that somebody else has started."""
