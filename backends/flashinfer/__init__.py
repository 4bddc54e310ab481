"""`flashinfer`: FlashInfer's fa2 kernels over the paged pool, its MLA kernels for latents."""
