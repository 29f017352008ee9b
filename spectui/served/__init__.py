"""Decodes prompts through llama-servers that are started for it."""
