"""Runnable attention backends behind one interface, probes, and verification.

Nothing here imports torch, triton or flashinfer until a backend is created.
"""
