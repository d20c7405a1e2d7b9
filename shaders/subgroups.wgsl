// How many consecutive threads exchange values as sums over lanes do (lanes.wgsl): run once, when a device is opened.
//
//   lanes [threads]   for each thread the largest power of two n, `size` at most, so that it sees the numbers of all
//                     threads that differ from its own in one of the bits below n
//
// One thread a number, 256 threads a workgroup. 4 bytes a thread.

#param size: u32
#write lanes: array<u32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    var count = 1u;
    for (var half = 1u; half < p.size; half <<= 1u) {
        let seen = subgroupShuffleXor(thread, half);
        count = select(count, 2u * half, count == half && seen == (thread ^ half));
    }
    lanes[group_index(group, groups) * WORKGROUP_SIZE + thread] = count;
}
