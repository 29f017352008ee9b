"""The plots of a sweep: their data and their drawing."""
