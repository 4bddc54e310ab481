"""Conformance: the validator and the real SGLang judge the same launches."""
