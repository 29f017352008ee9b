"""The screen in a browser: a web server on loopback, and a pseudo terminal for each page."""
