"""Reports of studies that others can read: a page, Markdown, a card of JSON, two side by side."""
