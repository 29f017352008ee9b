"""The live session and the numbers of its panels, without a screen."""
