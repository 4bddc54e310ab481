"""The kernels. Import them through `..loading`, which decides: compiled or interpreted."""
