"""Measures prompts without and with speculation: in this process, or through llama-servers."""
