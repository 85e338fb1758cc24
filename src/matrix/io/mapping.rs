//! Files mapped into memory. A file that is cut short or overwritten while it is mapped gives an error, not a crash.
//!
//! Reading a mapped page that its file no longer has raises SIGBUS, which would end the program. A handler, installed
//! with the first mapping, replaces the lost pages by zero pages and marks the mapping: the reader sees zeros, checks
//! [`Mapping::is_intact`] and reports an error. Any other SIGBUS is passed to the previous handler.
//!
//! A file that is overwritten in place is recognised by its time of modification. Its bytes may change at any moment, so no
//! address may be derived from bytes of a mapping: readers copy what they derive addresses from and check the copy. Rowloom
//! itself never overwrites: its writers replace files by renaming, and a mapping keeps the file that it was opened on.

#![allow(unsafe_code)] // maps files and answers SIGBUS

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use memmap2::{Mmap, MmapOptions};

use super::Input;
use crate::error::{Error, Place, Result};
use crate::matrix::array::SharedBytes;

/// A whole regular file, mapped to be read.
#[derive(Debug)]
pub struct Mapping {
    // Dropped in this order: the slot must be free before the addresses can belong to anyone else.
    registration: Registration,
    map: Mmap,
    file: File,
    /// When the file was last modified before it was mapped.
    modified: Option<SystemTime>,
    path: PathBuf,
}

impl Mapping {
    /// Maps a file; directories, pipes and devices are refused.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::of(&Input::open(path.as_ref())?)
    }

    /// Maps an open file.
    pub fn of(input: &Input) -> Result<Self> {
        let path = &input.path;
        let failed = |error| Error::read(path, error);
        let file = input.file.try_clone().map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let modified = metadata.modified().ok();
        install_handler().map_err(failed)?;
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        // SAFETY: another program may overwrite the bytes. Every byte is a valid `u8`, no address is derived from a byte
        // that could still change, and `is_intact` reports the change. The handler answers for a file that is cut short.
        let map = unsafe { MmapOptions::new().len(length).map(&file) }.map_err(failed)?;
        let registration = Registration::of(&map).ok_or_else(|| {
            let reason = format!("more than {SLOTS} files, or one above 1 TiB, cannot be mapped at once");
            failed(std::io::Error::other(reason))
        })?;
        Ok(Self { registration, map, file, modified, path: path.clone() })
    }

    /// All bytes the file had when it was opened; zeros where it has been cut off since, other bytes where it was overwritten.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Whether the file still has the bytes it was opened with.
    ///
    /// The handler sees lost pages only. The rest of the last page turns to zero without a signal, and overwritten bytes
    /// raise none, so the length and the time of modification are checked too.
    pub fn is_intact(&self) -> bool {
        let unchanged = self
            .file
            .metadata()
            .is_ok_and(|now| now.len() >= self.map.len() as u64 && now.modified().ok() == self.modified);
        unchanged && !REGISTRY[self.registration.0].lost.load(Ordering::Acquire)
    }

    /// The error to report once [`Mapping::is_intact`] is false.
    pub fn changed(&self) -> Error {
        Error::input(
            Place::file(&self.path),
            "the file was changed or cut short, or its disk failed, while it was in use; restore it and read it again",
        )
    }
}

impl SharedBytes for Mapping {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn finds_changes(&self) -> bool {
        true
    }

    fn is_intact(&self) -> bool {
        self.is_intact()
    }

    fn changed(&self) -> Error {
        self.changed()
    }
}

/// Files that can be mapped at once.
const SLOTS: usize = 1024;
/// Bits of a slot that count units of [`UNIT_BYTES`]; the others hold the first unit's number.
const COUNT_BITS: u32 = 28;
/// Every page size is a multiple of this.
const UNIT_BYTES: u64 = 4096;

/// One mapping as the handler sees it. Address and length share one word, so that a handler running in another thread
/// never pairs the address of one mapping with the length of another.
struct Slot {
    /// Zero: free.
    units: AtomicU64,
    lost: AtomicBool,
}

static REGISTRY: [Slot; SLOTS] =
    [const { Slot { units: AtomicU64::new(0), lost: AtomicBool::new(false) } }; SLOTS];

/// Only for those who register; the handler never waits for it.
static REGISTERING: Mutex<()> = Mutex::new(());

/// A taken slot, by its number.
#[derive(Debug)]
struct Registration(usize);

impl Registration {
    fn of(map: &Mmap) -> Option<Self> {
        let first = map.as_ptr() as u64 / UNIT_BYTES;
        let count = (map.len() as u64).div_ceil(UNIT_BYTES);
        if first >> (u64::BITS - COUNT_BITS) != 0 || count >> COUNT_BITS != 0 {
            return None;
        }
        // A panic elsewhere cannot leave the registry half changed: there is nothing behind the lock.
        let _registering = REGISTERING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let index = REGISTRY.iter().position(|slot| slot.units.load(Ordering::Relaxed) == 0)?;
        REGISTRY[index].lost.store(false, Ordering::Relaxed);
        REGISTRY[index].units.store(first << COUNT_BITS | count, Ordering::Release);
        Some(Self(index))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        REGISTRY[self.0].units.store(0, Ordering::Release);
    }
}

/// What a SIGBUS did before the handler was installed, and the size of a page.
struct Before {
    action: libc::sigaction,
    page_bytes: u64,
}

static BEFORE: OnceLock<Before> = OnceLock::new();

fn install_handler() -> std::io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if *installed {
        return Ok(());
    }
    // SAFETY: all-zero bytes are a valid `sigaction`; both calls get valid pointers or null. The handler only loads
    // and stores atomics and makes system calls. The old action is stored before the handler can run.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut action) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let page_bytes = libc::sysconf(libc::_SC_PAGESIZE).max(UNIT_BYTES as libc::c_long) as u64;
        BEFORE.get_or_init(|| Before { action, page_bytes });
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, &ours, std::ptr::null_mut()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    *installed = true;
    Ok(())
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: the kernel hands a valid `info`; `si_addr` is set for a fault (positive code).
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    if code != libc::BUS_ADRERR || !replace_lost_pages(address, before.page_bytes) {
        forward(&before.action, signal, info, context);
    }
}

/// Puts zero pages from the page of `address` to the end of its mapping; false if it lies in none of ours.
fn replace_lost_pages(address: u64, page_bytes: u64) -> bool {
    for slot in &REGISTRY {
        let units = slot.units.load(Ordering::Acquire);
        let start = (units >> COUNT_BITS) * UNIT_BYTES;
        let end = start + (units & ((1 << COUNT_BITS) - 1)) * UNIT_BYTES;
        if !(start..end).contains(&address) {
            continue;
        }
        slot.lost.store(true, Ordering::Release);
        let from = address - address % page_bytes;
        // SAFETY: the range lies in a mapping that the faulting thread is reading, hence that is still there and
        // read-only; new pages in its place change no address. `errno` is what it was for the interrupted code.
        return unsafe {
            let errno = libc::__errno_location();
            let errno_before = *errno;
            let pages = libc::mmap(
                from as *mut libc::c_void,
                (end - from) as usize,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            *errno = errno_before;
            pages != libc::MAP_FAILED
        };
    }
    false
}

/// Does with a signal that is not ours what would have been done without us.
fn forward(
    action: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the old action is as the system gave it, so its handler has the type its flags say. Raising the signal
    // under the default action ends the process as soon as this handler returns.
    unsafe {
        match action.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // The kernel ends a process that ignores its own fault, too; a signal that someone sent may be
                // ignored.
                if action.sa_sigaction == libc::SIG_IGN && (*info).si_code <= 0 {
                    return;
                }
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, std::ptr::null_mut());
                libc::raise(signal);
            }
            handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn file_of(bytes: usize) -> (tempfile::NamedTempFile, Mapping) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; bytes]).unwrap();
        let mapping = Mapping::open(file.path()).unwrap();
        (file, mapping)
    }

    #[test]
    fn a_file_cut_short_reads_as_zeros_and_is_reported() {
        let (file, mapping) = file_of(100_000);
        let (other_file, other) = file_of(50_000);
        assert!(mapping.is_intact());
        file.as_file().set_len(5000).unwrap();
        assert_eq!(mapping.bytes()[99_999], 0);
        assert!(REGISTRY[mapping.registration.0].lost.load(Ordering::Relaxed));
        assert_eq!(mapping.bytes()[20_000..].iter().filter(|&&byte| byte != 0).count(), 0);
        assert!(mapping.bytes()[..5000].iter().all(|&byte| byte == 7));
        assert!(!mapping.is_intact());
        assert!(mapping.changed().to_string().contains("cut short"));
        // Growing it again does not bring the bytes back.
        file.as_file().set_len(100_000).unwrap();
        assert!(!mapping.is_intact());
        assert!(other.is_intact() && other.bytes()[49_999] == 7);
        drop(other_file);
    }

    #[test]
    fn a_file_overwritten_at_its_length_is_reported() {
        use std::os::unix::fs::FileExt;
        let (file, mapping) = file_of(9000);
        // The time of modification has the resolution of a timer tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.as_file().write_all_at(&[8], 4000).unwrap();
        assert_eq!(mapping.bytes()[4000], 8);
        assert!(!mapping.is_intact());
    }

    #[test]
    fn a_loss_within_the_last_page_is_noticed_too() {
        let (file, mapping) = file_of(5000);
        file.as_file().set_len(4999).unwrap();
        assert_eq!(mapping.bytes()[4999], 0);
        assert!(!mapping.is_intact());
    }

    #[test]
    fn a_slot_used_again_starts_intact() {
        for _ in 0..50 {
            let (file, mapping) = file_of(9000);
            assert!(mapping.is_intact());
            file.as_file().set_len(0).unwrap();
            assert_eq!(mapping.bytes()[8999], 0);
        }
    }

    #[test]
    fn many_threads_may_fault_at_once() {
        let (file, mapping) = file_of(4 << 20);
        file.as_file().set_len(1).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let mapping = &mapping;
                scope.spawn(move || {
                    assert!(
                        mapping.bytes()[4096..]
                            .iter()
                            .skip(thread * 997)
                            .step_by(4096)
                            .all(|&byte| byte == 0)
                    );
                });
            }
        });
        assert!(!mapping.is_intact());
    }

    #[test]
    fn empty_files_map_and_directories_and_pipes_are_refused() {
        assert_eq!(file_of(0).1.bytes(), b"");
        let folder = tempfile::tempdir().unwrap();
        assert!(Mapping::open(folder.path()).unwrap_err().to_string().contains("folder"));
        assert!(matches!(Mapping::open(folder.path().join("absent")), Err(Error::Read { .. })));
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: `name` is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(Mapping::open(&pipe).unwrap_err().to_string().contains("pipe"));
    }

    /// Runs itself in a process of its own, which the variable marks, and sees how that ends.
    #[test]
    fn a_bus_error_elsewhere_still_ends_the_process() {
        const MARK: &str = "ROWLOOM_TEST_BUS_ERROR";
        if std::env::var_os(MARK).is_some() {
            let (_file, _mapping) = file_of(100);
            let file = tempfile::tempfile().unwrap();
            file.set_len(8192).unwrap();
            // SAFETY: nobody else has this file; losing its pages is the point.
            let foreign = unsafe { Mmap::map(&file) }.unwrap();
            file.set_len(0).unwrap();
            std::process::exit(i32::from(foreign[5000]));
        }
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "internal::matrix::io::mapping::tests::a_bus_error_elsewhere_still_ends_the_process",
            ])
            .env(MARK, "1")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(libc::SIGBUS));
    }
}
