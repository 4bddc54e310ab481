"""Makes Triton's interpreter fast enough for a whole verification on a CPU.

Half of its time goes into work whose result is the one that was there before. For a process of
our own only: what is changed here are Triton's own modules.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any


@cache
def quicken() -> bool:
    """Take the needless work out of Triton's interpreter; False where it isn't the one known here.

    What kernels compute stays as it is, bit for bit.
    """
    try:
        import triton.language as tl
        from triton.runtime import interpreter

        patch, scope, builder = (
            interpreter._patch_lang, interpreter._LangPatchScope, interpreter.interpreter_builder,
        )  # fmt: skip
        # Sums of integers are made a second time in 64 bits and compared with the limits of the
        # type, and without `debug` the comparison is thrown away.
        builder.options = replace(builder.options, sanitize_overflow=builder.options.debug)
        is_builtin, tensor = tl.core.is_builtin, tl.tensor
    except Exception:
        # Not installed, broken, or of other insides; the backends tell the first two themselves.
        return False

    def patch_once(fn: Any) -> Any:
        """Look through the language for what to replace, unless the kernel's launch has done it.

        Triton does so again in every call of one device function by another.
        """
        here = [each for each in fn.__globals__.values() if each is tl or each is tl.core]
        untouched = [each.load for each in here if is_builtin(each.load)]
        if here and not untouched and not is_builtin(tensor.__add__):
            return scope()
        return patch(fn)

    interpreter._patch_lang = patch_once
    return True
