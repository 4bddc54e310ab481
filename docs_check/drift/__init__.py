"""Where a page and the code differ."""
