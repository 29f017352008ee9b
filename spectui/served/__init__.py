"""Prompts decoded by llama-servers that are started for it: the real ones, as a user has them."""

from spectui.served.fleet import Fleet
from spectui.served.setup import Setup

__all__ = ["Fleet", "Setup"]
