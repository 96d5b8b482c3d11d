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
