"""Grids of settings, measured in random order: cells, measurements, tables and a picture.

``Sweep`` runs a grid on an engine or on llama-servers, and stores every cell as it ends. The grid,
its order, the sums, tables and the picture are pure.
"""
