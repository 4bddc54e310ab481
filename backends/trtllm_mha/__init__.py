"""`trtllm_mha`: XQA, or TensorRT-LLM's generated kernels, through FlashInfer."""
