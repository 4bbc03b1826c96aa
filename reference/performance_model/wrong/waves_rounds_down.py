"""Rounds the number of waves down: a last wave that is not full is not counted."""

EXPECTED_VERDICT = "wrong_value"
EXPECTED_GROUP = "forward"
EXPECTED_CASES = None

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
    warps = _ceil_div(n_threads, WARP_SIZE)
    per_warp = _ceil_div(registers * WARP_SIZE, REGISTER_UNIT) * REGISTER_UNIT
    shared = _ceil_div(shared_bytes + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES) * SHARED_UNIT_BYTES
    allowed = {
        "registers": SM_PARTS * (REGISTERS_PER_PART // per_warp) // warps,
        "shared memory": SHARED_BYTES_PER_SM // shared,
        "warps": WARPS_PER_SM // warps,
        "blocks": BLOCKS_PER_SM,
    }
    limited_by = min(allowed, key=allowed.get)
    n_blocks = allowed[limited_by]
    return n_blocks, n_blocks * warps / WARPS_PER_SM, limited_by


def tile_traffic(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int
) -> tuple[int, int, int, int, int]:
    grid_m, grid_n = _ceil_div(m, block_m), _ceil_div(n, block_n)
    read = grid_n * m * k + grid_m * k * n
    return grid_m, grid_n, _ceil_div(k, block_k), read, m * n


def softmax_traffic(m: int, n: int, fused: bool) -> tuple[int, int]:
    if fused:
        return m * n, m * n
    matrix, column = m * n, m
    read = matrix + (matrix + column) + matrix + matrix + (matrix + column)
    written = column + matrix + matrix + column + matrix
    return read, written


def waves(n_programs: int, n_sms: int, blocks_per_sm: int) -> tuple[int, float]:
    places = n_sms * blocks_per_sm
    n_waves = max(1, n_programs // places)
    return n_waves, n_programs / (n_waves * places)


def intensity(
    flops: int, n_bytes: int, peak_tflops: float, bandwidth_tbps: float
) -> tuple[float, float, str]:
    flops_per_byte = flops / n_bytes
    by_memory = bandwidth_tbps * flops_per_byte
    if by_memory < peak_tflops:
        return flops_per_byte, by_memory, "memory"
    return flops_per_byte, peak_tflops, "compute"


def bank_conflicts(addresses: list[int]) -> int:
    words_of_bank = [set() for _ in range(N_BANKS)]
    for address in addresses:
        word = address // BANK_BYTES
        words_of_bank[word % N_BANKS].add(word)
    return max(len(words) for words in words_of_bank)


def sectors(addresses: list[int], n_bytes: int) -> int:
    touched = set()
    for address in addresses:
        first, last = address // SECTOR_BYTES, (address + n_bytes - 1) // SECTOR_BYTES
        touched.update(range(first, last + 1))
    return len(touched)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
