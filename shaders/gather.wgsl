// Rows moved by number, in chunks of 4 features; one chunk a thread.
//
// GATHER:  out[r] = x[rows[r]], or fill where rows[r] is NO_EDGE.
// SCATTER: out[rows[r]] = x[r], skipping NO_EDGE.
// COPY:    a range of columns of x into a range of columns of out, bit by bit, whatever they hold.
//
//   rows [count];  x, out [count or any number of rows, stride chunks], from the chunk `_first` on;  `chunks` of each row are moved
//
// Bytes a row of F features: 8 F, + 4 for its number.

#param count: u32
#param chunks: u32
#param x_stride: u32
#param x_first: u32
#param out_stride: u32
#param out_first: u32
#ifdef GATHER
#param fill: f32
#endif
#ifndef COPY
#read rows: array<u32>
#endif
#ifdef COPY
#read x: array<Words>
#write out: array<Words>
#else
#read x: array<Chunk>
#write out: array<Chunk>
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    let r = index / p.chunks;
    let chunk = index % p.chunks;
    if r >= p.count {
        return;
    }
#ifdef COPY
    out[r * p.out_stride + p.out_first + chunk] = x[r * p.x_stride + p.x_first + chunk];
#endif
#ifdef GATHER
    let row = rows[r];
    var value = Chunk(p.fill);
    if row != NO_EDGE {
        value = x[row * p.x_stride + p.x_first + chunk];
    }
    out[r * p.out_stride + p.out_first + chunk] = value;
#endif
#ifdef SCATTER
    let row = rows[r];
    if row != NO_EDGE {
        out[row * p.out_stride + p.out_first + chunk] = x[r * p.x_stride + p.x_first + chunk];
    }
#endif
}
