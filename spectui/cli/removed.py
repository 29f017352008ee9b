"""Options of earlier versions, with a sentence on the way that is left."""

_COUNTS = (
    "verify compares speedups alone and loads no models a second time, so that --counts and "
    "--no-counts are gone; leave them out, and compare counts with benchmarks/draft_counts.py of a "
    "clone"
)
REMOVED = {
    "counts": _COUNTS,
    "no-counts": _COUNTS,
    "schedule": ("every round does llama-server's work, so that --schedule is gone; leave it out"),
}
"""By their long names without dashes, as in presets."""
