"""The start screen: a target, and a draft for it."""
