"""A real llama-server: start it, send it requests, and leave no process behind."""
