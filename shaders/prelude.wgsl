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

// Launches of more than 65,535 workgroups are folded over two dimensions.
fn group_index(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.x + group.y * groups.x;
}
