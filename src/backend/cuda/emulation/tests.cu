struct Args {
    const unsigned* x;
    unsigned* out;
    unsigned count;
    unsigned width;
};

#define ALL 0xffffffffu
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

__device__ __forceinline__ void add_up(unsigned* sums, const Args& p) {
    sums[threadIdx.x] = p.x[INDEX];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        p.out[blockIdx.x] = sums[0];
    }
}

KERNEL(sum_by_dynamic_memory, Args, 1024) {
    DYNAMIC_SHARED(unsigned, sums);
    add_up(sums, p);
}

KERNEL(sum_by_static_memory, Args, 1024) {
    __shared__ unsigned sums[1024];
    add_up(sums, p);
}

KERNEL(shuffles, Args, 96) {
    const unsigned x = p.x[threadIdx.x], width = p.width;
    const unsigned long long wide = (unsigned long long)x << 32;
    unsigned* out = p.out + 5 * threadIdx.x;
    out[0] = (unsigned)__shfl_xor_sync(ALL, (float)x, 1, width);
    out[1] = (unsigned)__shfl_down_sync(ALL, (int)x, width / 2, width);
    out[2] = __shfl_up_sync(ALL, x, 1, width);
    out[3] = (unsigned)(__shfl_sync(ALL, wide, 1, width) >> 32);
    out[4] = __shfl_sync(ALL, x, threadIdx.x + 3, width);
}

KERNEL(votes, Args, 64) {
    const unsigned x = p.x[threadIdx.x];
    unsigned* out = p.out + 6 * threadIdx.x;
    out[0] = __ballot_sync(ALL, x & 1);
    out[1] = __reduce_add_sync(ALL, x);
    out[2] = __reduce_min_sync(ALL, x);
    out[3] = __reduce_max_sync(ALL, x);
    out[4] = (unsigned)__any_sync(ALL, x == 13) | (unsigned)__all_sync(ALL, x < 1000) << 1;
    out[5] = (unsigned)__popc(__ballot_sync(ALL, x & 1));
}

KERNEL(divergent, Args, 64) {
    unsigned x = p.x[threadIdx.x];
    if (threadIdx.x % 32 < 16) {
        for (unsigned half = 8; half > 0; half /= 2) {
            x += __shfl_xor_sync(0x0000ffffu, x, half);
        }
        x += __shfl_xor_sync(0x0000ffffu, x, 1);
    } else {
        for (unsigned half = 8; half > 0; half /= 2) {
            x = max(x, __shfl_xor_sync(0xffff0000u, x, half));
        }
        __syncwarp(0xffff0000u);
    }
    __syncwarp();
    p.out[threadIdx.x] = x;
}

KERNEL(histogram, Args, 256) {
    __shared__ unsigned counts[10];
    if (threadIdx.x < 10) {
        counts[threadIdx.x] = 0;
        if (blockIdx.x == 0) {
            p.out[threadIdx.x] = 0;
        }
    }
    __syncthreads();
    if (INDEX < p.count) {
        atomicAdd(&counts[p.x[INDEX] % 10], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 10) {
        atomicAdd(&p.out[threadIdx.x], counts[threadIdx.x]);
    }
}

KERNEL(some_return, Args, 64) {
    if (threadIdx.x < 40) {
        __syncthreads();
    }
}

KERNEL(other_barrier, Args, 64) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

KERNEL(mixed_waits, Args, 64) {
    if (threadIdx.x != 5) {
        __syncwarp();
    }
    __syncthreads();
}

KERNEL(lane_returned, Args, 32) {
    if (threadIdx.x == 3) {
        return;
    }
    p.out[threadIdx.x] = __shfl_sync(ALL, threadIdx.x, 0);
}

KERNEL(no_such_lane, Args, 32) {
    p.out[threadIdx.x] = __ballot_sync(ALL, 1);
}

KERNEL(not_in_mask, Args, 32) {
    p.out[threadIdx.x] = __any_sync(1u, 1);
}

KERNEL(other_mask, Args, 32) {
    p.out[threadIdx.x] = __all_sync(threadIdx.x < 8 ? 0xffff00ffu : threadIdx.x < 16 ? 0xff00u : ALL, 1);
}

KERNEL(read_outside, Args, 32) {
    // The last lane reads one that is not there.
    if (threadIdx.x < 8) {
        p.out[threadIdx.x] = __shfl_down_sync(0xffu, threadIdx.x, 1);
    }
}

KERNEL(bad_width, Args, 32) {
    p.out[threadIdx.x] = __shfl_xor_sync(ALL, threadIdx.x, 1, 12);
}

KERNEL(at_most_64, Args, 64) {
    p.out[threadIdx.x] = 1;
}

KERNEL(overrun, Args, 64) {
    p.out[threadIdx.x] = p.x[threadIdx.x];
}

KERNEL(untouched, Args, 1) {
    __shared__ unsigned before[4];
    p.out[2 * blockIdx.x] = before[1];
    before[1] = 7;
}

KERNEL(from_half, Args, 256) {
    p.out[INDEX] = __float_as_uint(half_to_float((unsigned short)p.x[INDEX]));
}

KERNEL(to_both, Args, 256) {
    if (INDEX < p.count) {
        const float x = __uint_as_float(p.x[INDEX]);
        p.out[INDEX] = float_to_half(x) | (unsigned)float_to_bfloat(x) << 16;
    }
}

KERNEL(bad_address, Args, 32) {
    *(uint4*)(p.out + (threadIdx.x == 9 ? 1 : 0)) = make_uint4(1, 2, 3, 4);
}

KERNEL(bad_entry, Args, 32) {
    __shared__ unsigned numbers[32];
    numbers[threadIdx.x + 1] = 1;
    __syncwarp();
    p.out[threadIdx.x] = numbers[threadIdx.x];
}

KERNEL(bad_shift, Args, 32) {
    p.out[threadIdx.x] = 1u << (threadIdx.x + 1);
}

KERNEL(bad_divisor, Args, 32) {
    p.out[threadIdx.x] = 7 / threadIdx.x;
}

KERNEL(no_address, Args, 32) {
    const unsigned* missing = p.width ? p.x : 0;
    p.out[threadIdx.x] = missing[0];
}
