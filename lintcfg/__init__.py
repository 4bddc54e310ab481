"""Launches and findings: command line, launch parsing, resolver, rules, reporters."""
