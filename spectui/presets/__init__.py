"""Presets: named sets of command-line options and of models, shipped or the user's own, as TOML."""

from spectui.presets.content import Options, Preset, find_preset, list_presets, read_preset

__all__ = [
    "Options",
    "Preset",
    "find_preset",
    "list_presets",
    "read_preset",
]
