"""Reports of studies that others can read: a page, Markdown, a row of a shared table."""
