"""The plots of a sweep: which there are, and how they are drawn."""
