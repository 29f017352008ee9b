"""Commands of llama-server: read, checked, rewritten for another build, written in a format."""
