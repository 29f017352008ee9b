"""Sources of an existing llama-server command: a shell line, a file, or a running process."""
