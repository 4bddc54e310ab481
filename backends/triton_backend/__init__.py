"""Attention kernels of our own in Triton: split-KV decode and verify, paged extend, MHA and MLA.

Nothing here is imported, and Triton is not needed, before a backend asks for the kernels.
"""
