"""What the tune screen is made of: a digest of the trials, words for it, keys and messages."""
