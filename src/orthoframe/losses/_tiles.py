"""How large the pieces are in which similarities are computed; chosen here for every device and size."""

import torch

# The symmetric way: 1024 rows and columns is near the fastest from 1,000 to 65,000 rows on a CPU, where such a tile of
# float32 (4 MiB) stays in a cache. Elements of a block of the general way, some anchors x all columns: 8 MiB.
TILE, BLOCK = 1024, 2**21
# On a GPU each operation costs a launch, and pieces of 64 MiB are little of its memory; a guess, not measured.
_GPU_TILE, _GPU_BLOCK = 4096, 2**24
# Tiles kept from the forward to the backward pass; those that do not fit are computed again.
KEEP_BYTES = 128 * 2**20


def tile_rows(device: torch.device) -> int:
    """Rows and columns of a tile of the symmetric way."""
    return TILE if device.type == "cpu" else _GPU_TILE


def block_elements(device: torch.device) -> int:
    """Elements of a block of the general way, whatever the number of rows."""
    return BLOCK if device.type == "cpu" else _GPU_BLOCK
