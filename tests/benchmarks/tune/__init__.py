"""Times launch configurations of the `triton` backend's kernels on a CUDA device."""
