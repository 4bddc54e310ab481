"""Launches measured on a GPU, by its compute capability; `launch` has rules for all others.

Written by `python -m tests.benchmarks.tune.table`, from what the tuner measured.
"""

from __future__ import annotations

#: MLA, query-key dim, value dim, bytes of a query number, bytes of a stored number.
ShapeKey = tuple[bool, int, int, int, int]
#: And rows of a tile: query heads of a KV head times queries, as a power of two of 16 to 64.
SplitKey = tuple[bool, int, int, int, int, int]
#: Tile, warps, stages, programs a multiprocessor, overlap: the fields of `SplitConfig`.
SplitLaunch = tuple[int, int, int, int, int, bool]
#: Tile, warps, stages, heads a tile: the fields of `ExtendConfig`.
ExtendLaunch = tuple[int, int, int, int, int]

Capability = tuple[int, int] | None
SplitTable = dict[Capability, dict[SplitKey, dict[int, SplitLaunch]]]
ExtendTable = dict[Capability, dict[ShapeKey, ExtendLaunch]]

#: capability → shape → batch size → launch
TUNED_SPLIT: SplitTable = {(9, 0): {(False, 128, 128, 2, 1, 16): {1: (16, 32, 4, 3, 4, True),
                                        16: (16, 32, 1, 5, 8, True),
                                        64: (16, 32, 1, 5, 12, True)},
          (False, 128, 128, 2, 2, 16): {1: (16, 16, 1, 3, 8, True),
                                        16: (16, 32, 1, 5, 3, True),
                                        64: (16, 32, 1, 3, 5, True)},
          (True, 576, 512, 2, 2, 16): {1: (64, 64, 8, 3, 2, True),
                                       64: (64, 32, 8, 3, 4, True)},
          (True, 576, 512, 2, 2, 64): {1: (64, 64, 8, 3, 1, False),
                                       16: (64, 64, 8, 3, 1, True),
                                       64: (64, 64, 8, 3, 1, True)}}}  # fmt: skip

#: capability → shape → launch, for prompts longer than a few tokens
TUNED_EXTEND: ExtendTable = {}  # fmt: skip
