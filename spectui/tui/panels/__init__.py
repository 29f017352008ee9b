"""Panels: lines in the detail that their size allows, painted only where they have changed."""
