"""Finding the settings that pay: search space, objective, statistics and verdict."""
