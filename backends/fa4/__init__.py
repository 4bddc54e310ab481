"""`fa4`: FlashAttention-4, kernels in CuTe DSL that are compiled when first called."""
