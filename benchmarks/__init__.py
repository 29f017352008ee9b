"""Reproducible measurements: run one with ``python -m benchmarks.NAME``."""
