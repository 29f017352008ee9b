"""What other settings would have done on the session's own answers."""
