"""What torch's sums over rows allocate on CUDA while they run, as a bias's or a gain's gradient.

Where few columns are summed over many rows, the rows are shared out among thread blocks, which
leave their parts in the card's memory: far more than the result, and alive only within the op.
The sizes follow setReduceConfig and ReduceConfig of torch (aten/src/ATen/native/cuda/Reduce.cuh).
"""

from __future__ import annotations

from typing import Final

MOST_THREADS: Final = 512  # of a block
WARP: Final = 32
LEAST_VALUES: Final = 16  # of a thread
MOST_VALUES: Final = 256
ACCUMULATOR: Final = 4  # bytes: narrower numbers are summed in fp32
SEMAPHORE: Final = 4  # bytes a block of the first dimension

# Multiprocessors, and threads of each, of the cards that models are trained on (CUDA's
# programming guide, the cards' data sheets). How many there are matters for wide rows alone.
MULTIPROCESSORS: Final = {
    (7, 0): (80, 2048),
    (7, 5): (40, 1024),
    (8, 0): (108, 2048),
    (8, 6): (84, 1536),
    (8, 9): (128, 1536),
    (9, 0): (132, 2048),
    (10, 0): (148, 2048),
    (12, 0): (170, 1536),
}
USUAL: Final = (132, 2048)


def sum_scratch(rows: int, columns: int, capability: tuple[int, int]) -> int:
    """Bytes beside the result of a sum over the rows of a contiguous (rows, columns) tensor.

    rows, columns: elements; capability: of the card. 0 where no blocks share a column's rows.
    """
    vector = next(width for width in (4, 2, 1) if columns % width == 0)  # columns of a thread
    most = MOST_THREADS // vector
    across, down = _power(columns // vector, most), _power(rows, most)
    width = min(across, WARP)
    height = min(down, most // width)
    width = min(across, most // height)
    if rows < min(LEAST_VALUES * height, MOST_VALUES):
        return 0
    values = -(-rows // height)  # of a thread
    blocks = -(-(columns // vector) // width)
    processors, threads = MULTIPROCESSORS.get(capability, USUAL)
    wanted = processors * (threads // (width * height))
    if values < MOST_VALUES or blocks > wanted:
        return 0
    sharing = min(-(-wanted // blocks), -(-values // LEAST_VALUES))
    sharing = max(sharing, -(-values // MOST_VALUES))
    if sharing == 1:
        return 0
    return ACCUMULATOR * columns * sharing * width * vector + SEMAPHORE * blocks


def _power(size: int, most: int) -> int:
    """The largest power of two in size, most at most."""
    return most if size >= most else max(1, 1 << (size.bit_length() - 1))
