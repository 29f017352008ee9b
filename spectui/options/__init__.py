"""Options: llama-server's names, ranges and values, and the drafters that they describe."""
