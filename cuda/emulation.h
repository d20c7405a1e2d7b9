// CUDA on the processor, for tests on machines without an NVIDIA GPU. The text of a kernel follows this file.
//
// Every thread of a block is a fiber: it runs until it waits for others or returns, then the next one runs. Blocks run one after the
// other; in blocks of odd number threads take their turns in descending order, so that results which depend on the order (a barrier is
// missing) show. Shared memory holds NaNs when a block starts.
//
// A wait that can never end is an error with the places involved, as is everything that CUDA leaves undefined here: a mask without the
// caller, a mask that names a thread that has returned, a shuffle from a lane outside of the mask, threads of one block at different
// barriers. So are addresses that are not aligned, entries past the end of an array, and shifts by more bits than there are. Barriers after some threads have returned are refused too, though recent hardware lets them pass.
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

#define HOPWISE_HIDDEN __attribute__((visibility("hidden")))

#define __device__
#define __host__
#define __global__
#define __constant__ static const
#define __restrict__ __restrict
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#ifdef __ELF__
#define __shared__ static __attribute__((section("hopwise_shared"), aligned(16)))
#else
#define __shared__ static __attribute__((aligned(16)))
#endif

// Types ----------------------------------------------------------------------------------------------------------------------------

#define HOPWISE_VECTORS(scalar, name)                                               \
    struct alignas(2 * sizeof(scalar)) name##2 {                                    \
        scalar x, y;                                                                \
    };                                                                              \
    struct alignas(4 * sizeof(scalar)) name##4 {                                    \
        scalar x, y, z, w;                                                          \
    };                                                                              \
    static inline name##2 make_##name##2(scalar x, scalar y) {                      \
        return {x, y};                                                              \
    }                                                                               \
    static inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) {  \
        return {x, y, z, w};                                                        \
    }

HOPWISE_VECTORS(float, float)
HOPWISE_VECTORS(int, int)
HOPWISE_VECTORS(unsigned, uint)

struct dim3 {
    unsigned x, y, z;
};

// What the running fiber sees. They are not static: a switch of fibers changes them, which the compiler must expect.
HOPWISE_HIDDEN dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

// Fibers ---------------------------------------------------------------------------------------------------------------------------

namespace emulation {

typedef unsigned long long u64;

const unsigned MAX_THREADS = 1024;
const unsigned MAX_SHARED = 227 << 10;
const size_t STACK = 64 << 10;
const size_t GUARD = 16 << 10;

#if defined(__x86_64__)
extern "C" void hopwise_switch(void** save, void* load) __asm__("hopwise_switch");
__asm__(
    ".text\n"
    ".p2align 4\n"
    "hopwise_switch:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n"
    "movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    "ret\n");

typedef void* Context;

static void prepare(Context& context, char* stack, void (*run)()) {
    // The entry is "returned" to, and finds the stack as after a call.
    void** top = (void**)(stack + STACK) - 2;
    *top = (void*)run;
    top -= 6;
    memset(top, 0, 6 * sizeof(void*));
    context = top;
}

static inline void change(Context& from, Context& to) {
    hopwise_switch(&from, to);
}
#elif defined(__aarch64__)
extern "C" void hopwise_switch(void** save, void* load) __asm__("hopwise_switch");
__asm__(
    ".text\n"
    ".p2align 4\n"
    "hopwise_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp, #0]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
    "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
    "ldp x19, x20, [sp, #0]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\n"
    "ret\n");

typedef void* Context;

static void prepare(Context& context, char* stack, void (*run)()) {
    void** frame = (void**)(stack + STACK - 160);
    memset(frame, 0, 160);
    frame[11] = (void*)run;
    context = frame;
}

static inline void change(Context& from, Context& to) {
    hopwise_switch(&from, to);
}
#else
typedef ucontext_t Context;

static void prepare(Context& context, char* stack, void (*run)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, run, 0);
}

static inline void change(Context& from, Context& to) {
    swapcontext(&from, &to);
}
#endif

// Where a thread waits: the text of the call, and its line.
struct Place {
    const char* call;
    const char* file;
    int line;
};

enum State { FRESH, READY, AT_BARRIER, IN_WARP, RETURNED };

struct Thread {
    State state;
    unsigned stack;
    Context context;
    const Place* place;
    unsigned mask;
    // What it brings to a call of its warp: a value and a lane or a width; and what it gets.
    u64 value;
    unsigned from;
    u64 result;
};

// A block that runs. A library runs one launch at a time: its caller holds a lock.
struct Block {
    Context scheduler;
    Thread threads[MAX_THREADS];
    unsigned ready[MAX_THREADS / 32];    // lanes that can run, by warp
    unsigned arrived[MAX_THREADS / 32];  // lanes that wait for others of their warp
    unsigned count;
    unsigned current;
    unsigned returned;
    unsigned at_barrier;
    char* stacks[MAX_THREADS];
    Context idle[MAX_THREADS];  // contexts of fibers that have returned and wait for work, by stack
    bool started[MAX_THREADS];
    unsigned free_stacks[MAX_THREADS];
    unsigned num_free;
    unsigned num_stacks;
    const char* kernel;
    void (*body)(const void*);
    const void* arguments;
    bool failed;
    char message[1024];
};

HOPWISE_HIDDEN Block block;
HOPWISE_HIDDEN alignas(256) char dynamic_shared[MAX_SHARED];

// Never returns to the kernel if that is what calls it: the scheduler gives all fibers up.
static void fail(const char* format, ...) __attribute__((format(printf, 1, 2), cold, noinline));

static void to_scheduler() {
    Thread& thread = block.threads[block.current];
    change(thread.context, block.scheduler);
    __asm__ volatile("" ::: "memory");
}

static void fail(const char* format, ...) {
    if (block.failed) {
        return;
    }
    block.failed = true;
    int at = snprintf(block.message, sizeof block.message, "kernel %s, block %u: ", block.kernel, blockIdx.x);
    va_list list;
    va_start(list, format);
    vsnprintf(block.message + at, sizeof block.message - at, format, list);
    va_end(list);
}

[[noreturn]] static void give_up() {
    for (;;) {
        to_scheduler();
    }
}

// A fiber: it runs one thread after the other, as long as each returns.
static void run_fiber() {
    for (;;) {
        block.body(block.arguments);
        Thread& thread = block.threads[block.current];
        thread.state = RETURNED;
        block.returned++;
        const unsigned stack = thread.stack;
        block.free_stacks[block.num_free++] = stack;
        change(block.idle[stack], block.scheduler);
        __asm__ volatile("" ::: "memory");
    }
}

static bool start(Thread& thread) {
    if (block.num_free == 0) {
        char* memory = (char*)mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == (char*)MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0) {
            fail("no memory for the stack of thread %u", block.current);
            return false;
        }
        block.stacks[block.num_stacks] = memory + GUARD;
        block.free_stacks[block.num_free++] = block.num_stacks++;
    }
    const unsigned stack = block.free_stacks[--block.num_free];
    thread.stack = stack;
    if (!block.started[stack]) {
        prepare(block.idle[stack], block.stacks[stack], run_fiber);
        block.started[stack] = true;
    }
    return true;
}

static void describe(char* text, size_t room, const Thread& thread) {
    switch (thread.state) {
    case RETURNED:
        snprintf(text, room, "has returned");
        break;
    case AT_BARRIER:
    case IN_WARP:
        snprintf(text, room, "waits in %s at %s:%d", thread.place->call, thread.place->file, thread.place->line);
        break;
    default:
        snprintf(text, room, "runs");
    }
}

// Every thread that has not returned waits: says who waits for whom.
static void report_wait() {
    for (unsigned t = 0; t < block.count; t++) {
        const Thread& thread = block.threads[t];
        if (thread.state != AT_BARRIER && thread.state != IN_WARP) {
            continue;
        }
        char other[256] = "does not exist";
        unsigned o = 0;
        if (thread.state == AT_BARRIER) {
            while (block.threads[o].state == AT_BARRIER) {
                o++;
            }
        } else {
            const unsigned warp = t / 32;
            o = warp * 32 + __builtin_ctz(thread.mask & ~block.arrived[warp]);
        }
        if (o < block.count) {
            describe(other, sizeof other, block.threads[o]);
        }
        char own[256];
        describe(own, sizeof own, thread);
        fail("thread %u %s for thread %u, which %s", t, own, o, other);
        return;
    }
}

static void run_block(bool descending) {
    const unsigned warps = (block.count + 31) / 32;
    block.returned = 0;
    block.at_barrier = 0;
    for (unsigned t = 0; t < block.count; t++) {
        block.threads[t].state = FRESH;
    }
    for (unsigned w = 0; w < warps; w++) {
        const unsigned lanes = block.count - w * 32;
        block.ready[w] = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1;
        block.arrived[w] = 0;
    }
    while (block.returned < block.count) {
        bool progress = false;
        for (unsigned i = 0; i < warps; i++) {
            const unsigned w = descending ? warps - 1 - i : i;
            while (block.ready[w] != 0) {
                const unsigned lane = descending ? 31 - __builtin_clz(block.ready[w]) : __builtin_ctz(block.ready[w]);
                block.ready[w] &= ~(1u << lane);
                block.current = threadIdx.x = w * 32 + lane;
                Thread& thread = block.threads[block.current];
                progress = true;
                if (thread.state == FRESH) {
                    if (!start(thread)) {
                        return;
                    }
                    thread.state = READY;
                    change(block.scheduler, block.idle[thread.stack]);
                } else {
                    change(block.scheduler, thread.context);
                }
                __asm__ volatile("" ::: "memory");
                if (block.failed) {
                    return;
                }
            }
        }
        if (!progress) {
            report_wait();
            return;
        }
    }
}

#ifdef __ELF__
extern "C" HOPWISE_HIDDEN __attribute__((weak)) char __start_hopwise_shared[];
extern "C" HOPWISE_HIDDEN __attribute__((weak)) char __stop_hopwise_shared[];
#endif

static const char* launch(const char* kernel, unsigned bound, void (*body)(const void*), const void* arguments, unsigned blocks,
                          unsigned threads, unsigned shared) {
    block.kernel = kernel;
    block.failed = false;
    block.count = threads;
    block.body = body;
    block.arguments = arguments;
    blockDim = {threads, 1, 1};
    gridDim = {blocks, 1, 1};
    blockIdx = {0, 0, 0};
    threadIdx = {0, 0, 0};
    if (threads == 0 || threads > MAX_THREADS || threads > bound) {
        fail("%u threads were asked for, the kernel is compiled for 1 to %u", threads, bound < MAX_THREADS ? bound : MAX_THREADS);
    } else if (shared > MAX_SHARED) {
        fail("%u bytes of shared memory were asked for, the limit is %u", shared, MAX_SHARED);
    }
    for (unsigned b = 0; b < blocks && !block.failed; b++) {
        blockIdx.x = b;
#ifdef __ELF__
        if (__start_hopwise_shared) {
            memset(__start_hopwise_shared, 0xff, __stop_hopwise_shared - __start_hopwise_shared);
        }
#endif
        memset(dynamic_shared, 0xff, shared);
        run_block(b % 2 == 1);
    }
    if (!block.failed) {
        return nullptr;
    }
    // Fibers that stand in the middle of a kernel start anew.
    memset(block.started, 0, sizeof block.started);
    for (unsigned s = 0; s < block.num_stacks; s++) {
        block.free_stacks[s] = s;
    }
    block.num_free = block.num_stacks;
    return block.message;
}

// Waiting --------------------------------------------------------------------------------------------------------------------------

static __attribute__((noinline)) void sync_block(const Place* place) {
    Thread& thread = block.threads[block.current];
    if (block.at_barrier > 0) {
        for (unsigned t = 0; t < block.count; t++) {
            const Thread& other = block.threads[t];
            if (other.state == AT_BARRIER && other.place != place) {
                fail("thread %u is at the barrier of %s:%d while thread %u waits at that of %s:%d: all threads of a block must come to the same",
                     block.current, place->file, place->line, t, other.place->file, other.place->line);
                give_up();
            } else if (other.state == AT_BARRIER) {
                break;
            }
        }
    }
    if (++block.at_barrier == block.count) {
        block.at_barrier = 0;
        for (unsigned t = 0; t < block.count; t++) {
            if (t != block.current) {
                block.threads[t].state = READY;
                block.ready[t / 32] |= 1u << t % 32;
            }
        }
        return;
    }
    thread.state = AT_BARRIER;
    thread.place = place;
    to_scheduler();
}

// What the lanes of a mask get from each other, once all are there.
typedef void (*Exchange)(Thread* lanes, unsigned mask);

static __attribute__((noinline)) u64 sync_warp(const Place* place, unsigned mask, u64 value, unsigned from, Exchange exchange) {
    const unsigned current = block.current, warp = current / 32, own = 1u << current % 32;
    Thread* lanes = block.threads + warp * 32;
    Thread& thread = block.threads[current];
    thread.place = place;
    thread.mask = mask;
    thread.value = value;
    thread.from = from;
    if (!(mask & own)) {
        fail("thread %u calls %s at %s:%d with the mask %#x, which does not name it", current, place->call, place->file, place->line, mask);
        give_up();
    }
    for (unsigned rest = mask & block.arrived[warp]; rest != 0; rest &= rest - 1) {
        const Thread& other = lanes[__builtin_ctz(rest)];
        if (other.place != place || other.mask != mask) {
            fail("thread %u calls %s at %s:%d with the mask %#x while thread %u waits in %s at %s:%d with the mask %#x", current,
                 place->call, place->file, place->line, mask, (unsigned)(&other - block.threads), other.place->call, other.place->file,
                 other.place->line, other.mask);
            give_up();
        }
    }
    const unsigned waiting = block.arrived[warp] & mask;
    if ((waiting | own) != mask) {
        block.arrived[warp] |= own;
        thread.state = IN_WARP;
        to_scheduler();
        return thread.result;
    }
    block.arrived[warp] &= ~mask;
    exchange(lanes, mask);
    if (block.failed) {
        give_up();
    }
    for (unsigned rest = waiting; rest != 0; rest &= rest - 1) {
        lanes[__builtin_ctz(rest)].state = READY;
    }
    block.ready[warp] |= waiting;
    return thread.result;
}

#define HOPWISE_EACH_LANE(lane, mask) \
    for (unsigned rest_ = (mask), lane = rest_ ? __builtin_ctz(rest_) : 0; rest_; rest_ &= rest_ - 1, lane = rest_ ? __builtin_ctz(rest_) : 0)

static void nothing(Thread*, unsigned) {}

static void votes(Thread* lanes, unsigned mask) {
    unsigned ballot = 0;
    HOPWISE_EACH_LANE(l, mask) {
        ballot |= (unsigned)(lanes[l].value != 0) << l;
    }
    HOPWISE_EACH_LANE(l, mask) {
        lanes[l].result = ballot;
    }
}

template <typename Merge>
static void reduce(Thread* lanes, unsigned mask, Merge merge) {
    unsigned all = (unsigned)lanes[__builtin_ctz(mask)].value;
    HOPWISE_EACH_LANE(l, mask & (mask - 1)) {
        all = merge(all, (unsigned)lanes[l].value);
    }
    HOPWISE_EACH_LANE(l, mask) {
        lanes[l].result = all;
    }
}

static void sums(Thread* lanes, unsigned mask) {
    reduce(lanes, mask, [](unsigned a, unsigned b) { return a + b; });
}

static void minima(Thread* lanes, unsigned mask) {
    reduce(lanes, mask, [](unsigned a, unsigned b) { return a < b ? a : b; });
}

static void maxima(Thread* lanes, unsigned mask) {
    reduce(lanes, mask, [](unsigned a, unsigned b) { return a > b ? a : b; });
}

static void values_from(Thread* lanes, unsigned mask) {
    HOPWISE_EACH_LANE(l, mask) {
        const unsigned from = lanes[l].from;
        if (!(mask >> from & 1)) {
            fail("thread %u reads lane %u in %s at %s:%d, which the mask %#x does not name", (unsigned)(lanes + l - block.threads), from,
                 lanes[l].place->call, lanes[l].place->file, lanes[l].place->line, mask);
            return;
        }
        lanes[l].result = lanes[from].value;
    }
}

// Names that kernels' macros are unlikely to have: the macros below are expanded between those.
enum Way { SHUFFLE_INDEX, SHUFFLE_XOR, SHUFFLE_DOWN, SHUFFLE_UP };

// The lane that a shuffle reads, as PTX defines it: lanes of later groups are out of reach, and the lane's own value stands in for them.
static inline unsigned source(Way way, unsigned lane, unsigned by, unsigned width) {
    const unsigned first = lane & ~(width - 1), last = first + width - 1;
    switch (way) {
    case SHUFFLE_INDEX:
        return first + (by & (width - 1));
    case SHUFFLE_XOR:
        return (lane ^ (by & 31)) <= last ? lane ^ (by & 31) : lane;
    case SHUFFLE_DOWN:
        return lane + (by & 31) <= last ? lane + (by & 31) : lane;
    default:
        return lane >= first + (by & 31) ? lane - (by & 31) : lane;
    }
}

template <typename T>
static T shuffle(const Place* place, Way way, unsigned mask, T value, unsigned by, unsigned width = 32) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4 or 8 bytes");
    if (width == 0 || width > 32 || (width & (width - 1)) != 0) {
        fail("thread %u calls %s at %s:%d with the width %u, which is no power of two up to 32", block.current, place->call, place->file,
             place->line, width);
        give_up();
    }
    u64 bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = sync_warp(place, mask, bits, source(way, block.current % 32, by, width), values_from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace emulation

// A place of its own for every line that waits.
#define HOPWISE_PLACE(call)                                                   \
    ([]() -> const emulation::Place* {                                        \
        static const emulation::Place place = {call, __FILE__, __LINE__};     \
        return &place;                                                        \
    }())

#define __syncthreads() emulation::sync_block(HOPWISE_PLACE("__syncthreads"))
#define __syncwarp(...) \
    (void)emulation::sync_warp(HOPWISE_PLACE("__syncwarp"), emulation::mask_or_all(__VA_ARGS__), 0, 0, emulation::nothing)
#define __shfl_sync(mask, ...) emulation::shuffle(HOPWISE_PLACE("__shfl_sync"), emulation::SHUFFLE_INDEX, mask, __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) emulation::shuffle(HOPWISE_PLACE("__shfl_xor_sync"), emulation::SHUFFLE_XOR, mask, __VA_ARGS__)
#define __shfl_down_sync(mask, ...) emulation::shuffle(HOPWISE_PLACE("__shfl_down_sync"), emulation::SHUFFLE_DOWN, mask, __VA_ARGS__)
#define __shfl_up_sync(mask, ...) emulation::shuffle(HOPWISE_PLACE("__shfl_up_sync"), emulation::SHUFFLE_UP, mask, __VA_ARGS__)
#define HOPWISE_WARP(call, mask, value, exchange) \
    ((unsigned)emulation::sync_warp(HOPWISE_PLACE(call), mask, value, 0, emulation::exchange))
#define __ballot_sync(mask, vote) HOPWISE_WARP("__ballot_sync", mask, (vote) ? 1 : 0, votes)
#define __any_sync(mask, vote) ((int)(HOPWISE_WARP("__any_sync", mask, (vote) ? 1 : 0, votes) != 0))
#define __all_sync(mask, vote) ((int)(HOPWISE_WARP("__all_sync", mask, (vote) ? 0 : 1, votes) == 0))
#define __reduce_add_sync(mask, value) HOPWISE_WARP("__reduce_add_sync", mask, (unsigned)(value), sums)
#define __reduce_min_sync(mask, value) HOPWISE_WARP("__reduce_min_sync", mask, (unsigned)(value), minima)
#define __reduce_max_sync(mask, value) HOPWISE_WARP("__reduce_max_sync", mask, (unsigned)(value), maxima)

namespace emulation {
static inline unsigned mask_or_all(unsigned mask = 0xffffffffu) {
    return mask;
}
}  // namespace emulation

// What the compiler's checks call ----------------------------------------------------------------------------------------------------
//
// -fsanitize=alignment,null,bounds,shift-exponent,integer-divide-by-zero, without its own library, which knows no fibers. The structs
// are its interface, the same in GCC and Clang; only what they begin with is used.

struct HopwiseSource {
    const char* file;
    unsigned line;
    unsigned column;
};

struct HopwiseType {
    unsigned short kind;
    unsigned short info;
    char name[1];
};

struct HopwiseCheck {
    HopwiseSource source;
    const HopwiseType* type;
    unsigned char log_alignment;
};

#define HOPWISE_CHECK(name, format, ...)                                                                                     \
    extern "C" HOPWISE_HIDDEN __attribute__((cold)) void __ubsan_handle_##name(HopwiseCheck* check, size_t a, size_t b) {     \
        emulation::fail("thread %u, %s:%u: " format, threadIdx.x, check->source.file, check->source.line, __VA_ARGS__);       \
        emulation::give_up();                                                                                                \
    }
HOPWISE_CHECK(type_mismatch_v1, "the address %#zx is null or no multiple of %zu, as %s must be", a, (size_t)1 << check->log_alignment,
              check->type->name)
HOPWISE_CHECK(out_of_bounds, "entry %zd of %s", (ptrdiff_t)a, check->type->name)
HOPWISE_CHECK(shift_out_of_bounds, "%s is shifted by %zu bits", check->type->name, b)
HOPWISE_CHECK(divrem_overflow, "%s is divided by %zd", check->type->name, (ptrdiff_t)b)

// Kernels --------------------------------------------------------------------------------------------------------------------------

#define DYNAMIC_SHARED(type, name) type* const name = (type*)emulation::dynamic_shared

// The entry gives null, or what went wrong.
#define KERNEL(name, Args, bound)                                                                                                  \
    static void name##_body(const Args& p);                                                                                        \
    extern "C" __attribute__((visibility("default"))) const char* name(const void* arguments, size_t bytes, unsigned blocks,       \
                                                                       unsigned threads, unsigned shared) {                       \
        if (bytes != sizeof(Args)) {                                                                                               \
            return "the host's struct of arguments and the kernel " #name "'s differ in size";                                     \
        }                                                                                                                          \
        alignas(Args) char copy[sizeof(Args)];                                                                                     \
        memcpy(copy, arguments, sizeof(Args));                                                                                     \
        return emulation::launch(                                                                                                  \
            #name, bound, [](const void* p) { name##_body(*(const Args*)p); }, copy, blocks, threads, shared);                      \
    }                                                                                                                              \
    static void name##_body(const Args& p)

// Functions ------------------------------------------------------------------------------------------------------------------------

extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float expm1f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float powf(float, float) noexcept;
float sqrtf(float) noexcept;
float tanhf(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float truncf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float copysignf(float, float) noexcept;
}

#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)

static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline float __expf(float x) {
    return expf(x);
}
static inline float __logf(float x) {
    return logf(x);
}
static inline float __fdividef(float a, float b) {
    return a / b;
}
static inline float __frcp_rn(float x) {
    return 1.0f / x;
}
static inline float __saturatef(float x) {
    return fminf(fmaxf(x, 0.0f), 1.0f);
}

template <typename T, typename U>
static inline T hopwise_bits(U from) {
    static_assert(sizeof(T) == sizeof(U), "the sizes differ");
    T to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x) {
    return hopwise_bits<unsigned>(x);
}
static inline int __float_as_int(float x) {
    return hopwise_bits<int>(x);
}
static inline float __uint_as_float(unsigned x) {
    return hopwise_bits<float>(x);
}
static inline float __int_as_float(int x) {
    return hopwise_bits<float>(x);
}

#define HOPWISE_MIN_MAX(type)                 \
    static inline type min(type a, type b) {  \
        return b < a ? b : a;                 \
    }                                         \
    static inline type max(type a, type b) {  \
        return a < b ? b : a;                 \
    }
HOPWISE_MIN_MAX(int)
HOPWISE_MIN_MAX(unsigned)
HOPWISE_MIN_MAX(long long)
HOPWISE_MIN_MAX(unsigned long long)
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline unsigned min(int a, unsigned b) {
    return min((unsigned)a, b);
}
static inline unsigned min(unsigned a, int b) {
    return min(a, (unsigned)b);
}
static inline unsigned max(int a, unsigned b) {
    return max((unsigned)a, b);
}
static inline unsigned max(unsigned a, int b) {
    return max(a, (unsigned)b);
}

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = selector >> 4 * i & 15;
        unsigned byte = (unsigned)(bytes >> 8 * (pick & 7)) & 0xff;
        if (pick & 8) {
            byte = byte & 0x80 ? 0xff : 0;
        }
        result |= byte << 8 * i;
    }
    return result;
}

template <typename T>
static inline T __ldg(const T* at) {
    return *at;
}

// One thread runs at a time.
#define HOPWISE_ATOMIC_ADD(type)                         \
    static inline type atomicAdd(type* at, type value) { \
        const type before = *at;                         \
        *at = before + value;                            \
        return before;                                   \
    }
HOPWISE_ATOMIC_ADD(int)
HOPWISE_ATOMIC_ADD(unsigned)
HOPWISE_ATOMIC_ADD(unsigned long long)

static inline unsigned atomicMax(unsigned* at, unsigned value) {
    const unsigned before = *at;
    *at = before > value ? before : value;
    return before;
}

// Conversions round to nearest, ties to even, as the instruction cvt.rn; NaNs become its NaN.
static inline float half_to_float(unsigned short bits) {
    const unsigned sign = (unsigned)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) {
        return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    }
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline unsigned short float_to_half(float value) {
    const unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
    const unsigned short sign = (unsigned short)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000u) {
        return 0x7fff;
    }
    // 65520 is the first number that rounds to infinity.
    if (magnitude >= 0x477ff000u) {
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000u) {
        // Denormals: the sum's last bit is worth 2^-24, so the addition rounds.
        const float shifted = __uint_as_float(magnitude) + 0.5f;
        return sign | (unsigned short)(__float_as_uint(shifted) - 0x3f000000u);
    }
    const unsigned odd = magnitude >> 13 & 1;
    return sign | (unsigned short)((magnitude - 0x38000000u + 0xfff + odd) >> 13);
}

static inline float bfloat_to_float(unsigned short bits) {
    return __uint_as_float((unsigned)bits << 16);
}

static inline unsigned short float_to_bfloat(float value) {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fff;
    }
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
