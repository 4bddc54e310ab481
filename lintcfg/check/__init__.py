"""Checks files: finds their launches, judges each, and places what is found in the file."""
