"""The JSON documents of the commands. Numbers are SI; None comes with its reason."""
