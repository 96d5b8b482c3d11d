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
