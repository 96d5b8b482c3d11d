// Exact statistics of columns: extremes, and sums and sums of squares in digits of 21 bits.
//
// A block has a run of rows and a panel of up to SURVEY_THREADS columns; a thread has one column, and every so many rows.
// What blocks find is put together by atomic operations, in any order.

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

// A float64 as a whole number, in the same order; and back, in the engine.
__device__ __forceinline__ u64 in_order(double x) {
    i64 bits = __double_as_longlong(x);
    return bits < 0 ? ~(u64)bits : (u64)bits | 1ull << 63;
}

// The least and the largest of clipped values, as ordered numbers, and one that is not 0 if a value is not finite: 3 of
// a column, joined with what is there.
template <class T>
__device__ void find_extremes(const T* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,
                              const double* high, u64* extremes) {
    Place place = survey_place(n_rows, n_columns, block_rows);
    double* shared = (double*)dynamic_shared();
    i32 k = blockIdx.y * SURVEY_THREADS + place.column;
    double least = 0.0, most = 0.0, flaws = 0.0;
    bool any = false;
    if (place.there) {
        double lowest = low[k], highest = high[k];
        for (i64 row = place.first; row < place.last; row += place.step) {
            double x = (double)values[row * n_columns + k];
            flaws += x - x;
            x = x > lowest ? x : lowest;
            x = x < highest ? x : highest;
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
    atomicMin(&extremes[3 * k], in_order(least));
    atomicMax(&extremes[3 * k + 1], in_order(most));
    if (flaws != 0.0) atomicMax(&extremes[3 * k + 2], (u64)1);
}

// The next two digits, and what is left for others.
__device__ __forceinline__ void next_digits(double& rest, i32* digits) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        double shifted = rest + 6755399441055744.0;  // 1.5 * 2^52: the nearest whole number is in the lower bits
        digits[i] = __double2loint(shifted);
        rest = (rest - (shifted - 6755399441055744.0)) * DIGIT;
    }
}

// Sums of digits. A column's values are below 2^20 in magnitude after they are multiplied by its factor, a power of
// two; digits are whole numbers of either sign, at most 2^20 in magnitude: each is the nearest one, and the rest goes
// on to the next. All is exact. A value that has more bits goes to a list. Of 2^18 rows a block's sums are at most 2^60,
// and are added to what is there in two parts: the lower 32 bits, and the rest.
template <class T>
__device__ void sum_digits(const T* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,
                           const double* high, const double* factors, u64* totals, u32* n_odd, u32 most_odd,
                           double* odd_values, i32* odd_columns) {
    Place place = survey_place(n_rows, n_columns, block_rows);
    i64* shared = (i64*)dynamic_shared();
    i32 k = blockIdx.y * SURVEY_THREADS + place.column;
    i64 sums[SUMS], mixed[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++) sums[i] = mixed[i] = 0;
    if (place.there) {
        double lowest = low[k], highest = high[k], factor = factors[k];
        for (i64 row = place.first; row < place.last; row += place.step) {
            double x = (double)values[row * n_columns + k];
            x = x > lowest ? x : lowest;
            x = x < highest ? x : highest;
            double rest = x * factor;
            bool tiny = x != 0.0 && fabs(rest) < LEAST_DIGIT;
            i32 digits[4];
            next_digits(rest, digits);
            if (rest == 0.0 && !tiny) {  // nearly all float32 values
                sums[0] += digits[0];
                sums[1] += digits[1];
                sums[4] += (i64)digits[0] * digits[0];
                mixed[5] += (i64)digits[0] * digits[1];
                sums[6] += (i64)digits[1] * digits[1];
                continue;
            }
            next_digits(rest, digits + 2);
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
                sums[4 + 2 * i] += (i64)digits[i] * digits[i];
#pragma unroll
                for (int j = i + 1; j < 4; j++) mixed[4 + i + j] += (i64)digits[i] * digits[j];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < SUMS; i++) shared[SUMS * threadIdx.x + i] = sums[i] += 2 * mixed[i];
    __syncthreads();
    if ((i32)threadIdx.x >= place.width) return;
    for (i32 i = threadIdx.x + place.width; i < place.step * place.width; i += place.width)
#pragma unroll
        for (int s = 0; s < SUMS; s++) sums[s] += shared[SUMS * i + s];
#pragma unroll
    for (int s = 0; s < SUMS; s++) {
        atomicAdd(&totals[2 * (SUMS * (i64)k + s)], (u64)(sums[s] >> 32));
        atomicAdd(&totals[2 * (SUMS * (i64)k + s) + 1], (u64)sums[s] & 0xffffffffull);
    }
}

#define SURVEY_KERNELS(TYPE, NAME)                                                                                    \
    extern "C" __global__ void __launch_bounds__(SURVEY_THREADS)                                                      \
    extremes_##NAME(const TYPE* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,                 \
                    const double* high, u64* extremes) {                                                              \
        find_extremes(values, n_rows, n_columns, block_rows, low, high, extremes);                                    \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(SURVEY_THREADS)                                                      \
    digits_##NAME(const TYPE* values, i64 n_rows, i32 n_columns, i64 block_rows, const double* low,                   \
                  const double* high, const double* factors, u64* totals, u32* n_odd, u32 most_odd,                   \
                  double* odd_values, i32* odd_columns) {                                                             \
        sum_digits(values, n_rows, n_columns, block_rows, low, high, factors, totals, n_odd, most_odd, odd_values,    \
                   odd_columns);                                                                                      \
    }
SURVEY_KERNELS(float, float32)
SURVEY_KERNELS(double, float64)

// ---- labels: which values there are, as 64 bits each, and the mark of each one's row

#define PLACES 64               // for different values
#define NONE 0x7ff4a5a5a5a5a5a5ull  // stands for no value; a label of these bits is one value too many
#define LABEL_THREADS 256

// The place of a value in a table that others fill at the same time, or PLACES where there is none left.
__device__ __forceinline__ i32 place_of(u64* table, u64 value) {
    i32 first = (i32)((value ^ value >> 32 ^ value >> 52) % PLACES);
    for (i32 i = 0; i < PLACES; i++) {
        i32 place = (first + i) % PLACES;
        u64 there = table[place];
        if (there == NONE) there = atomicCAS(&table[place], NONE, value);
        if (there == NONE || there == value) return place;
    }
    return PLACES;
}

template <class T>
__device__ __forceinline__ u64 as_bits(T value) { return (u64)(i64)value; }
template <>
__device__ __forceinline__ u64 as_bits(double value) { return (u64)__double_as_longlong(value); }
template <>
__device__ __forceinline__ u64 as_bits(float value) { return (u64)__double_as_longlong((double)value); }

// `found` has PLACES values, and then a number that is not 0 where there are more.
template <class T>
__device__ void find_labels(const T* labels, i64 n_rows, u64* found) {
    u64* table = (u64*)dynamic_shared();
    for (i32 i = threadIdx.x; i < PLACES; i += LABEL_THREADS) table[i] = NONE;
    __syncthreads();
    u64 last = NONE;
    for (i64 row = (i64)blockIdx.x * LABEL_THREADS + threadIdx.x; row < n_rows; row += (i64)gridDim.x * LABEL_THREADS) {
        u64 value = as_bits(labels[row]);
        if (value == last && value != NONE) continue;
        last = value;
        if (value == NONE || place_of(table, value) == PLACES) {
            atomicMax(&found[PLACES], (u64)1);
            break;
        }
    }
    __syncthreads();
    for (i32 i = threadIdx.x; i < PLACES; i += LABEL_THREADS)
        if (table[i] != NONE && place_of(found, table[i]) == PLACES) atomicMax(&found[PLACES], (u64)1);
}

// The mark of each row, by the marks of at most PLACES values.
template <class T>
__device__ void mark_labels(const T* labels, i64 n_rows, i32 n_values, const u64* values, const i8* marks, i8* marked) {
    u64* known = (u64*)dynamic_shared();
    i8* their = (i8*)(known + PLACES);
    for (i32 i = threadIdx.x; i < n_values; i += LABEL_THREADS) known[i] = values[i], their[i] = marks[i];
    __syncthreads();
    for (i64 row = (i64)blockIdx.x * LABEL_THREADS + threadIdx.x; row < n_rows; row += (i64)gridDim.x * LABEL_THREADS) {
        u64 value = as_bits(labels[row]);
        i8 mark = 0;
        for (i32 i = 0; i < n_values; i++) mark = value == known[i] ? their[i] : mark;
        marked[row] = mark;
    }
}

#define LABEL_KERNELS(TYPE, NAME)                                                                                     \
    extern "C" __global__ void __launch_bounds__(LABEL_THREADS)                                                       \
    find_labels_##NAME(const TYPE* labels, i64 n_rows, u64* found) {                                                  \
        find_labels(labels, n_rows, found);                                                                           \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(LABEL_THREADS)                                                       \
    mark_labels_##NAME(const TYPE* labels, i64 n_rows, i32 n_values, const u64* values, const i8* marks, i8* marked) { \
        mark_labels(labels, n_rows, n_values, values, marks, marked);                                                 \
    }
LABEL_KERNELS(i8, int8)
LABEL_KERNELS(u8, uint8)
LABEL_KERNELS(short, int16)
LABEL_KERNELS(i32, int32)
LABEL_KERNELS(i64, int64)
LABEL_KERNELS(float, float32)
LABEL_KERNELS(double, float64)
