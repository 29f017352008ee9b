"""Search for settings that pay: search space, objective, statistics and verdict."""
