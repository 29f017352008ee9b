"""What the live panels show, computed without a screen."""
