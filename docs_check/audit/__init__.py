"""Holds our own matrix against a source tree."""
