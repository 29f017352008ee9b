"""Grids of configurations, measured in random order: cells, measurements, tables and plots.

The grid, its order, the sums, tables and charts are pure. ``Backend`` says what decodes a prompt;
``store`` keeps every cell as it ends.
"""
