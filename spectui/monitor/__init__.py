"""Identity of the machine, and readings of it."""
