// Shared by every kernel. The directives of these files are described in src/backend/wgpu/shader.rs.

const WORKGROUP_SIZE: u32 = 256u;
// Threads that share a row in functions row by row: rows.wgsl and gate.wgsl.
const LANES: u32 = 16u;
const NO_EDGE: u32 = 0xffffffffu;

// A row of features is read in chunks of 16 bytes; a matrix of one column is not padded and is read number by number.
#ifdef SCALAR
alias Chunk = f32;
alias Words = u32; // a chunk of whole numbers
#else
alias Chunk = vec4<f32>;
alias Words = vec4<u32>;
#endif

// A chunk of features in memory; in halves (HALF) it takes 8 bytes and is never that of a single column.
#ifdef HALF
#include half
alias Packed = vec2<u32>;
fn unpack_chunk(packed: Packed) -> Chunk { return unpack_half(packed); }
fn pack_chunk(chunk: Chunk) -> Packed { return pack_half(chunk); }
#else
alias Packed = Chunk;
fn unpack_chunk(packed: Packed) -> Chunk { return packed; }
fn pack_chunk(chunk: Chunk) -> Packed { return chunk; }
#endif

// Launches of more than 65,535 workgroups are folded over two dimensions.
fn group_index(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.x + group.y * groups.x;
}
