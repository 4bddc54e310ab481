"""`attn-lint verify`: run every bundled backend cell by cell, and hold the matrix against it."""
