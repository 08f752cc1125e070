"""Kernel names in a narrow column: what tells two kernels apart goes last."""

from __future__ import annotations

import re

ELLIPSIS = "…"
_HEAD = 2 / 3  # of the width, when nothing is left but to cut
_LESS = tuple(  # what may go, the least telling first: a GEMM keeps its dtype, layout and tile
    (re.compile(pattern), text)
    for pattern, text in (
        (r"_s\d+_w[\dx]+(?:_[a-z]*ma)?(?:_a\dc\d)?(?=_|$)", ELLIPSIS),
        (r"(?<=\d)(?:_s\d+)?_w[\dx]+(?=_|$)", ELLIPSIS),
        (r"_align\d+(?=_|$|>)|_a\dc\d(?=_|$)", ELLIPSIS),
        (r"^(?:sm\d+_|cutlass_\d+_)(?=\w)", ""),
        (r"_tile(?=\d)", "_"),
        (r"^(?:xmma|cublas|wgmma)_(?=gemm)", ""),
        (r"(?:vectorized|unrolled|legacy)_(?=elementwise)", ""),
        (r"(?<=· )elementwise", "elem"),
    )
)


def narrow(name: str, width: int) -> str:
    """The name in at most `width` characters, shortened only as far as it must be.

    Parts that kernels of one family share go first; what is still too long loses its middle,
    since both ends differ between kernels. An ellipsis stands where something was taken out.
    """
    for pattern, text in _LESS:
        if len(name) <= width:
            return name
        name = pattern.sub(text, name).replace(f"{ELLIPSIS}_", ELLIPSIS)
    if len(name) <= width:
        return name
    room = max(0, width - 1)
    head = round(_HEAD * room)
    return (name[:head] + ELLIPSIS + name[len(name) - (room - head) :])[: max(0, width)]
