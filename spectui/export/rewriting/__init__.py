"""A command in the words of the llama-server that shall read it, with everything in its place."""
