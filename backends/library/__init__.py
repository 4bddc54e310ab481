"""Pieces that the adapters of library kernels share: page lists, masks, wrappers, built modules."""
