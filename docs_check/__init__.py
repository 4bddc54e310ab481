"""Code facts, page facts, and the difference between them."""
