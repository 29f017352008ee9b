"""Options: what llama-server's are called, what they take, and the drafters that they describe."""
