"""What a kernel will cost, with pencil and paper: seven small models of an NVIDIA GPU.

None of them runs anything. They answer what you want to know before you write or tune a kernel: how
many blocks share a multiprocessor (SM), how often a tiled matrix product reads its inputs, whether
the last wave leaves the GPU idle, what the memory allows at best, and which access patterns cost
more than they look.

Plain Python is enough: integers, sets, min and max. The constants are those of an H100 or H200.
"""

WARP_SIZE = 32  # threads that execute one instruction together
WARPS_PER_SM = 64  # resident at most, so 2048 threads
BLOCKS_PER_SM = 32  # resident at most

SM_PARTS = 4  # an SM has four parts; a warp lives in one of them, with its registers
REGISTERS_PER_PART = 16384  # 65536 per SM
REGISTER_UNIT = 256  # a warp gets registers in units of this many

SHARED_BYTES_PER_SM = 228 * 1024
RESERVED_SHARED_BYTES = 1024  # that the system takes for itself, per block
SHARED_UNIT_BYTES = 128  # a block gets shared memory in units of this many bytes

N_BANKS = 32  # of shared memory
BANK_BYTES = 4
SECTOR_BYTES = 32  # what global memory delivers at a time


def occupancy(n_threads: int, registers: int, shared_bytes: int) -> tuple[int, float, str]:
    """How many blocks of a kernel one SM holds at a time, and what allows no more.

    Args:
        n_threads: Threads of one block, 1 to 1024. A last warp that is not full counts as one.
        registers: Per thread, 1 to 255. A warp needs 32 times as many, rounded up to whole units.
        shared_bytes: Shared memory that one block asks for, 0 to 227 * 1024. It takes so much and
            the reserved bytes, rounded up to whole units.

    Returns:
        A tuple (n_blocks, share, limited_by):
        n_blocks: Resident blocks per SM; 0 if not even one fits.
        share: Resident warps as a share of WARPS_PER_SM, 0 to 1.
        limited_by: "registers", "shared memory", "warps" or "blocks": the limit that is reached
            first; of equal ones any.

    For example 128 threads of 160 registers without shared memory: (3, 0.1875, "registers").
    """
    # How many blocks would each of the four limits allow, if it were the only one?
    # Registers: count warps in one part of the SM first; a warp does not spread over two parts.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement occupancy")


def tile_traffic(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int
) -> tuple[int, int, int, int, int]:
    """What a tiled matrix product C = A @ B launches, and what it moves to and from global memory.

    One program computes one tile of C. It walks along K, and loads a tile of A and a tile of B on
    each trip. Loads and stores are masked: what lies outside the matrices is not moved.

    Args:
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A, rows of B.
        block_m: Rows of a tile of C. It need not divide m; likewise the next two.
        block_n: Columns of a tile of C.
        block_k: Columns of A that one trip loads.

    Returns:
        A tuple (grid_m, grid_n, trips, read, written):
        grid_m, grid_n: Programs along M and along N.
        trips: Of one program's loop along K.
        read: Elements of A and B that all programs together load.
        written: Elements of C that they store.

    For example 256 x 256 x 256 in tiles of 16: (16, 16, 16, 2097152, 65536).
    """
    # How many programs load the same element of A? Those of one row of tiles. And of B?
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement tile_traffic")


def softmax_traffic(m: int, n: int, fused: bool) -> tuple[int, int]:
    """Elements that a softmax over the rows of an m x n matrix reads and writes.

    Args:
        m: Rows.
        n: Columns.
        fused: True: one kernel that keeps each row on chip. False: five PyTorch operations,

            largest = x.amax(dim=1)
            shifted = x - largest[:, None]
            exponentials = torch.exp(shifted)
            total = exponentials.sum(dim=1)
            y = exponentials / total[:, None]

            each of which reads all of its inputs and writes all of its output.

    Returns:
        A tuple (read, written), in elements. The m values of largest and total count, too.
    """
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement softmax_traffic")


def waves(n_programs: int, n_sms: int, blocks_per_sm: int) -> tuple[int, float]:
    """In how many waves a grid runs when every program takes equally long.

    Args:
        n_programs: Of the grid, at least 1.
        n_sms: Multiprocessors of the GPU.
        blocks_per_sm: Programs that one SM runs at a time.

    Returns:
        A tuple (n_waves, share):
        n_waves: A last wave that is not full takes as long as a full one.
        share: Of the places that these waves offer, how much is used, 0 to 1.

    For example 148 programs on 148 SMs, one each: (1, 1.0). One more: (2, 0.503).
    """
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement waves")


def intensity(
    flops: int, n_bytes: int, peak_tflops: float, bandwidth_tbps: float
) -> tuple[float, float, str]:
    """Where a kernel stands in the roofline model.

    Args:
        flops: Floating-point operations.
        n_bytes: Moved to and from global memory, at least 1.
        peak_tflops: What the GPU computes at most, in 10^12 operations per second.
        bandwidth_tbps: What its memory moves at most, in 10^12 bytes per second.

    Returns:
        A tuple (flops_per_byte, tflops, limited_by):
        flops_per_byte: The arithmetic intensity.
        tflops: What the kernel reaches at best, in 10^12 operations per second.
        limited_by: "memory" or "compute"; either where both are equal.
    """
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement intensity")


def bank_conflicts(addresses: list[int]) -> int:
    """How many passes shared memory needs for one load of a warp.

    Shared memory has N_BANKS banks. Words of BANK_BYTES bytes that follow each other lie in banks
    that follow each other, and after the last bank comes the first. In one pass each bank delivers
    one word, to all threads that asked for this word.

    Args:
        addresses: One address per thread, in bytes, a multiple of BANK_BYTES; 1 to 32 of them. Each
            thread loads one word.

    Returns:
        The number of passes: 1 without conflicts, 32 in the worst case.
    """
    # Two threads that load the SAME word do not conflict.
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement bank_conflicts")


def sectors(addresses: list[int], n_bytes: int) -> int:
    """How many sectors of global memory one load of a warp touches.

    Global memory is delivered in sectors: SECTOR_BYTES bytes that start at a multiple of
    SECTOR_BYTES. A sector that several threads need is delivered once.

    Args:
        addresses: One address per thread, in bytes, of any alignment; 1 to 32 of them.
        n_bytes: What each thread loads from its address on, 1 to 64.

    Returns:
        The number of different sectors.

    For example 32 threads that load 4 bytes each, side by side: 4 sectors if the first address is
    a multiple of 32, otherwise 5.
    """
    # TODO: your code here, instead of the next line
    raise NotImplementedError("TODO: implement sectors")


def _ceil_div(a: int, b: int) -> int:
    """Divide and round up: 7 elements in blocks of 4 need 2 blocks."""
    return -(-a // b)
