// What CUDA has of its own, by the names that the kernels use. A test header has the same names for g++.

#define HAS_MATRIX_UNIT (__CUDA_ARCH__ >= 800)

__device__ __forceinline__ unsigned char* dynamic_shared() {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return shared_bytes;
}

__device__ __forceinline__ long long warp_sum(long long x) {
#pragma unroll
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

#if HAS_MATRIX_UNIT

// Copy 16 bytes to shared memory while the thread goes on.
__device__ __forceinline__ void copy_later(unsigned char* target, const unsigned char* source) {
    unsigned int there = (unsigned int)__cvta_generic_to_shared(target);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(source) : "memory");
}

// Copies come in groups; a wait leaves the last PENDING groups on their way.
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// 16 x 32 bytes times 32 x 8 bytes, added to 16 x 8 sums; each thread of a warp has its share of all three.
__device__ __forceinline__ void multiply_add(int* sums, const unsigned int* a, unsigned int b0, unsigned int b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
