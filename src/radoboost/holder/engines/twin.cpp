#include "/tmp/wt-claims/tests/cuda_shim.hpp"
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

// A block has a tile and a panel. Columns from n_features on are the constant, whose integer is the sign times 2^22.
template <class T>
__device__ void snap_tile(const T* values, const i8* signs, i64 n_rows, i32 n_features, i32 n_columns, i32 width,
                          i32 tile_bytes, const double* constants, i32 bounded, u8* lines, u64* clipped) {
    T* cells = (T*)dynamic_shared();
    i8* marks = (i8*)(cells + TILE * width);
    u32* counts = (u32*)(marks + TILE);
    i64 first = (i64)blockIdx.x * TILE;
    i32 count = n_rows - first < TILE ? (i32)(n_rows - first) : TILE;
    i32 from = blockIdx.y * width, here = n_columns - from < width ? n_columns - from : width;
    i32 features = n_features - from < here ? n_features - from : here;
    const T* source = values + first * n_features + from;
    if (features == n_features) {
        for (i32 i = threadIdx.x; i < count * features; i += SNAP_THREADS) cells[i] = source[i];
    } else {
        for (i32 row = threadIdx.x >> 5; row < count; row += SNAP_THREADS / 32)
            for (i32 k = threadIdx.x & 31; k < features; k += 32)
                cells[row * features + k] = source[(i64)row * n_features + k];
    }
    for (i32 i = threadIdx.x; i < count; i += SNAP_THREADS) marks[i] = signs[first + i];
    for (i32 i = threadIdx.x; i < width; i += SNAP_THREADS) counts[i] = 0;
    __syncthreads();
    lines += ((i64)blockIdx.y * gridDim.x + blockIdx.x) * tile_bytes;
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

// The row kernels of the mechanism `moments`: the operations of reference_rows, in its order, one thread a row.
//
// Rows are columns first: the number of row i in column k is at k * n + i. Nothing is fused (--fmad=false).

#define ROW_THREADS 256
#define LEAST_NORM 0x1p-500
#define SUM_COLUMNS 16  // a block of sums of products has so many columns on both sides, and takes rows in lots of
#define SUM_ROWS 64

__device__ __forceinline__ double scaled(double x, double low, double high) {
    x = x > low ? x : low;
    x = x < high ? x : high;
    return ((x - low) * 2.0) / (high - low) - 1.0;
}

template <class T>
__device__ void sphere_row(const T* values, i64 row_step, i64 column_step, const i8* signs, i64 n, i32 n_features,
                           i32 n_columns, const double* low, const double* high, double constant, double grid,
                           i32* rows, u8* good) {
    i64 i = (i64)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (i >= n) return;
    values += i * row_step;
    double squares = 0.0, flaws = 0.0;
    for (i32 k = 0; k < n_columns; k++) {
        double x = constant;
        if (k < n_features) {
            x = (double)values[k * column_step];
            flaws += x - x;  // stays 0 unless x is not finite
            x = scaled(x, low[k], high[k]);
        }
        squares += x * x;
    }
    bool fine = signs[i] != 0 && flaws == 0.0;
    double norm = __dsqrt_rn(squares), factor = grid / (norm > LEAST_NORM ? norm : LEAST_NORM);
    squares = 0.0;
    for (i32 k = 0; k < n_columns; k++) {
        double x = k < n_features ? scaled((double)values[k * column_step], low[k], high[k]) : constant;
        x = trunc(x * factor);
        squares += x * x;
        rows[k * n + i] = fabs(x) <= grid ? (i32)x : 0;
    }
    if (!(fine && squares <= grid * grid))
        for (i32 k = 0; k < n_columns; k++) rows[k * n + i] = 0;
    good[i] = fine;
}

#define SPHERE_KERNEL(NAME, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS)                                                       \
    NAME(const T* values, i64 row_step, i64 column_step, const i8* signs, i64 n, i32 n_features, i32 n_columns,     \
         const double* low, const double* high, double constant, double grid, i32* rows, u8* good) {                \
        sphere_row(values, row_step, column_step, signs, n, n_features, n_columns, low, high, constant, grid, rows, \
                   good);                                                                                           \
    }
SPHERE_KERNEL(sphere_float32, float)
SPHERE_KERNEL(sphere_float64, double)

// Images of rows under `a`, a row for each column of the rows; `images` holds d numbers for each row meanwhile.
template <class T>
__device__ void whiten_row(const T* rows, i64 n, i32 d, const double* a, const i8* signs, double grid, double* images,
                           i32* edges) {
    i64 i = (i64)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (i >= n) return;
    double squares = 0.0;
    for (i32 j = 0; j < d; j += 4) {
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        for (i32 k = 0; k < d; k++) {
            double x = (double)rows[k * n + i];
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (j + s < d) sums[s] += a[(i64)k * d + j + s] * x;
        }
#pragma unroll
        for (int s = 0; s < 4; s++) {
            if (j + s >= d) break;
            images[(j + s) * n + i] = sums[s];
            squares += sums[s] * sums[s];
        }
    }
    double factor = squares > 0.0 ? grid / __dsqrt_rn(squares) : 0.0;
    squares = 0.0;
    for (i32 j = 0; j < d; j++) {
        double x = trunc(images[j * n + i] * factor);
        squares += x * x;
        edges[j * n + i] = fabs(x) <= grid ? (i32)x * signs[i] : 0;
    }
    if (!(squares <= grid * grid))
        for (i32 j = 0; j < d; j++) edges[j * n + i] = 0;
}

#define WHITEN_KERNEL(NAME, T)                                                                                    \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS)                                                     \
    NAME(const T* rows, i64 n, i32 d, const double* a, const i8* signs, double grid, double* images, i32* edges) { \
        whiten_row(rows, n, d, a, signs, grid, images, edges);                                                    \
    }
WHITEN_KERNEL(whiten_int16, short)
WHITEN_KERNEL(whiten_int32, i32)

// exp of docs/exactness.md.
__device__ double exp_of(double x) {
    const double series[14] = {0x1.6124613a86d09p-33, 0x1.1eed8eff8d898p-29, 0x1.ae64567f544e4p-26,
                               0x1.27e4fb7789f5cp-22, 0x1.71de3a556c734p-19, 0x1.a01a01a01a01ap-16,
                               0x1.a01a01a01a01ap-13, 0x1.6c16c16c16c17p-10, 0x1.1111111111111p-7,
                               0x1.5555555555555p-5,  0x1.5555555555555p-3,  0x1p-1,
                               0x1p+0,                0x1p+0};
    x = x < 64.0 ? x : 64.0;
    x = x > -64.0 ? x : -64.0;
    double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52, k = shifted - 0x1.8p+52;
    double rest = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33, p = series[0];
#pragma unroll
    for (int i = 1; i < 14; i++) p = p * rest + series[i];
    return __longlong_as_double((i64)((u64)__double_as_longlong(p) + ((u64)__double_as_longlong(shifted) << 52)));
}

// The sum of rows under logistic weights; a row longer than `most` under its weight gives nothing.
template <class T>
__device__ void tilt_row(const T* rows, i64 n, i32 d, const double* theta, double grid, double cap, double most,
                         u64* totals) {
    i64 i = (i64)blockIdx.x * ROW_THREADS + threadIdx.x;
    bool there = i < n;
    float weight = 0.0f;
    if (there) {
        double score = 0.0, squares = 0.0;
        for (i32 k = 0; k < d; k++) score += (double)rows[k * n + i] * theta[k];
        double power = 1.0 / (1.0 + exp_of(score * (1.0 / grid)));
        weight = (float)(power < cap ? power : cap);
        for (i32 k = 0; k < d; k++) {
            double part = (double)truncf((float)rows[k * n + i] * weight);
            squares += part * part;
        }
        there = squares <= most * most;
    }
    for (i32 k = 0; k < d; k++) {
        i64 part = warp_sum(there ? (i64)truncf((float)rows[k * n + i] * weight) : 0);
        if (threadIdx.x % 32 == 0 && part) atomicAdd(&totals[k], (u64)part);
    }
}

#define TILT_KERNEL(NAME, T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS)                                                    \
    NAME(const T* rows, i64 n, i32 d, const double* theta, double grid, double cap, double most, u64* totals) {  \
        tilt_row(rows, n, d, theta, grid, cap, most, totals);                                                    \
    }
TILT_KERNEL(tilt_int16, short)
TILT_KERNEL(tilt_int32, i32)

// Sums of products of columns, whole numbers up to 2^15, for a square of them and some rows; column sums too.
template <class T>
__device__ void add_products(const T* rows, i64 n, i32 d, i64 block_rows, u64* products, u64* sums) {
    i32* left = (i32*)dynamic_shared();
    i32* right = left + SUM_COLUMNS * (SUM_ROWS + 1);
    i32 x = threadIdx.x % SUM_COLUMNS, y = threadIdx.x / SUM_COLUMNS;
    i32 j = blockIdx.y * SUM_COLUMNS, k = blockIdx.z * SUM_COLUMNS;
    if (k < j) return;  // the other side of the diagonal is the same
    i64 first = blockIdx.x * block_rows, last = first + block_rows < n ? first + block_rows : n, total = 0, sum = 0;
    for (i64 start = first; start < last; start += SUM_ROWS) {
        __syncthreads();
        for (i32 i = threadIdx.x; i < SUM_COLUMNS * SUM_ROWS; i += SUM_COLUMNS * SUM_COLUMNS) {
            i32 column = i / SUM_ROWS, row = i % SUM_ROWS, place = column * (SUM_ROWS + 1) + row;
            bool within = start + row < last;
            left[place] = within && j + column < d ? rows[(j + column) * n + start + row] : 0;
            right[place] = within && k + column < d ? rows[(k + column) * n + start + row] : 0;
        }
        __syncthreads();
        for (i32 i = 0; i < SUM_ROWS; i++) {
            total += (i64)left[y * (SUM_ROWS + 1) + i] * right[x * (SUM_ROWS + 1) + i];
            if (j == k && y == 0) sum += right[x * (SUM_ROWS + 1) + i];
        }
    }
    if (j + y >= d || k + x >= d) return;
    atomicAdd(&products[(i64)(j + y) * d + k + x], (u64)total);
    if (j != k) atomicAdd(&products[(i64)(k + x) * d + j + y], (u64)total);
    if (j == k && y == 0) atomicAdd(&sums[k + x], (u64)sum);
}

#define PRODUCTS_KERNEL(NAME, T)                                                                \
    extern "C" __global__ void __launch_bounds__(SUM_COLUMNS* SUM_COLUMNS)                      \
    NAME(const T* rows, i64 n, i32 d, i64 block_rows, u64* products, u64* sums) {               \
        add_products(rows, n, d, block_rows, products, sums);                                   \
    }
PRODUCTS_KERNEL(products_int16, short)
PRODUCTS_KERNEL(products_int32, i32)

// Exact statistics of columns: extremes, and sums and sums of squares in digits of 21 bits.
//
// A block has a run of rows and a panel of up to SURVEY_THREADS columns; a thread has one column, and every so many rows.
// What a block finds goes to places of its own, which are put together elsewhere.

#define SURVEY_THREADS 256
#define DIGIT 0x1p21
#define LEAST_DIGIT 0x1p-70  // a value so far below its column's first digit has bits below the last one, if any
#define SUMS 11              // of a column: of 4 digits, and of 7 kinds of their products, by the digits' places

struct Place {
    i32 column, width, step;  // the thread's column in the panel, which has so many, and the rows that it skips
    i64 first, last;          // its rows
    bool there;
};

__device__ __forceinline__ Place survey_place(i64 n_rows, i32 n_columns, i64 block_rows) {
    Place place;
    i32 from = blockIdx.y * SURVEY_THREADS;
    place.width = n_columns - from < SURVEY_THREADS ? n_columns - from : SURVEY_THREADS;
    place.step = SURVEY_THREADS / place.width;
    place.column = threadIdx.x % place.width;
    place.there = (i32)threadIdx.x < place.step * place.width;
    i64 start = blockIdx.x * block_rows;
    place.first = start + threadIdx.x / place.width;
    place.last = start + block_rows < n_rows ? start + block_rows : n_rows;
    return place;
}

// The least and the largest of clipped values, and a number that is 0 unless one is not finite: 3 numbers a column.
template <class T>
__device__ void find_extremes(const T* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,
                              const double* high, double* found) {
    Place place = survey_place(n_rows, n_columns, block_rows);
    double* shared = (double*)dynamic_shared();
    i32 k = blockIdx.y * SURVEY_THREADS + place.column;
    double least = 0.0, most = 0.0, flaws = 0.0;
    bool any = false;
    if (place.there) {
        for (i64 row = place.first; row < place.last; row += place.step) {
            double x = (double)values[row * n_columns + k];
            flaws += x - x;
            x = x > low[k] ? x : low[k];
            x = x < high[k] ? x : high[k];
            least = any && least < x ? least : x;
            most = any && most > x ? most : x;
            any = true;
        }
    }
    shared[4 * threadIdx.x] = least;
    shared[4 * threadIdx.x + 1] = most;
    shared[4 * threadIdx.x + 2] = flaws;
    shared[4 * threadIdx.x + 3] = any;
    __syncthreads();
    if ((i32)threadIdx.x >= place.width) return;
    for (i32 i = threadIdx.x + place.width; i < place.step * place.width; i += place.width) {
        const double* other = shared + 4 * i;
        if (other[3] == 0.0) continue;  // the first thread of a column has a row, if any has
        least = least < other[0] ? least : other[0];
        most = most > other[1] ? most : other[1];
        flaws += other[2];
    }
    found += 3 * ((i64)blockIdx.x * n_columns + k);
    found[0] = least;
    found[1] = most;
    found[2] = flaws;
}

// Sums of digits. A column's values are below 2^20 in magnitude after they are multiplied by its factor, a power of
// two; digits are whole numbers, all of the value's sign, and exact. A value that has more bits goes to a list.
template <class T>
__device__ void sum_digits(const T* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,
                           const double* high, const double* factors, i64* found, u32* n_odd, u32 most_odd,
                           double* odd_values, i32* odd_columns) {
    Place place = survey_place(n_rows, n_columns, block_rows);
    i64* shared = (i64*)dynamic_shared();
    i32 k = blockIdx.y * SURVEY_THREADS + place.column;
    i64 sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = 0;
    if (place.there) {
        for (i64 row = place.first; row < place.last; row += place.step) {
            double x = (double)values[row * n_columns + k];
            x = x > low[k] ? x : low[k];
            x = x < high[k] ? x : high[k];
            double rest = x * factors[k];
            bool tiny = x != 0.0 && fabs(rest) < LEAST_DIGIT;
            i64 digits[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                double whole = trunc(rest);
                digits[i] = (i64)whole;
                rest = (rest - whole) * DIGIT;
            }
            if (tiny || rest != 0.0) {
                u32 there = atomicAdd(n_odd, 1u);
                if (there < most_odd) {
                    odd_values[there] = x;
                    odd_columns[there] = k;
                }
                continue;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sums[i] += digits[i];
#pragma unroll
                for (int j = 0; j < 4; j++) sums[4 + i + j] += digits[i] * digits[j];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < SUMS; i++) shared[SUMS * threadIdx.x + i] = sums[i];
    __syncthreads();
    if ((i32)threadIdx.x >= place.width) return;
    for (i32 i = threadIdx.x + place.width; i < place.step * place.width; i += place.width)
#pragma unroll
        for (int s = 0; s < SUMS; s++) sums[s] += shared[SUMS * i + s];
#pragma unroll
    for (int s = 0; s < SUMS; s++) found[SUMS * ((i64)blockIdx.x * n_columns + k) + s] = sums[s];
}

extern "C" __global__ void __launch_bounds__(SURVEY_THREADS)
extremes_float32(const float* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,
                 const double* high, double* found) {
    find_extremes(values, n_rows, n_columns, block_rows, low, high, found);
}

extern "C" __global__ void __launch_bounds__(SURVEY_THREADS)
extremes_float64(const double* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,
                 const double* high, double* found) {
    find_extremes(values, n_rows, n_columns, block_rows, low, high, found);
}

extern "C" __global__ void __launch_bounds__(SURVEY_THREADS)
digits_float32(const float* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low, const double* high,
               const double* factors, i64* found, u32* n_odd, u32 most_odd, double* odd_values, i32* odd_columns) {
    sum_digits(values, n_rows, n_columns, block_rows, low, high, factors, found, n_odd, most_odd, odd_values,
               odd_columns);
}

extern "C" __global__ void __launch_bounds__(SURVEY_THREADS)
digits_float64(const double* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low, const double* high,
               const double* factors, i64* found, u32* n_odd, u32 most_odd, double* odd_values, i32* odd_columns) {
    sum_digits(values, n_rows, n_columns, block_rows, low, high, factors, found, n_odd, most_odd, odd_values,
               odd_columns);
}


extern "C" int launch(const char* name, const int* grid, int threads, void** arguments) {
    if (!std::strcmp(name, "snap_float32")) return launch_kernel(snap_float32, grid, threads, arguments), 0;
    if (!std::strcmp(name, "snap_float64")) return launch_kernel(snap_float64, grid, threads, arguments), 0;
    if (!std::strcmp(name, "pack_rows")) return launch_kernel(pack_rows, grid, threads, arguments), 0;
    if (!std::strcmp(name, "keystream")) return launch_kernel(keystream, grid, threads, arguments), 0;
    if (!std::strcmp(name, "join_bits")) return launch_kernel(join_bits, grid, threads, arguments), 0;
    if (!std::strcmp(name, "shift_words")) return launch_kernel(shift_words, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_dots")) return launch_kernel(sum_dots, grid, threads, arguments), 0;
    if (!std::strcmp(name, "extremes_float32")) return launch_kernel(extremes_float32, grid, threads, arguments), 0;
    if (!std::strcmp(name, "extremes_float64")) return launch_kernel(extremes_float64, grid, threads, arguments), 0;
    if (!std::strcmp(name, "digits_float32")) return launch_kernel(digits_float32, grid, threads, arguments), 0;
    if (!std::strcmp(name, "digits_float64")) return launch_kernel(digits_float64, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_tiles_2")) return launch_kernel(sum_tiles_2, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_tiles_4")) return launch_kernel(sum_tiles_4, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_tiles_6")) return launch_kernel(sum_tiles_6, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_tiles_8")) return launch_kernel(sum_tiles_8, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_tiles_10")) return launch_kernel(sum_tiles_10, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sum_tiles_11")) return launch_kernel(sum_tiles_11, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sphere_float32")) return launch_kernel(sphere_float32, grid, threads, arguments), 0;
    if (!std::strcmp(name, "sphere_float64")) return launch_kernel(sphere_float64, grid, threads, arguments), 0;
    if (!std::strcmp(name, "whiten_int16")) return launch_kernel(whiten_int16, grid, threads, arguments), 0;
    if (!std::strcmp(name, "whiten_int32")) return launch_kernel(whiten_int32, grid, threads, arguments), 0;
    if (!std::strcmp(name, "tilt_int16")) return launch_kernel(tilt_int16, grid, threads, arguments), 0;
    if (!std::strcmp(name, "tilt_int32")) return launch_kernel(tilt_int32, grid, threads, arguments), 0;
    if (!std::strcmp(name, "products_int16")) return launch_kernel(products_int16, grid, threads, arguments), 0;
    if (!std::strcmp(name, "products_int32")) return launch_kernel(products_int32, grid, threads, arguments), 0;
    return 1;
}

extern "C" void quotients(const double* a, const double* d, double* q, long n) {
    for (long i = 0; i < n; i++) q[i] = is_extreme(a[i]) ? divide_plainly(a[i], d[i]) : divide(a[i], d[i], 1.0 / d[i]);
}
