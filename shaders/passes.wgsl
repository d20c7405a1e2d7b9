// Passes of gatv2.wgsl and gat.wgsl over the rows of a graph, or segments of heavy ones: which row and which channels a
// thread has. The file that includes this one has `run_block`.
//
// Each of the `lanes` threads of a head holds REGISTERS quads of channels. Where that is not all of the head there are
// blocks of it, each of which computes the scores from all channels, in the same order.

#include scores

// Four channels of a head: the first, and how many the head has from there on. Threads past the last ones would rather
// read those again than ask whether they may.
struct Slot {
    feature: u32,
    left: u32,
    there: bool,
}

fn slot_of(head: u32, quad: u32) -> Slot {
    let last = (p.channels - 1u) >> 2u;
    let first = 4u * min(quad, last);
    return Slot(head * p.channels + first, p.channels - first, quad <= last);
}

fn heads_apart() -> u32 { return p.heads * p.blocks; }

fn run(given: Work) {
    var work = given;
    work.head = given.head / p.blocks;
    run_block(work, (given.head % p.blocks) * (REGISTERS << p.lanes_log2));
}

fn task_at(task: u32) -> vec3<u32> {
    let at = 4u * (p.first_task + task);
    return vec3<u32>(graph[at + 1u], graph[at + 2u], graph[at]);
}

// The row of the result.
fn result_of(work: Work) -> u32 { return graph[4u * (p.first_task + work.task) + 3u]; }

fn column_of(edge: u32) -> u32 { return graph[p.columns_at + edge]; }

// Where an edge stands in edge order.
fn position_of(edge: u32) -> u32 {
#ifdef BY_SOURCE
#ifdef EDGES
    return graph[p.others_at + edge];
#else
    return edge; // nobody asks
#endif
#else
    return edge;
#endif
}

fn edge_id(edge: u32) -> u32 { return graph[p.ids_at + edge]; }

fn key_of_dropout() -> vec2<u32> { return vec2<u32>(weights[0], weights[1]); }

#ifdef FORWARD
// The logarithm of the sum of exp(score), 0 where there are none.
fn logarithm_of(largest: f32, total: f32) -> f32 {
    return select(0.0, LN_2 * (largest + log2(select(1.0, total, total > 0.0))), total > 0.0);
}
#else

fn numbers_of(destination: u32, head: u32) -> vec2<f32> {
    return scalars_of(destination, head);
}
#endif
