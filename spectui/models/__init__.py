"""Finding models and ranking drafts for them."""
