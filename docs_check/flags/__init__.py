"""Reads the command line of an SGLang release from its source, without importing it."""
