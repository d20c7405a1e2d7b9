// Dense products, column sums and transposes.
//
// GEMM: out [m, n] = op(a) [m, k] op(b) [k, n] (+ bias [n]), or out += op(a) op(b) (ACCUMULATE). A workgroup of 16 x 16
//   threads computes a tile of 64 x (16 * COLUMNS_PER_THREAD), a thread 4 rows of it; 16 steps of k at a time are staged
//   in workgroup memory. SPLIT: several workgroups share a tile, each sums `split_len` steps of k into a partial [splits,
//   m, out_stride], and MERGE_SPLITS adds those up in order, one number a thread.
// COLUMN_SUMS: out [chunks, cols] = sums over `chunk_rows` rows each; run again over its own output until one row is
//   left. SQUARES: of (x - center)^2; WEIGHTED: of weight (x - center); center [1, cols], weight [rows, cols]. A
//   workgroup takes a chunk of rows and 2^width_log2 columns; threads of a column lie across the rows and merge in a
//   fixed tree.
// TRANSPOSE: out [cols, rows] = x [rows, cols], one number a thread; neighbours write neighbouring numbers.
//
// Bytes: GEMM 4 (m k + k n + m n) at least, tiles re-read a n/64 and b m/64 times from the cache; MERGE_SPLITS
// 4 (splits + 1) a number; COLUMN_SUMS 4 a number of x, + 4 (weight); TRANSPOSE 8 a number.
// Source: tiles in fast memory and sums in registers after "Benchmarking GPUs to Tune Dense Linear Algebra" (Volkov,
// Demmel, SC 2008).

#ifdef GEMM
const TILE_ROWS: u32 = 64u;
const TILE_DEPTH: u32 = 16u;
const TILE_COLUMNS: u32 = 16u * COLUMNS_PER_THREAD;

#param m: u32
#param n: u32
#param k: u32
#param a_stride: u32
#param b_stride: u32
#param out_stride: u32
#param split_len: u32
#param splits: u32
#read a: array<f32>
#read b: array<f32>
#ifdef BIAS
#read bias: array<f32>
#endif
#write out: array<f32>

var<workgroup> a_tile: array<f32, TILE_DEPTH * TILE_ROWS>;       // [depth, row]
var<workgroup> b_tile: array<f32, TILE_DEPTH * TILE_COLUMNS>;    // [depth, column]

fn load_a(row: u32, depth: u32, limit: u32) -> f32 {
    if row >= p.m || depth >= limit {
        return 0.0;
    }
#ifdef TRANSPOSE_A
    return a[depth * p.a_stride + row];
#else
    return a[row * p.a_stride + depth];
#endif
}

fn load_b(depth: u32, column: u32, limit: u32) -> f32 {
    if column >= p.n || depth >= limit {
        return 0.0;
    }
#ifdef TRANSPOSE_B
    return b[column * p.b_stride + depth];
#else
    return b[depth * p.b_stride + column];
#endif
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tiles_across = (p.n + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let tiles_down = (p.m + TILE_ROWS - 1u) / TILE_ROWS;
    let index = group_index(group, groups);
    let split = index / (tiles_across * tiles_down);
    if split >= p.splits {
        return;
    }
    let tile = index % (tiles_across * tiles_down);
    let first_row = tile / tiles_across * TILE_ROWS;
    let first_column = tile % tiles_across * TILE_COLUMNS;
    let first_depth = split * p.split_len;
    let limit = min(first_depth + p.split_len, p.k);

    // This thread's rows are my_row .. my_row + 4, its columns my_column + 16 c: neighbours write neighbouring columns.
    let my_row = thread / 16u * 4u;
    let my_column = thread % 16u;
    var sums: array<array<f32, COLUMNS_PER_THREAD>, 4>;

    for (var depth = first_depth; depth < limit; depth += TILE_DEPTH) {
        // Neighbouring threads read along the contiguous side of the matrix.
        for (var t = thread; t < TILE_DEPTH * TILE_ROWS; t += WORKGROUP_SIZE) {
#ifdef TRANSPOSE_A
            let d = t / TILE_ROWS;
            let r = t % TILE_ROWS;
#else
            let d = t % TILE_DEPTH;
            let r = t / TILE_DEPTH;
#endif
            a_tile[d * TILE_ROWS + r] = load_a(first_row + r, depth + d, limit);
        }
        for (var t = thread; t < TILE_DEPTH * TILE_COLUMNS; t += WORKGROUP_SIZE) {
#ifdef TRANSPOSE_B
            let d = t % TILE_DEPTH;
            let c = t / TILE_DEPTH;
#else
            let d = t / TILE_COLUMNS;
            let c = t % TILE_COLUMNS;
#endif
            b_tile[d * TILE_COLUMNS + c] = load_b(depth + d, first_column + c, limit);
        }
        workgroupBarrier();
        for (var d = 0u; d < TILE_DEPTH; d++) {
            for (var r = 0u; r < 4u; r++) {
                let left = a_tile[d * TILE_ROWS + my_row + r];
                for (var c = 0u; c < COLUMNS_PER_THREAD; c++) {
                    sums[r][c] += left * b_tile[d * TILE_COLUMNS + my_column + 16u * c];
                }
            }
        }
        workgroupBarrier();
    }

    for (var r = 0u; r < 4u; r++) {
        let row = first_row + my_row + r;
        for (var c = 0u; c < COLUMNS_PER_THREAD; c++) {
            let column = first_column + my_column + 16u * c;
            if row < p.m && column < p.n {
                let at = (split * p.m + row) * p.out_stride + column;
                var value = sums[r][c];
#ifdef BIAS
                value += bias[column];
#endif
#ifdef ACCUMULATE
                value += out[at];
#endif
                out[at] = value;
            }
        }
    }
}
#endif

#ifdef MERGE_SPLITS
#param entries: u32
#param splits: u32
#param out_stride: u32
#read partials: array<f32>
#ifdef BIAS
#read bias: array<f32>
#param n: u32
#endif
#write out: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if at >= p.entries {
        return;
    }
    var sum = 0.0;
    for (var s = 0u; s < p.splits; s++) {
        sum += partials[s * p.entries + at];
    }
#ifdef BIAS
    sum += bias[min(at % p.out_stride, p.n - 1u)];
#endif
#ifdef ACCUMULATE
    sum += out[at];
#endif
    out[at] = sum;
}
#endif

#ifdef COLUMN_SUMS
#param rows: u32
#param cols: u32
#param x_stride: u32
#param out_stride: u32
#param chunk_rows: u32
#param width_log2: u32
#read x: array<f32>
#ifdef SQUARES
#read center: array<f32>
#endif
#ifdef WEIGHTED
#read center: array<f32>
#read weight: array<f32>
#endif
#write out: array<f32>

var<workgroup> sums: array<f32, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let width = 1u << p.width_log2;
    let row_lanes = WORKGROUP_SIZE >> p.width_log2;
    let blocks = (p.cols + width - 1u) >> p.width_log2;
    let index = group_index(group, groups);
    let chunk = index / blocks;
    let column = index % blocks * width + (thread & (width - 1u));
    let lane = thread >> p.width_log2;
    let end = min((chunk + 1u) * p.chunk_rows, p.rows);
    var sum = 0.0;
    if column < p.cols {
        for (var r = chunk * p.chunk_rows + lane; r < end; r += row_lanes) {
            let at = r * p.x_stride + column;
#ifdef SQUARES
            let deviation = x[at] - center[column];
            sum += deviation * deviation;
#else
#ifdef WEIGHTED
            sum += weight[at] * (x[at] - center[column]);
#else
            sum += x[at];
#endif
#endif
        }
    }
    sums[thread] = sum;
    for (var half = row_lanes >> 1u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] += sums[thread + half * width];
        }
    }
    if lane == 0u && column < p.cols && chunk * p.chunk_rows < max(p.rows, 1u) {
        let at = chunk * p.out_stride + column;
#ifdef ACCUMULATE
        out[at] += sums[thread];
#else
        out[at] = sums[thread];
#endif
    }
}
#endif

#ifdef TRANSPOSE
#param rows: u32
#param cols: u32
#param x_stride: u32
#param out_stride: u32
#read x: array<f32>
#write out: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if index >= p.rows * p.cols {
        return;
    }
    let column = index / p.rows;
    let row = index % p.rows;
    out[column * p.out_stride + row] = x[row * p.x_stride + column];
}
#endif
