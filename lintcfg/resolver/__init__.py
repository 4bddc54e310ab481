"""Runs a release's stages over a launch and records who decided what."""
