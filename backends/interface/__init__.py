"""What every bundled backend is written against: batches, pools, layers, capabilities.

Names are those of SGLang 0.5.22 (`srt/layers/attention/base_attn_backend.py`). `modes`, `layer`,
`capabilities`, `checks` and `errors` import no torch, so that what a backend declares can be read
anywhere.
"""
