"""Speed of the bundled backends on a CUDA device, beside the device's own ceilings.

    python -m tests.benchmarks.gpu --output-file results.json

Everything is measured in one call, so that ratios compare like with like: medians of CUDA-graph
replays with a cold L2 cache.
"""
