use std::{
    collections::BTreeMap,
    env,
    ffi::{CStr, OsString, c_char, c_void},
    fmt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use super::super::{compile::hash, runtime::Grid};
use crate::backend::BackendError;

const EMULATION: &str = include_str!("../../../../cuda/emulation.h");

/// Checks that the compiler puts into kernels; `cuda/emulation.h` says what a failed one does.
const CHECKS: &str = "-fsanitize=alignment,null,bounds,shift-exponent,integer-divide-by-zero";

/// A kernel's entry, see `KERNEL` in `cuda/emulation.h`: the address and size of its arguments, blocks, threads, bytes of dynamic shared
/// memory. It gives null, or a message that lives until the next launch.
type Entry = unsafe extern "C" fn(*const c_void, usize, u32, u32, u32) -> *const c_char;

/// The compiler of the machine.
#[derive(Debug)]
pub(super) struct Compiler {
    program: OsString,
    version: String,
    options: Vec<&'static str>,
    cache: Option<PathBuf>,
}

impl Compiler {
    /// # Errors
    /// [`BackendError::Unavailable`] if there is none.
    pub(super) fn new(cache: Option<PathBuf>) -> Result<Self, BackendError> {
        let program = env::var_os("CXX").filter(|c| !c.is_empty()).unwrap_or_else(|| "c++".into());
        let unavailable = |reason| BackendError::Unavailable {
            backend: "cuda",
            reason,
            remedy: "install a C++ compiler (apt-get install g++), or name one in CXX",
        };
        let output = Command::new(&program)
            .arg("--version")
            .output()
            .map_err(|error| unavailable(format!("the C++ compiler {program:?} does not start: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().unwrap_or_default().trim().to_owned();
        if !output.status.success() || version.is_empty() {
            return Err(unavailable(format!("the C++ compiler {program:?} does not tell its version")));
        }
        // Products and sums are only fused where the source says so, for the same bits on every machine.
        let mut options =
            vec!["-std=c++17", "-O2", "-w", "-c", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", CHECKS];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("fma") {
            options.push("-mfma");
        }
        Ok(Self { program, version, options, cache })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The library of a text, which is compiled unless the process or the cache has it.
    ///
    /// # Errors
    /// [`BackendError::Driver`] with what the compiler says.
    pub(super) fn library(&self, label: &str, text: &str) -> Result<Arc<Library>, BackendError> {
        // One of each in a process: the system loads a file once, and a library has one block in flight.
        static LOADED: Mutex<BTreeMap<String, Slot>> = Mutex::new(BTreeMap::new());
        type Slot = Arc<Mutex<Option<Arc<Library>>>>;

        let source =
            format!("#define HOPWISE_EMULATION 1\n#line 1 \"emulation.h\"\n{EMULATION}\n#line 1 \"{label}\"\n{text}");
        let key = format!("{:?} {} {:?}\n{source}", self.program, self.version, self.options);
        let name = format!("{:016x}{:016x}.so", hash(key.as_bytes(), 0), hash(key.as_bytes(), 1));
        let slot = LOADED.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default().clone();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = &*slot {
            return Ok(library.clone());
        }
        let library = Arc::new(match &self.cache {
            Some(folder) => self.cached(label, &source, folder, &name)?,
            None => self.compiled(label, &source, &env::temp_dir(), |file| Library::load(&file))?,
        });
        *slot = Some(library.clone());
        Ok(library)
    }

    fn cached(&self, label: &str, source: &str, folder: &Path, name: &str) -> Result<Library, BackendError> {
        let path = folder.join(name);
        if path.exists() {
            return Library::load(&path);
        }
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        // Named when it is whole: other processes may look for it.
        self.compiled(label, source, folder, |file| {
            std::fs::rename(file, &path).map_err(|error| failed(&path, &error))?;
            Library::load(&path)
        })
    }

    /// Compiles in a new folder below `parent`, and hands the file on before the folder goes away.
    fn compiled(
        &self,
        label: &str,
        source: &str,
        parent: &Path,
        take: impl FnOnce(PathBuf) -> Result<Library, BackendError>,
    ) -> Result<Library, BackendError> {
        let _span = tracing::debug_span!("c++", label).entered();
        let folder = tempfile::tempdir_in(parent).map_err(|error| failed(parent, &error))?;
        let [text, object, library] = ["kernel.cpp", "kernel.o", "kernel.so"].map(|name| folder.path().join(name));
        std::fs::write(&text, source).map_err(|error| failed(&text, &error))?;
        self.run(label, Command::new(&self.program).args(&self.options).arg("-o").args([&object, &text]))?;
        // A step of its own: with the checks named, a linker's library would come along.
        self.run(label, Command::new(&self.program).arg("-shared").arg("-o").args([&library, &object]))?;
        take(library)
    }

    fn run(&self, label: &str, command: &mut Command) -> Result<(), BackendError> {
        let output = command.env("LC_ALL", "C").output().map_err(|error| failed(Path::new(&self.program), &error))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(BackendError::Driver(format!("{:?} refuses {label}: {message}", self.program)))
    }
}

/// The kernels of one text.
pub(super) struct Library {
    library: libloading::Library,
    /// A library has one block in flight.
    running: Mutex<()>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.library.fmt(f)
    }
}

impl Library {
    fn load(path: &Path) -> Result<Self, BackendError> {
        // SAFETY: the file is this crate's own kernels, which run nothing when they are loaded.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| failed(path, &error))?;
        Ok(Self { library, running: Mutex::new(()) })
    }

    /// Runs a kernel to its end.
    ///
    /// # Safety
    /// `entry` is a kernel, `arguments` are its own, and their pointers and sizes are valid.
    pub(super) unsafe fn run(&self, entry: &str, grid: Grid, arguments: &[u8]) -> Result<(), BackendError> {
        // SAFETY: kernels have this type, see `KERNEL` in `cuda/emulation.h`.
        let function = unsafe { self.library.get::<Entry>(entry) }
            .map_err(|error| BackendError::Driver(format!("no kernel {entry}: {error}")))?;
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise, and nothing else of the library runs.
        let message =
            unsafe { function(arguments.as_ptr().cast(), arguments.len(), grid.blocks, grid.threads, grid.shared) };
        if message.is_null() {
            return Ok(());
        }
        // SAFETY: the message ends in a zero byte, and lives until the next launch, which waits for the lock.
        let message = unsafe { CStr::from_ptr(message) };
        Err(BackendError::Driver(message.to_string_lossy().into_owned()))
    }
}

fn failed(path: &Path, error: &dyn fmt::Display) -> BackendError {
    BackendError::Driver(format!("emulation: {}: {error}", path.display()))
}
