"""`flex_attention`: torch's flex_attention over the paged pool as it lies, by a block mask."""
