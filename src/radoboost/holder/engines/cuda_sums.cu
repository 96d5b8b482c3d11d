// Values to integers on the grid, ChaCha20 words, and sums of integer rows by rado: exact, in any order.
//
// A tile is 64 rows. The integer of a row and column, at most 2^22 in magnitude, is three digits of 8 bits with a
// sign: v = d0 + 256 d1 + 65536 d2. Digit k of column c is line n = 3 c + k of a panel of columns. A tile of a panel
// is lines / 8 groups of 512 bytes, laid out as the matrix unit takes them: the digit of row r of line n is at
//
//     512 (n / 8) + 256 h + 32 (n % 8) + 8 q + 4 w + b      where r = 32 h + 8 b + 2 q + w,  q < 4, w < 2, b < 4
//
// so that the bits of a rado's word that go with 4 such bytes are (half h of the word >> (2 q + w)) & 0x01010101.
// Sums of up to 2^24 digits fit 32 bits. The same text is compiled by g++ in the tests, where a header stands in for
// what CUDA has of its own.

typedef signed char i8;
typedef unsigned char u8;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define TILE 64
#define BITS 0x01010101u
#define WARPS 8                      // of a block that sums by the matrix unit
#define HEIGHT 4                     // blocks of 16 rados that a warp has
#define RADOS (WARPS * HEIGHT * 16)  // of a block
#define BLOCKS 1                     // of them that a multiprocessor has at a time
#define STAGES 2                     // of the buffer in shared memory, each with so many tiles:
#define STAGE_TILES 4
#define DOT_GROUPS 3                 // of 8 lines, that a thread has which sums without the matrix unit
#define DOT_THREADS 128
#define SNAP_THREADS 128
#define CONSTANTS 8                  // of a column: low, high, shift, factor, divisor, offset, 1 / step, 1 / divisor or 0

// ---- snapping

// a / d, correctly rounded, with r the float64 nearest to 1 / d. The first quotient is within two units of the last
// place, the second within one, and then Markstein's theorem makes the third the nearest one.
__device__ __forceinline__ double divide(double a, double d, double r) {
    double q = a * r;
    q = __fma_rn(__fma_rn(-d, q, a), r, q);
    return __fma_rn(__fma_rn(-d, q, a), r, q);
}

// Whether a remainder might not be exact there, for a is outside of about 2^-400 to 2^496, and not 0.
__device__ __forceinline__ bool is_extreme(double a) {
    u32 high = (u32)__double2hiint(a) & 0x7fffffffu;
    return high - 0x26f00000u > 0x38000000u && (high | (u32)__double2loint(a)) != 0;
}

__device__ __noinline__ double divide_plainly(double a, double d) { return a / d; }

// 8 values, scaled and snapped; c are the column's constants.
__device__ __forceinline__ void snap_eight(double* x, const double* c, bool bounded, i32* numbers) {
    bool extreme = c[7] == 0.0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (bounded) {
            x[i] = x[i] < c[0] ? c[0] : x[i];
            x[i] = x[i] > c[1] ? c[1] : x[i];
        }
        x[i] = (x[i] - c[2]) * c[3];
        extreme |= is_extreme(x[i]);
    }
    if (extreme) {
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = divide_plainly(x[i], c[4]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = divide(x[i], c[4], c[7]);
    }
    // Adding 1.5 * 2^52 rounds to a whole number, ties to even, and leaves it in the lower bits.
#pragma unroll
    for (int i = 0; i < 8; i++) numbers[i] = __double2loint((x[i] - c[5]) * c[6] + 6755399441055744.0);
}

// The three digits of 8 integers, those of rows 8 b + w: an 8-byte word for each digit. Each byte of v + 0x808080 is
// a digit and 128 more; turning its highest bit over leaves the digit.
__device__ __forceinline__ void store_digits(u8* lines, i32 line, i32 half, i32 quad, const i32* numbers) {
    u32 digits[3][2];
#pragma unroll
    for (int w = 0; w < 2; w++) {
        u32 v[4];
#pragma unroll
        for (int b = 0; b < 4; b++) v[b] = ((u32)numbers[4 * w + b] + 0x808080u) ^ 0x808080u;
        u32 first = __byte_perm(v[0], v[1], 0x5140), second = __byte_perm(v[2], v[3], 0x5140);
        digits[0][w] = __byte_perm(first, second, 0x5410);
        digits[1][w] = __byte_perm(first, second, 0x7632);
        digits[2][w] = __byte_perm(__byte_perm(v[0], v[1], 0x0062), __byte_perm(v[2], v[3], 0x0062), 0x5410);
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        i32 n = line + k;
        u8* there = lines + 512 * (n >> 3) + 256 * half + 32 * (n & 7) + 8 * quad;
        *(uint2*)there = make_uint2(digits[k][0], digits[k][1]);
    }
}

// A block has a tile and a panel; those of one tile follow each other. Columns from n_features on are the constant,
// whose integer is the sign times 2^22.
template <class T>
__device__ void snap_tile(const T* values, const i8* signs, i64 n_rows, i32 n_features, i32 n_columns, i32 width,
                          i32 tile_bytes, const double* constants, i32 bounded, u8* lines, u64* clipped) {
    T* cells = (T*)dynamic_shared();
    i8* marks = (i8*)(cells + TILE * width);
    u32* counts = (u32*)(marks + TILE);
    i64 tile = (i64)blockIdx.z * gridDim.y + blockIdx.y, first = tile * TILE;
    if (first >= n_rows) return;
    i32 count = n_rows - first < TILE ? (i32)(n_rows - first) : TILE;
    i32 from = blockIdx.x * width, here = n_columns - from < width ? n_columns - from : width;
    i32 features = n_features - from < here ? n_features - from : here;
    const T* source = values + first * n_features + from;
    if (features == n_features) {
        for (i32 i = threadIdx.x; i < count * features; i += SNAP_THREADS) cells[i] = source[i];
    } else {
#pragma unroll 4
        for (i32 i = threadIdx.x; i < count * features; i += SNAP_THREADS)
            cells[i] = source[i + (i64)(i / features) * (n_features - features)];
    }
    for (i32 i = threadIdx.x; i < count; i += SNAP_THREADS) marks[i] = signs[first + i];
    for (i32 i = threadIdx.x; i < width; i += SNAP_THREADS) counts[i] = 0;
    __syncthreads();
    lines += (blockIdx.x * ((n_rows + TILE - 1) / TILE) + tile) * tile_bytes;
    for (i32 unit = threadIdx.x; unit < 4 * here; unit += SNAP_THREADS) {
        i32 k = unit >> 2, quad = unit & 3;
        u32 outside = 0;
        double c[CONSTANTS];
#pragma unroll
        for (int i = 0; i < CONSTANTS; i++) c[i] = k < features ? constants[(from + k) * CONSTANTS + i] : 0.0;
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            i32 numbers[8], from_row = 32 * half + 2 * quad;
            if (k < features) {
                double x[8];
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    i32 row = from_row + 8 * (i & 3) + (i >> 2);
                    x[i] = row < count ? (double)cells[row * features + k] : c[2];
                    if (bounded && row < count) outside += x[i] < c[0] || x[i] > c[1];
                }
                snap_eight(x, c, bounded, numbers);
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) numbers[i] = 1 << 22;
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                i32 row = from_row + 8 * (i & 3) + (i >> 2);
                numbers[i] = row < count ? numbers[i] * marks[row] : 0;
            }
            store_digits(lines, 3 * k, half, quad, numbers);
        }
        if (bounded && outside) atomicAdd(&counts[k], outside);
    }
    if (!bounded) return;
    __syncthreads();
    for (i32 k = threadIdx.x; k < features; k += SNAP_THREADS)
        if (counts[k]) atomicAdd(&clipped[from + k], (u64)counts[k]);
}

extern "C" __global__ void __launch_bounds__(SNAP_THREADS, 8)
snap_float32(const float* values, const i8* signs, i64 n_rows, i32 n_features, i32 n_columns, i32 width,
             i32 tile_bytes, const double* constants, i32 bounded, u8* lines, u64* clipped) {
    snap_tile(values, signs, n_rows, n_features, n_columns, width, tile_bytes, constants, bounded, lines, clipped);
}

extern "C" __global__ void __launch_bounds__(SNAP_THREADS, 8)
snap_float64(const double* values, const i8* signs, i64 n_rows, i32 n_features, i32 n_columns, i32 width,
             i32 tile_bytes, const double* constants, i32 bounded, u8* lines, u64* clipped) {
    snap_tile(values, signs, n_rows, n_features, n_columns, width, tile_bytes, constants, bounded, lines, clipped);
}

// Integers that were made elsewhere; their rows are `stride` numbers apart.
extern "C" __global__ void __launch_bounds__(SNAP_THREADS, 8)
pack_rows(const i32* rows, i64 n_rows, i32 stride, i32 n_columns, i32 width, i32 tile_bytes, u8* lines) {
    i64 first = (i64)blockIdx.x * TILE;
    i32 from = blockIdx.y * width, here = n_columns - from < width ? n_columns - from : width;
    lines += ((i64)blockIdx.y * gridDim.x + blockIdx.x) * tile_bytes;
    for (i32 unit = threadIdx.x; unit < 4 * here; unit += SNAP_THREADS) {
        i32 k = unit >> 2, quad = unit & 3;
        for (int half = 0; half < 2; half++) {
            i32 numbers[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                i64 row = first + 32 * half + 8 * (i & 3) + 2 * quad + (i >> 2);
                numbers[i] = row < n_rows ? rows[row * stride + from + k] : 0;
            }
            store_digits(lines, 3 * k, half, quad, numbers);
        }
    }
}

// ---- words

__device__ __forceinline__ u32 rotated(u32 x, int n) { return x << n | x >> (32 - n); }

#define QUARTER(a, b, c, d)                                            \
    a += b; d = rotated(d ^ a, 16); c += d; b = rotated(b ^ c, 12);    \
    a += b; d = rotated(d ^ a, 8);  c += d; b = rotated(b ^ c, 7)

// Words `first` to first + total of a slab's stream, to lines of n words that are `pitch` words apart: stored, or
// (how 1, 2) joined by and, or to what is there. A thread makes a block of 8 words.
extern "C" __global__ void __launch_bounds__(256)
keystream(u64 key0, u64 key1, u64 key2, u64 key3, u32 plane, u64 slab, u64 first, u64 total, u32 n, u32 pitch,
          i32 how, u64* words) {
    u64 block = first / 8 + (u64)blockIdx.x * 256 + threadIdx.x;
    if (block * 8 >= first + total) return;
    u32 start[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u, (u32)key0, (u32)(key0 >> 32),
                     (u32)key1, (u32)(key1 >> 32), (u32)key2, (u32)(key2 >> 32), (u32)key3, (u32)(key3 >> 32),
                     (u32)block, plane, (u32)slab, (u32)(slab >> 32)};
    u32 x[16];
#pragma unroll
    for (int i = 0; i < 16; i++) x[i] = start[i];
#pragma unroll
    for (int round = 0; round < 10; round++) {
        QUARTER(x[0], x[4], x[8], x[12]);
        QUARTER(x[1], x[5], x[9], x[13]);
        QUARTER(x[2], x[6], x[10], x[14]);
        QUARTER(x[3], x[7], x[11], x[15]);
        QUARTER(x[0], x[5], x[10], x[15]);
        QUARTER(x[1], x[6], x[11], x[12]);
        QUARTER(x[2], x[7], x[8], x[13]);
        QUARTER(x[3], x[4], x[9], x[14]);
    }
#pragma unroll
    for (int i = 0; i < 16; i++) x[i] += start[i];
    i64 place = (i64)(block * 8 - first);  // of this block's first word among those that are wanted
    if (how == 0 && pitch == n && place >= 0 && place % 2 == 0 && place + 8 <= (i64)total) {
        uint4* there = (uint4*)(words + place);
#pragma unroll
        for (int i = 0; i < 4; i++) there[i] = make_uint4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
        return;
    }
    i64 from = place < 0 ? 0 : place;
    u64 line = (u64)from / n;
    u32 j = (u32)((u64)from - line * n);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (place + i < 0 || place + i >= (i64)total) continue;
        u64 word = (u64)x[2 * i + 1] << 32 | x[2 * i], *there = words + line * pitch + j;
        *there = how == 0 ? word : how == 1 ? *there & word : *there | word;
        if (++j == n) {
            j = 0;
            line++;
        }
    }
}

// Words of tiles, each joined with its tile's word of `bits`: how 0 turns over, 1 leaves only the bits of these rows.
extern "C" __global__ void __launch_bounds__(256)
join_bits(u64* words, u32 pitch, const u64* bits, i32 how) {
    u64 own = bits[blockIdx.x];
    u64* line = words + (u64)blockIdx.x * pitch;
    for (u32 j = threadIdx.x; j < pitch; j += 256) line[j] = how == 0 ? line[j] ^ own : line[j] & own;
}

// Words for rows that begin `skip` rows into the first tile, 0 < skip < 64; there is one tile more to read.
extern "C" __global__ void __launch_bounds__(256)
shift_words(const u64* words, u32 pitch, i32 skip, u64* shifted) {
    const u64* line = words + (u64)blockIdx.x * pitch;
    for (u32 j = threadIdx.x; j < pitch; j += 256)
        shifted[(u64)blockIdx.x * pitch + j] = line[j] >> skip | line[pitch + j] << (64 - skip);
}

// ---- sums

// Add a sum of digits to the rado and column that it belongs to.
__device__ __forceinline__ void add_sum(u64* totals, i32 n_columns, i64 rado, i32 from, i32 here, i32 line, i32 sum) {
    i32 column = line / 3, place = line - 3 * column;
    if (column < here && sum) atomicAdd(&totals[rado * n_columns + from + column], (u64)((i64)sum * (1 << (8 * place))));
}

// By the matrix unit: rados times lines, over the rows. A block has some tiles, RADOS rados and a panel.
template <int GROUPS>
__device__ void sum_tiles(const u8* lines, i64 panel_bytes, const u64* words, u32 pitch, i64 n_tiles, i64 block_tiles,
                          i32 n_rados, i32 n_columns, i32 width, u64* totals) {
#if HAS_MATRIX_UNIT
    const int line_bytes = GROUPS * 512, stage_bytes = STAGE_TILES * (line_bytes + RADOS * 8);
    u8* shared = dynamic_shared();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quad = lane & 3;
    i64 first = (i64)blockIdx.x * block_tiles, last = first + block_tiles < n_tiles ? first + block_tiles : n_tiles;
    i32 rado = blockIdx.y * RADOS;
    lines += blockIdx.z * panel_bytes;
    bool busy = rado + warp * HEIGHT * 16 < n_rados;
    i32 sums[HEIGHT][GROUPS][4];
#pragma unroll
    for (int m = 0; m < HEIGHT; m++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[m][g][i] = 0;

    auto load = [&](i64 tile, int stage) {
        u8* target = shared + stage * stage_bytes;
        i64 left = last - tile;
        int count = left < 0 ? 0 : left < STAGE_TILES ? (int)left : STAGE_TILES;
        const u8* source = lines + tile * line_bytes;
        for (int i = threadIdx.x; i < count * (line_bytes / 16); i += WARPS * 32)
            copy_later(target + 16 * i, source + 16 * i);
        target += STAGE_TILES * line_bytes;
        for (int i = threadIdx.x; i < count * (RADOS / 2); i += WARPS * 32) {
            int k = i / (RADOS / 2), j = 2 * (i % (RADOS / 2));
            if (rado + j < (i32)pitch) copy_later(target + 16 * i, (const u8*)(words + (tile + k) * pitch + rado + j));
        }
        end_of_copies();
    };

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) load(first + stage * STAGE_TILES, stage);
    int stage = 0;
    for (i64 tile = first; tile < last; tile += STAGE_TILES) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();  // what was copied is there for all, and nobody reads the stage before any more
        load(tile + (STAGES - 1) * STAGE_TILES, stage == 0 ? STAGES - 1 : stage - 1);
        const u8* here = shared + stage * stage_bytes;
        const u32* halves = (const u32*)(here + STAGE_TILES * line_bytes) + 2 * warp * HEIGHT * 16;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        if (!busy) continue;
#pragma unroll
        for (int k = 0; k < STAGE_TILES; k++) {
            if (tile + k >= last) break;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 a[HEIGHT][4];
#pragma unroll
                for (int m = 0; m < HEIGHT; m++) {
                    u32 upper = halves[2 * (k * RADOS + m * 16 + group) + half] >> (2 * quad);
                    u32 lower = halves[2 * (k * RADOS + m * 16 + group + 8) + half] >> (2 * quad);
                    a[m][0] = upper & BITS;
                    a[m][1] = lower & BITS;
                    a[m][2] = upper >> 1 & BITS;
                    a[m][3] = lower >> 1 & BITS;
                }
                const uint2* digits = (const uint2*)(here + k * line_bytes + 256 * half) + lane;
#pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    uint2 b = digits[64 * g];
#pragma unroll
                    for (int m = 0; m < HEIGHT; m++) multiply_add(sums[m][g], a[m], b.x, b.y);
                }
            }
        }
    }
    if (!busy) return;
    i32 from = blockIdx.z * width, here = n_columns - from < width ? n_columns - from : width;
#pragma unroll
    for (int m = 0; m < HEIGHT; m++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            i32 j = rado + (warp * HEIGHT + m) * 16 + group + 8 * (i >> 1);
            if (j >= n_rados) continue;
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                add_sum(totals, n_columns, j, from, here, 8 * g + 2 * quad + (i & 1), sums[m][g][i]);
        }
    }
#endif
}

#define SUM_KERNEL(GROUPS)                                                                                       \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS)                                                  \
    sum_tiles_##GROUPS(const u8* lines, i64 panel_bytes, const u64* words, u32 pitch, i64 n_tiles,               \
                       i64 block_tiles, i32 n_rados, i32 n_columns, i32 width, u64* totals) {                    \
        sum_tiles<GROUPS>(lines, panel_bytes, words, pitch, n_tiles, block_tiles, n_rados, n_columns, width, totals); \
    }
// With 12 there are more sums than registers.
SUM_KERNEL(2)
SUM_KERNEL(4)
SUM_KERNEL(6)
SUM_KERNEL(8)
SUM_KERNEL(10)
SUM_KERNEL(11)

// Without it, by dot products of four bytes. A thread has a rado and DOT_GROUPS groups of lines of a panel.
extern "C" __global__ void __launch_bounds__(DOT_THREADS)
sum_dots(const u8* lines, i64 panel_bytes, i32 tile_bytes, i32 panel_parts, const u64* words, u32 pitch, i64 n_tiles,
         i64 block_tiles, i32 n_rados, i32 n_columns, i32 width, u64* totals) {
    uint2* digits = (uint2*)dynamic_shared();  // of the groups of one tile
    i32 panel = blockIdx.z / panel_parts, group = (blockIdx.z - panel * panel_parts) * DOT_GROUPS;
    i32 groups = tile_bytes / 512 - group < DOT_GROUPS ? tile_bytes / 512 - group : DOT_GROUPS;
    i64 first = (i64)blockIdx.x * block_tiles, last = first + block_tiles < n_tiles ? first + block_tiles : n_tiles;
    i32 j = blockIdx.y * DOT_THREADS + threadIdx.x;
    lines += panel * panel_bytes;
    i32 sums[DOT_GROUPS][8];
#pragma unroll
    for (int g = 0; g < DOT_GROUPS; g++)
#pragma unroll
        for (int n = 0; n < 8; n++) sums[g][n] = 0;
    for (i64 tile = first; tile < last; tile++) {
        __syncthreads();
        const uint2* source = (const uint2*)(lines + tile * tile_bytes + 512 * group);
        for (i32 i = threadIdx.x; i < 64 * groups; i += DOT_THREADS) digits[i] = source[i];
        __syncthreads();
        u64 word = j < n_rados ? words[tile * pitch + j] : 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            u32 bits = (u32)(word >> (32 * half));
#pragma unroll
            for (int quad = 0; quad < 4; quad++) {
                u32 a = bits >> (2 * quad) & BITS, b = bits >> (2 * quad + 1) & BITS;
#pragma unroll
                for (int g = 0; g < DOT_GROUPS; g++) {
                    if (g >= groups) break;
#pragma unroll
                    for (int n = 0; n < 8; n++) {
                        uint2 d = digits[64 * g + 32 * half + 4 * n + quad];
                        sums[g][n] = __dp4a((i32)b, (i32)d.y, __dp4a((i32)a, (i32)d.x, sums[g][n]));
                    }
                }
            }
        }
    }
    if (j >= n_rados) return;
    i32 from = panel * width, here = n_columns - from < width ? n_columns - from : width;
#pragma unroll
    for (int g = 0; g < DOT_GROUPS; g++)
#pragma unroll
        for (int n = 0; n < 8; n++)
            if (g < groups) add_sum(totals, n_columns, j, from, here, 8 * (group + g) + n, sums[g][n]);
}
