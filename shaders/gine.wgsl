// Sums of rectified messages with edge features (GINE; Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020).
//
// FORWARD, rows = destinations:  out_i = sum over edges k from j to i of max(x_j + e_k, 0)
// BACKWARD, rows = sources:      e_k <- g_i where x_j + e_k > 0, else 0;  grad_x_j = sum over edges k out of j of e_k
//
//   offsets [rows + 1], columns [edges] of the graph or its transpose, from row `first_row` on
//   x, g, grad_x, out [nodes, stride chunks];  e [edges of these rows, stride chunks]
//
// `lanes` threads a row, each takes every lanes-th chunk of 4 features.
// Bytes an edge: forward 4 + 8 F; backward 4 + 12 F.

#param tasks: u32
#param first_row: u32
#param first_edge: u32
#param chunks: u32
#param lanes_log2: u32
#read offsets: array<u32>
#read columns: array<u32>
#read x: array<Chunk>
#ifdef FORWARD
#read e: array<Chunk>
#write out: array<Chunk>
#endif
#ifdef BACKWARD
#write e: array<Chunk>
#read g: array<Chunk>
#write grad_x: array<Chunk>
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    if task >= p.tasks {
        return;
    }
    let row = p.first_row + task;
    for (var chunk = thread & (lanes - 1u); chunk < p.chunks; chunk += lanes) {
        var sum = Chunk();
        for (var k = offsets[row]; k < offsets[row + 1u]; k++) {
            let at = (k - p.first_edge) * p.chunks + chunk;
#ifdef FORWARD
            sum += max(x[columns[k] * p.chunks + chunk] + e[at], Chunk());
#endif
#ifdef BACKWARD
            let passes = x[row * p.chunks + chunk] + e[at] > Chunk();
            let grad = select(Chunk(), g[columns[k] * p.chunks + chunk], passes);
            e[at] = grad;
            sum += grad;
#endif
        }
#ifdef FORWARD
        out[row * p.chunks + chunk] = sum;
#endif
#ifdef BACKWARD
        grad_x[row * p.chunks + chunk] = sum;
#endif
    }
}
