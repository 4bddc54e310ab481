"""`flashmla`: FlashMLA's dense decode over latents; extend through FlashInfer's MLA kernels."""
