"""A llama-server that somebody else has started: what it tells of itself, sample by sample."""
