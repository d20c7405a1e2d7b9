// What kernels of attention share that go over the edges of a row four at a time (transformer.wgsl, gatv2.wgsl,
// gat.wgsl): which threads have what, sums of scores over the lanes of a head, the online softmax, and what gradients
// make of scores. The file that includes this one has `run`, `task_at`, `edge_id`, `heads_apart`, and for gradients
// `numbers_of` a destination's head: logsumexp in units of log 2, and delta.
//
// A head lies over `lanes` threads side by side, and the heads of a row over neighbouring threads, so that rows that
// belong together are read together. All loads of four edges are made before the first is used: the edges past the last
// one are the last one again, and count for nothing.
//
// SUBGROUPS: threads exchange values within a subgroup, without barriers, and a subgroup goes on as long as its longest
// task. From four lanes a head on, each lane gets the sum of one of the four edges, its share: that takes
// 3 + log2(lanes / 4) exchanges in place of 4 log2(lanes), and what follows of a sum (exponentials, hashes, loads of
// numbers) is done once and not by every lane. With fewer lanes all of them have all four.
// Without SUBGROUPS sums run through workgroup memory (lanes.wgsl), in the same tree and thus with the same bits, and
// the workgroup stays together.
//
// Sources: sums by exchange after "Faster Parallel Reductions on Kepler" (Luitjens, NVIDIA, 2014); "Online normalizer
// calculation for softmax" (Milakov, Gimelshein, 2018), with one rescaling for four edges.

// Below every score, and finite: the difference of two is not NaN.
const LOWEST: f32 = -3.0e38;
const LOG2_E: f32 = 1.4426950408889634;
const LN_2: f32 = 0.6931471805599453;

#param tasks: u32
#param heads: u32
#param lanes_log2: u32
#ifdef DROPOUT
#include random
#param threshold: u32
#param scale: f32
#endif

// What a thread works on.
struct Work {
    thread: u32,
    lane: u32, // of the head's
    share: u32, // which of four edges it has the sum of, in shares
    subgroup_base: u32, // a lane's number in the subgroup is this, with the lane's bits turned
    task: u32,
    head: u32,
    mine: bool, // whether there is such a task
    first: u32, // edge
    last: u32, // counted from the first; 0 where there is none
    count: u32,
    row: u32,
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
#ifdef SUBGROUPS
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
#endif
) {
    var work: Work;
    work.thread = thread;
    work.lane = thread & ((1u << p.lanes_log2) - 1u);
#ifdef SUBGROUPS
    work.share = (work.lane << 2u) >> p.lanes_log2;
    work.subgroup_base = subgroup_lane ^ work.lane;
#endif
    let index = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    work.task = index / heads_apart();
    work.head = index % heads_apart();
    work.mine = work.task < p.tasks;
    if work.mine {
        let task = task_at(work.task); // first edge, one past the last, row
        work.count = task.y - task.x;
        // An empty row may stand behind the last edge.
        work.first = select(task.x, 0u, work.count == 0u);
        work.last = max(work.count, 1u) - 1u;
        work.row = task.z;
    }
    run(work);
}

// The edge at `step` of a task.
fn edge_of(work: Work, step: u32) -> u32 {
    return work.first + min(step, work.last);
}

// Which of the four edges from `step` on there are.
fn present(work: Work, step: u32) -> vec4<bool> {
    return vec4<u32>(step, step + 1u, step + 2u, step + 3u) < vec4<u32>(work.count);
}

#include inner

#ifdef SUBGROUPS
// How often the loop over edges runs, times four: for all of them that exchange values.
fn most_edges(work: Work) -> u32 { return subgroupMax(work.count); }

// Whether lanes have a share of four edges: one.
fn in_shares() -> bool { return p.lanes_log2 >= 2u; }

// The sum over the lanes of a head of the number that is the lane's share.
fn share_of(work: Work, values: vec4<f32>) -> f32 {
    let lanes = 1u << p.lanes_log2;
    // Lanes keep two numbers, then one, and give the others away.
    let upper = (work.lane & (lanes >> 1u)) != 0u;
    let given = select(values.zw, values.xy, upper);
    let pair = select(values.xy, values.zw, upper) + subgroupShuffleXor(given, lanes >> 1u);
    let odd = (work.lane & (lanes >> 2u)) != 0u;
    var sum = select(pair.x, pair.y, odd) + subgroupShuffleXor(select(pair.y, pair.x, odd), lanes >> 2u);
    for (var half = lanes >> 3u; half > 0u; half >>= 1u) {
        sum += subgroupShuffleXor(sum, half);
    }
    return sum;
}

// Of four numbers that every lane knows, the one of its share.
fn own_of(work: Work, values: vec4<u32>) -> u32 {
    let pair = select(values.xy, values.zw, work.share >= 2u);
    return select(pair.x, pair.y, (work.share & 1u) == 1u);
}

// All four numbers, each from a lane that has it.
fn from_shares(work: Work, share: f32) -> vec4<f32> {
    let quarter = (1u << p.lanes_log2) >> 2u;
    return vec4<f32>(
        subgroupShuffle(share, work.subgroup_base),
        subgroupShuffle(share, work.subgroup_base ^ quarter),
        subgroupShuffle(share, work.subgroup_base ^ (2u * quarter)),
        subgroupShuffle(share, work.subgroup_base ^ (3u * quarter)),
    );
}

// The sums over the lanes of a head.
fn sum_four(_work: Work, values: vec4<f32>) -> vec4<f32> {
    var sums = values;
    for (var half = (1u << p.lanes_log2) >> 1u; half > 0u; half >>= 1u) {
        sums += subgroupShuffleXor(sums, half);
    }
    return sums;
}

fn sum_eight(work: Work, first: vec4<f32>, second: vec4<f32>) -> mat2x4<f32> {
    return mat2x4<f32>(sum_four(work, first), sum_four(work, second));
}
#else
#ifdef FORWARD
alias Sum = vec4<f32>;
fn sum_four(work: Work, values: Sum) -> Sum {
    return sum_over_lanes(values, work.thread, 1u << p.lanes_log2);
}
#else
alias Sum = mat2x4<f32>;
fn sum_eight(work: Work, first: vec4<f32>, second: vec4<f32>) -> Sum {
    return sum_over_lanes(Sum(first, second), work.thread, 1u << p.lanes_log2);
}
#endif
#include lanes

var<workgroup> counts: array<u32, WORKGROUP_SIZE>;

// The largest number of edges of the workgroup's tasks: all of its threads meet at the same barriers.
fn most_edges(work: Work) -> u32 {
    counts[work.thread] = work.count;
    for (var half = WORKGROUP_SIZE / 2u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if work.thread < half {
            counts[work.thread] = max(counts[work.thread], counts[work.thread + half]);
        }
    }
    workgroupBarrier();
    return workgroupUniformLoad(&counts[0]);
}
#endif

// Whether dropout keeps the edge at `step`.
fn is_kept(work: Work, key: vec2<u32>, head: u32, step: u32) -> bool {
#ifdef DROPOUT
    if p.threshold > 0u {
        return dropout_hash(key, edge_id(edge_of(work, step)), head) >= p.threshold;
    }
#endif
    return true;
}

fn are_kept(work: Work, key: vec2<u32>, head: u32, step: u32) -> vec4<bool> {
    return vec4<bool>(
        is_kept(work, key, head, step),
        is_kept(work, key, head, step + 1u),
        is_kept(work, key, head, step + 2u),
        is_kept(work, key, head, step + 3u),
    );
}

// What dropout multiplies the weights of edges by that it keeps.
fn dropout_scale() -> f32 {
#ifdef DROPOUT
    return p.scale;
#else
    return 1.0;
#endif
}

// What numbers of which lanes have their share in the first place, or all have all four, add up to over a head.
fn total_of(numbers: vec4<f32>) -> f32 {
#ifdef SUBGROUPS
    if in_shares() {
        let pair = numbers.x + subgroupShuffleXor(numbers.x, (1u << p.lanes_log2) >> 1u);
        return pair + subgroupShuffleXor(pair, (1u << p.lanes_log2) >> 2u);
    }
#endif
    return (numbers.x + numbers.z) + (numbers.y + numbers.w);
}

#ifdef FORWARD
// The softmax of the scores so far, in units of log 2: the largest, and the sums of exp2(score - largest) that make up
// the total, of the lane's share in the first place or one for each of four edges; of the last four edges what their
// values are weighed with, and what earlier sums are multiplied by before.
struct Softmax {
    largest: f32,
    totals: vec4<f32>,
    decay: f32,
    weights: vec4<f32>,
}

fn no_edges() -> Softmax {
    return Softmax(LOWEST, vec4<f32>(), 1.0, vec4<f32>());
}

#ifdef SUBGROUPS
// Takes the scores of the four edges from `step` on, of which the lane has its share.
fn take_share(work: Work, before: Softmax, score: f32, key: vec2<u32>, step: u32) -> Softmax {
    let quarter = (1u << p.lanes_log2) >> 2u;
    let there = step + work.share < work.count;
    let given = select(LOWEST, score, there);
    let pair = max(given, subgroupShuffleXor(given, 2u * quarter));
    var after: Softmax;
    after.largest = max(before.largest, max(pair, subgroupShuffleXor(pair, quarter)));
    after.decay = exp2(before.largest - after.largest);
    let weight = select(0.0, exp2(given - after.largest), there);
    after.totals.x = fma(before.totals.x, after.decay, weight);
    after.weights = from_shares(work, select(0.0, weight, is_kept(work, key, work.head, step + work.share)));
    return after;
}
#endif

// Takes the scores of the four edges from `step` on.
fn take_four(work: Work, before: Softmax, scores: vec4<f32>, key: vec2<u32>, step: u32) -> Softmax {
    let there = present(work, step);
    let given = select(vec4<f32>(LOWEST), scores, there);
    var after: Softmax;
    after.largest = max(before.largest, max(max(given.x, given.z), max(given.y, given.w)));
    after.decay = exp2(before.largest - after.largest);
    let weights = select(vec4<f32>(), exp2(given - after.largest), there);
    after.totals = fma(before.totals, vec4<f32>(after.decay), weights);
    after.weights = select(vec4<f32>(), weights, are_kept(work, key, work.head, step));
    return after;
}

// Takes scores of which every lane has its part, in units of 1 / `factor`.
fn take_parts(work: Work, before: Softmax, parts: vec4<f32>, factor: f32, key: vec2<u32>, step: u32) -> Softmax {
#ifdef SUBGROUPS
    if in_shares() {
        return take_share(work, before, factor * share_of(work, parts), key, step);
    }
#endif
    return take_four(work, before, factor * sum_four(work, parts), key, step);
}

// What edges add up to where weights do to `total`; as it is where that is 0. The rounding of a reciprocal would be the
// same in all channels, and would not average out of gradients.
fn of_total(sum: Chunk, total: f32) -> Chunk {
    return (dropout_scale() * sum) / select(1.0, total, total > 0.0);
}
#else

// What gradients weigh the rows of four edges with: a (m <g, v> - delta) and a m, with a = exp2(score - logsumexp).
struct Terms {
    by_score: vec4<f32>,
    by_value: vec4<f32>,
}

// Of what a destination has for a head, logsumexp in units of log 2 and delta, those that gradients need of four edges.
struct Numbers {
    logsumexp: vec4<f32>, // of the lane's share in the first place, or of all
    delta: vec4<f32>,
}

fn numbers_of_row(row: u32, head: u32) -> Numbers {
    let numbers = numbers_of(row, head);
    return Numbers(vec4<f32>(numbers.x), vec4<f32>(numbers.y));
}

// The same of four rows.
fn numbers_of_rows(work: Work, rows: vec4<u32>) -> Numbers {
#ifdef SUBGROUPS
    if in_shares() {
        return numbers_of_row(own_of(work, rows), work.head);
    }
#endif
#unroll u 4
    let numbers_$u = numbers_of(rows[$u], work.head);
#endunroll
    return Numbers(
        vec4<f32>(numbers_0.x, numbers_1.x, numbers_2.x, numbers_3.x),
        vec4<f32>(numbers_0.y, numbers_1.y, numbers_2.y, numbers_3.y),
    );
}

#ifdef SUBGROUPS
// `by_score` and `by_value` of the lane's share.
fn terms_of_share(
    work: Work,
    score: f32,
    along: f32,
    numbers: Numbers,
    key: vec2<u32>,
    head: u32,
    step: u32,
) -> vec2<f32> {
    let there = step + work.share < work.count;
    let weight = select(0.0, exp2(score - numbers.logsumexp.x), there);
    let factor = select(0.0, dropout_scale(), is_kept(work, key, head, step + work.share));
    return weight * vec2<f32>(factor * along - numbers.delta.x, factor);
}
#endif

fn terms_of_four(
    work: Work,
    scores: vec4<f32>,
    along: vec4<f32>,
    numbers: Numbers,
    key: vec2<u32>,
    head: u32,
    step: u32,
) -> Terms {
    let weights = select(vec4<f32>(), exp2(scores - numbers.logsumexp), present(work, step));
    let factors = select(vec4<f32>(), vec4<f32>(dropout_scale()), are_kept(work, key, head, step));
    return Terms(weights * (factors * along - numbers.delta), weights * factors);
}

// Of scores, in units of 1 / `factor`, and products <g, v> of which every lane has its part.
fn terms_of_parts(
    work: Work,
    scores: vec4<f32>,
    factor: f32,
    along: vec4<f32>,
    numbers: Numbers,
    key: vec2<u32>,
    head: u32,
    step: u32,
) -> Terms {
#ifdef SUBGROUPS
    if in_shares() {
        let score = factor * share_of(work, scores);
        let terms = terms_of_share(work, score, share_of(work, along), numbers, key, head, step);
        return Terms(from_shares(work, terms.x), from_shares(work, terms.y));
    }
#endif
    let both = sum_eight(work, scores, along);
    return terms_of_four(work, factor * both[0], both[1], numbers, key, head, step);
}
#endif
