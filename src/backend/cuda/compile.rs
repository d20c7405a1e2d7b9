//! From CUDA C++ to a cubin for one architecture, by NVRTC, kept on disk.

use std::{
    ffi::{CStr, CString},
    hash::Hasher,
    path::PathBuf,
};

use cudarc::nvrtc::{result as nvrtc, sys};

use super::source::Module;
use crate::{
    backend::BackendError,
    files::{cache_folder, write_atomically},
};

/// Bump when the format of the cache or the options change.
const CACHE_VERSION: u32 = 1;
/// Every cubin starts with it.
const ELF: &[u8] = b"\x7fELF";

/// Where compiled kernels are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KernelCache {
    /// `HOPWISE_CUDA_CACHE` if it is set, else the folder of the user for such files.
    #[default]
    Standard,
    /// This folder.
    Folder(PathBuf),
    /// Nowhere: every process compiles what it uses.
    Off,
}

impl KernelCache {
    pub(super) fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::Folder(folder) => Some(folder.clone()),
            Self::Standard => {
                let own = std::env::var_os("HOPWISE_CUDA_CACHE").filter(|v| !v.is_empty()).map(PathBuf::from);
                own.or_else(|| cache_folder().map(|folder| folder.join("cuda")))
            }
        }
    }
}

/// What a compilation says of a module beside its code.
#[derive(Clone, Debug)]
pub struct CompiledModule {
    /// The file and its defines.
    pub label: String,
    /// Code for one architecture.
    pub cubin: Vec<u8>,
    /// What the assembler says: registers and spills of every kernel.
    pub log: String,
}

/// NVRTC for one architecture.
#[derive(Debug)]
pub(super) struct Compiler {
    /// `sm_90a`.
    architecture: String,
    version: (i32, i32),
    cache: Option<PathBuf>,
}

impl Compiler {
    /// # Errors
    /// [`BackendError::Unavailable`] if NVRTC is missing.
    pub(super) fn new(architecture: String, cache: &KernelCache) -> Result<Self, BackendError> {
        // SAFETY: it only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(BackendError::Unavailable {
                backend: "cuda",
                reason: "the library nvrtc, which compiles its kernels, was not found".into(),
                remedy: "install the CUDA toolkit (or the package nvidia-cuda-nvrtc) and put its folder on LD_LIBRARY_PATH",
            });
        }
        let mut version = (0, 0);
        // SAFETY: both pointers are valid.
        unsafe { sys::nvrtcVersion(&mut version.0, &mut version.1) }.result().map_err(refused)?;
        Ok(Self { architecture, version, cache: cache.folder() })
    }

    /// The code of a module, from the cache if it is there.
    pub(super) fn cubin(&self, module: &Module) -> Result<Vec<u8>, BackendError> {
        let text = module.text();
        let cached = self.cache.as_ref().map(|folder| folder.join(self.file_name(&text)));
        if let Some(cubin) = cached.as_ref().and_then(|path| std::fs::read(path).ok()).and_then(unsealed) {
            return Ok(cubin);
        }
        let compiled = self.compile(module.label(), &text)?;
        if let Some(path) = cached {
            // A cache that cannot be written costs time, nothing else.
            let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            let written = folder.and_then(|()| write_atomically(&path, &sealed(&compiled.cubin)));
            if let Err(error) = written {
                tracing::warn!(path = %path.display(), %error, "a compiled kernel was not kept");
            }
        }
        Ok(compiled.cubin)
    }

    pub(super) fn compile(&self, label: String, text: &str) -> Result<CompiledModule, BackendError> {
        let _span = tracing::debug_span!("nvrtc", label).entered();
        let options = [
            format!("--gpu-architecture={}", self.architecture),
            "--std=c++17".into(),
            "--ptxas-options=-v".into(),
            "--extra-device-vectorization".into(),
        ];
        let source = CString::new(text).expect("the sources hold no zero bytes");
        let name = CString::new(label.as_str()).expect("labels hold no zero bytes");
        let program = Program(nvrtc::create_program(&source, Some(&name)).map_err(refused)?);
        // SAFETY: the program is alive.
        let outcome = unsafe { nvrtc::compile_program(program.0, &options) };
        // SAFETY: the program is alive.
        let log = unsafe { nvrtc::get_program_log(program.0) }.map_err(refused)?;
        let log = bytemuck::cast_slice::<_, u8>(&log);
        let log = CStr::from_bytes_until_nul(log).unwrap_or_default().to_string_lossy().into_owned();
        outcome.map_err(|_| BackendError::Driver(format!("NVRTC refuses {label}: {log}")))?;
        let mut len = 0;
        // SAFETY: the program is alive, and the buffer has the length that NVRTC asked for.
        let cubin = unsafe {
            sys::nvrtcGetCUBINSize(program.0, &mut len).result().map_err(refused)?;
            let mut cubin = vec![0u8; len];
            sys::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast()).result().map_err(refused)?;
            cubin
        };
        Ok(CompiledModule { label, cubin, log })
    }

    fn file_name(&self, text: &str) -> String {
        let key = format!("{CACHE_VERSION} {} {}.{}\n{text}", self.architecture, self.version.0, self.version.1);
        format!("{:016x}{:016x}.cubin", hash(key.as_bytes(), 0), hash(key.as_bytes(), 1))
    }
}

struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: this is its only owner.
        _ = unsafe { nvrtc::destroy_program(self.0) };
    }
}

/// A hash that is the same in every process and version.
pub(super) fn hash(bytes: &[u8], seed: u64) -> u64 {
    // FNV-1a, whose high bits are mixed once more: keys are long, and two seeds are taken.
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    hasher.write(bytes);
    let x = hasher.finish();
    (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A cubin with its hash behind it, so that a damaged file is noticed.
fn sealed(cubin: &[u8]) -> Vec<u8> {
    [cubin, &hash(cubin, 2).to_le_bytes()].concat()
}

fn unsealed(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let at = file.len().checked_sub(8)?;
    let seal = u64::from_le_bytes(file[at..].try_into().ok()?);
    file.truncate(at);
    (file.starts_with(ELF) && hash(&file, 2) == seal).then_some(file)
}

fn refused(error: nvrtc::NvrtcError) -> BackendError {
    BackendError::Driver(format!("NVRTC: {error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_not_taken() {
        let cubin = [ELF, &[7; 100]].concat();
        let whole = sealed(&cubin);
        assert_eq!(unsealed(whole.clone()), Some(cubin));
        for at in [0, 50, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(unsealed(damaged), None, "byte {at}");
        }
        assert_eq!(unsealed(whole[..60].to_vec()), None);
        assert_eq!(unsealed(Vec::new()), None);
    }
}
