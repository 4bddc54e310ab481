"""Runnable attention backends behind one interface, and the probes that verify them."""
