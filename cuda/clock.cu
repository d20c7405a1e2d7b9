// The device's clock: ticks [1] = nanoseconds of the clock that all multiprocessors share, once all that was enqueued before is done.
//
// One thread of one block; 8 bytes.
#include "common.cuh"

#ifdef HOPWISE_EMULATION
#include <time.h>

static u64 nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000000 + now.tv_nsec;
}
#else
__device__ __forceinline__ u64 nanoseconds() {
    u64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}
#endif

struct ClockArgs {
    u64* ticks;
};

KERNEL(read_clock, ClockArgs, THREADS) {
    if (threadIdx.x == 0) {
        *p.ticks = nanoseconds();
    }
}
