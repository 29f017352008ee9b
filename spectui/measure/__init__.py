"""Measures prompts without and with speculation: by the engine, or through llama-servers."""
