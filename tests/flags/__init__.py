"""Flags as data, and the parser that reads them."""
