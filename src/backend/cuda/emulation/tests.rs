use bytemuck::{Pod, Zeroable};

use super::{
    super::runtime::MatrixAt,
    product::{float_to_bfloat, float_to_half, half_to_float},
    *,
};
use crate::backend::DType;

/// Kernels of which each uses one thing.
const KERNELS: &str = include_str!("tests.cu");

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Args {
    x: DevicePtr,
    out: DevicePtr,
    count: u32,
    width: u32,
}

/// Kernels are kept: the test runner gives every test a process.
fn emulation() -> Emulation {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tmp/emulation");
    Emulation::new(&KernelCache::Folder(folder.into())).unwrap()
}

fn grid(blocks: u32, threads: u32) -> Grid {
    Grid { blocks, threads, shared: 0 }
}

/// What a kernel of the tests makes of `x`.
fn run(entry: &str, grid: Grid, x: &[u32], outputs: usize, width: u32) -> Result<Vec<u32>, String> {
    let emulation = emulation();
    let library = emulation.machine.compiler.library("tests", KERNELS).unwrap();
    let buffer = |words: usize, label| emulation.allocate(words as u64 * 4, label).unwrap();
    let args = Args { x: buffer(x.len(), "x"), out: buffer(outputs, "out"), count: x.len() as u32, width };
    emulation.upload(args.x, x).unwrap();
    // SAFETY: the kernels of the tests take these arguments, and what they write past the end stays in the guard.
    unsafe { emulation.machine.launch(&library, entry, grid, bytemuck::bytes_of(&args)) }
        .map_err(|error| error.to_string())?;
    let mut out = vec![0; outputs];
    emulation.download(args.out, &mut out).unwrap();
    Ok(out)
}

fn numbers(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 7919 + 13) % 1000).collect()
}

#[test]
fn barriers_order_all_warps_of_a_block() {
    for (blocks, threads) in [(1, 1), (3, 32), (2, 64), (5, 256), (2, 1024)] {
        let x = numbers(blocks * threads);
        let sums: Vec<u32> = x.chunks(threads as usize).map(|block| block.iter().sum()).collect();
        let shared = threads * 4;
        let out = run("sum_by_dynamic_memory", Grid { blocks, threads, shared }, &x, blocks as usize, 0);
        assert_eq!(out, Ok(sums.clone()), "{blocks} x {threads}");
        let out = run("sum_by_static_memory", grid(blocks, threads), &x, blocks as usize, 0);
        assert_eq!(out, Ok(sums), "{blocks} x {threads}");
    }
}

#[test]
fn shuffles_stay_in_their_group() {
    let x = numbers(96);
    for width in [2, 4, 8, 16, 32] {
        let out = run("shuffles", grid(1, 96), &x, 96 * 5, width as u32).unwrap();
        for (i, out) in out.chunks(5).enumerate() {
            let first = i / width * width;
            let or_own = |source: usize| if (first..first + width).contains(&source) { x[source] } else { x[i] };
            let expected =
                [x[i ^ 1], or_own(i + width / 2), or_own(i.wrapping_sub(1)), x[first + 1], x[first + (i + 3) % width]];
            assert_eq!(out, expected, "thread {i}, width {width}");
        }
    }
}

#[test]
fn warps_vote_and_reduce() {
    let x = numbers(64);
    let out = run("votes", grid(1, 64), &x, 64 * 6, 0).unwrap();
    for (i, out) in out.chunks(6).enumerate() {
        let warp = &x[i / 32 * 32..][..32];
        let ballot = (0..32).fold(0, |bits, lane| bits | (warp[lane] & 1) << lane);
        let (sum, least, most) = (warp.iter().sum::<u32>(), *warp.iter().min().unwrap(), *warp.iter().max().unwrap());
        let flags = u32::from(warp.contains(&13)) | u32::from(warp.iter().all(|&v| v < 1000)) << 1;
        assert_eq!(out, [ballot, sum, least, most, flags, ballot.count_ones()], "thread {i}");
    }
}

#[test]
fn parts_of_a_warp_go_their_own_ways() {
    let x = numbers(64);
    let out = run("divergent", grid(1, 64), &x, 64, 0).unwrap();
    for (i, &out) in out.iter().enumerate() {
        let half = &x[i / 16 * 16..][..16];
        // The lower halves add twice as often as the upper ones.
        let expected = if i % 32 < 16 { 2 * half.iter().sum::<u32>() } else { *half.iter().max().unwrap() };
        assert_eq!(out, expected, "thread {i}");
    }
}

#[test]
fn integers_are_added_by_all_threads() {
    let x = numbers(700);
    let out = run("histogram", grid(3, 256), &x, 10, 0).unwrap();
    let mut counts = vec![0; 10];
    for v in &x {
        counts[(v % 10) as usize] += 1;
    }
    assert_eq!(out, counts);
}

#[test]
fn waits_without_end_are_errors() {
    let x = numbers(64);
    let failure = |entry, threads| run(entry, grid(2, threads), &x, 64, 0).unwrap_err();
    for (entry, threads, expected) in [
        ("some_return", 64, "block 0: thread 0 waits in __syncthreads at tests:94 for thread 40, which has returned"),
        (
            "other_barrier",
            64,
            "block 0: thread 32 is at the barrier of tests:102 while thread 0 waits at that of tests:100: all threads of a block must come to the same",
        ),
        (
            "mixed_waits",
            64,
            "block 0: thread 0 waits in __syncwarp at tests:108 for thread 5, which waits in __syncthreads at tests:110",
        ),
        ("lane_returned", 32, "block 0: thread 0 waits in __shfl_sync at tests:117 for thread 3, which has returned"),
        (
            "no_such_lane",
            20,
            "block 0: thread 0 waits in __ballot_sync at tests:121 for thread 20, which does not exist",
        ),
        (
            "not_in_mask",
            32,
            "block 0: thread 1 calls __any_sync at tests:125 with the mask 0x1, which does not name it",
        ),
        (
            "other_mask",
            32,
            "block 0: thread 16 calls __all_sync at tests:129 with the mask 0xffffffff while thread 0 waits in __all_sync at tests:129 with the mask 0xffff00ff",
        ),
        (
            "read_outside",
            32,
            "block 0: thread 7 reads lane 8 in __shfl_down_sync at tests:135, which the mask 0xff does not name",
        ),
        (
            "bad_width",
            32,
            "block 0: thread 0 calls __shfl_xor_sync at tests:140 with the width 12, which is no power of two up to 32",
        ),
    ] {
        assert_eq!(failure(entry, threads), format!("the driver reports: kernel {entry}, {expected}"));
    }
    // The library is whole after all that.
    assert_eq!(run("sum_by_static_memory", grid(1, 64), &x, 1, 0), Ok(vec![x.iter().sum()]));
}

#[test]
fn accesses_and_numbers_are_checked() {
    for (entry, thread, expected) in [
        ("bad_address", 9, "is null or no multiple of 16"),
        ("bad_entry", 31, "entry 32 of 'unsigned int [32]'"),
        ("bad_shift", 31, "'unsigned int' is shifted by 32 bits"),
        ("bad_divisor", 0, "'unsigned int' is divided by 0"),
        ("no_address", 0, "the address 0 is null"),
    ] {
        let error = run(entry, grid(1, 32), &numbers(32), 64, 0).unwrap_err();
        assert!(error.contains(&format!("kernel {entry}, block 0: thread {thread}, tests:")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn launches_are_checked() {
    let x = numbers(64);
    let failure = |grid| run("at_most_64", grid, &x, 64, 0).unwrap_err();
    assert!(failure(grid(1, 65)).contains("65 threads were asked for, the kernel is compiled for 1 to 64"));
    assert!(failure(grid(1, 0)).contains("0 threads were asked for"));
    let shared = Grid { blocks: 1, threads: 64, shared: 1 << 20 };
    assert!(failure(shared).contains("1048576 bytes of shared memory were asked for, the limit is 232448"));

    let emulation = emulation();
    let library = emulation.machine.compiler.library("tests", KERNELS).unwrap();
    // SAFETY: the entry compares the size before it reads anything.
    let outcome = unsafe { emulation.machine.launch(&library, "at_most_64", grid(1, 1), &[0; 20]) };
    assert!(outcome.unwrap_err().to_string().contains("differ in size"));
    // SAFETY: there is no such kernel.
    let outcome = unsafe { emulation.machine.launch(&library, "missing", grid(1, 1), &[]) };
    assert!(outcome.unwrap_err().to_string().contains("no kernel missing"));
    let refused = emulation.machine.compiler.library("wrong", "KERNEL(wrong, int, 1) {\n    nonsense;\n}").unwrap_err();
    assert!(refused.to_string().contains("wrong:2:5: error"), "{refused}");
}

#[test]
fn writes_past_the_end_are_found() {
    let error = run("overrun", grid(1, 64), &numbers(64), 61, 0).unwrap_err();
    assert!(error.ends_with("kernel overrun wrote 0 bytes past the end of `out`, which has 244 bytes"), "{error}");
    let emulation = emulation();
    let at = emulation.allocate(40, "ten").unwrap();
    assert!(emulation.upload(at, &[0; 10]).is_ok());
    assert!(
        emulation.upload(at + 4, &[0; 10]).unwrap_err().to_string().contains("bytes 4 to 44 of `ten`, which has 40")
    );
    assert!(emulation.fill(at, 11, 0).is_err());
    assert!(emulation.download(at, &mut [0; 11]).is_err());
    emulation.free(at);
    assert!(emulation.download(at, &mut [0]).is_err());
}

#[test]
fn what_was_never_written_shows() {
    assert_eq!(run("untouched", grid(3, 1), &[1], 6, 0), Ok(vec![u32::MAX; 6]));
}

#[test]
fn conversions_agree_with_the_products() {
    // All halves, and the floats around the middle of each step.
    let halves: Vec<u32> = (0..0x10000).collect();
    let floats = run("from_half", grid(256, 256), &halves, halves.len(), 0).unwrap();
    let mut inputs = Vec::new();
    for (&half, &float) in halves.iter().zip(&floats) {
        let value = half_to_float(half as u16);
        assert!(f32::from_bits(float).to_bits() == value.to_bits() || value.is_nan(), "half {half:#x}");
        inputs.extend([float, float + 0xFFF, float + 0x1000, float + 0x1001, float.rotate_left(7)]);
    }
    let grid = grid(inputs.len().div_ceil(256) as u32, 256);
    let rounded = run("to_both", grid, &inputs, inputs.len(), 0).unwrap();
    for (&input, &rounded) in inputs.iter().zip(&rounded) {
        let value = f32::from_bits(input);
        let expected = u32::from(float_to_half(value)) | u32::from(float_to_bfloat(value)) << 16;
        assert_eq!(rounded, expected, "{value:e}");
    }
    // Known pairs, among them the ties.
    for (value, half) in [
        (1.0, 0x3C00),
        (-2.0, 0xC000),
        (65504.0, 0x7BFF),
        (65519.996, 0x7BFF),
        (65520.0, 0x7C00),
        (1.0 + 1.0 / 2048.0, 0x3C00),
        (1.0 + 3.0 / 2048.0, 0x3C02),
        (2f32.powi(-24), 1),
        (2f32.powi(-25), 0),
        (1.5 * 2f32.powi(-24), 2),
        (f32::INFINITY, 0x7C00),
        (-0.0, 0x8000),
    ] {
        assert_eq!(float_to_half(value), half, "{value:e}");
    }
    for (value, bfloat) in [(1.0, 0x3F80), (1.0 + 1.0 / 256.0, 0x3F80), (1.0 + 3.0 / 256.0, 0x3F82), (f32::MAX, 0x7F80)]
    {
        assert_eq!(float_to_bfloat(value), bfloat, "{value:e}");
    }
}

#[test]
fn products_take_every_layout() {
    let emulation = emulation();
    let (m, n, k) = (3usize, 5, 4);
    let value = |i: usize, j: usize, seed: usize| ((i * 5 + j * 3 + seed) % 7) as f32 - 3.0;
    for case in 0..16 {
        let [transpose_a, transpose_b, accumulate, with_bias] = [1, 2, 4, 8].map(|bit| case & bit != 0);
        // Small integers are exact in every type.
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let place = |rows: usize, cols: usize, number: &dyn Fn(usize, usize) -> f32| {
                let stride = cols + 3;
                let values: Vec<f32> = (0..rows * stride)
                    .map(|i| if i % stride < cols { number(i / stride, i % stride) } else { f32::NAN })
                    .collect();
                let bits: Vec<u8> = match dtype {
                    DType::F32 => bytemuck::cast_slice(&values).to_vec(),
                    DType::F16 => values.iter().flat_map(|&v| float_to_half(v).to_le_bytes()).collect(),
                    DType::BF16 => values.iter().flat_map(|&v| float_to_bfloat(v).to_le_bytes()).collect(),
                };
                let mut words = vec![0u32; bits.len().div_ceil(4)];
                bytemuck::cast_slice_mut(&mut words)[..bits.len()].copy_from_slice(&bits);
                let at = emulation.allocate(words.len() as u64 * 4, "matrix").unwrap();
                emulation.upload(at, &words).unwrap();
                MatrixAt { at, dtype, stride: stride as u64 }
            };
            let a = if transpose_a { place(k, m, &|i, j| value(j, i, 1)) } else { place(m, k, &|i, j| value(i, j, 1)) };
            let b = if transpose_b { place(n, k, &|i, j| value(j, i, 2)) } else { place(k, n, &|i, j| value(i, j, 2)) };
            let out = place(m, n, &|i, j| value(i, j, 3));
            let bias: Vec<u32> = (0..n).map(|j| (j as f32).to_bits()).collect();
            let bias_at = emulation.allocate(n as u64 * 4, "bias").unwrap();
            emulation.upload(bias_at, &bias).unwrap();
            let product = Product {
                m: m as u64,
                n: n as u64,
                k: k as u64,
                a,
                transpose_a,
                b,
                transpose_b,
                out,
                bias: if with_bias { bias_at } else { 0 },
                accumulate,
            };
            // SAFETY: everything lies in memory of the device.
            unsafe { emulation.product(&product) }.unwrap();
            for i in 0..m {
                for j in 0..n {
                    let mut expected: f32 = (0..k).map(|l| value(i, l, 1) * value(l, j, 2)).sum();
                    expected += if with_bias { j as f32 } else { 0.0 };
                    expected += if accumulate { value(i, j, 3) } else { 0.0 };
                    // SAFETY: the matrix has this entry.
                    let got = unsafe { product::read(out, i as u64 * out.stride + j as u64) };
                    assert_eq!(got, expected, "case {case}, {dtype:?}, entry {i}, {j}");
                }
            }
            let too_large = Product { k: 40, ..product };
            // SAFETY: sizes are checked before anything is read.
            assert!(unsafe { emulation.product(&too_large) }.is_err());
        }
    }
}

#[test]
fn compiled_kernels_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let emulation = Emulation::new(&KernelCache::Folder(folder.path().to_owned())).unwrap();
    let text = "struct Nothing {\n    int x;\n};\nKERNEL(kept, Nothing, 1) {}\n";
    let files = || std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect::<Vec<_>>();
    let first = emulation.machine.compiler.library("kept", text).unwrap();
    assert_eq!(files().len(), 1, "{:?}", files());
    assert!(Arc::ptr_eq(&first, &emulation.machine.compiler.library("kept", text).unwrap()));
    assert!(!Arc::ptr_eq(&first, &emulation.machine.compiler.library("kept", &format!("{text}\n")).unwrap()));
    assert_eq!(files().len(), 2);
    let unkept =
        Emulation::new(&KernelCache::Off).unwrap().machine.compiler.library("unkept", &text.replace("kept", "unkept"));
    // SAFETY: the kernel reads nothing.
    unsafe { unkept.unwrap().run("unkept", grid(1, 1), &[0; 4]) }.unwrap();
    // SAFETY: the kernel reads nothing.
    unsafe { emulation.machine.launch(&first, "kept", grid(1, 1), &[0; 4]) }.unwrap();
}
