"""`torch_native`: torch's scaled_dot_product_attention, gathered for each request."""
