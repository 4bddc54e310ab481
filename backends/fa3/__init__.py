"""`fa3`: FlashAttention-3 as `sgl_kernel` builds it, else FlashInfer's kernels for Hopper."""
