//! A cache of compiled kernels on disk, keyed by their inputs.
//!
//! The key is a hash of the kernel's source, the compiler options (which include the architecture) and the compiler's
//! version. It is the file's name; the file's header repeats it and adds a hash of the content. A damaged, truncated or
//! foreign file is ignored and rewritten. A folder that cannot be written is not an error: the kernel is compiled again
//! next time. The folder's size is limited; the least recently used files are removed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::forms::Form;
use crate::files;

const MAGIC: &[u8; 16] = b"rowloom cubin 1\n";
/// File name extension of compiled kernels.
const EXTENSION: &str = "cubin";
/// Size limit of the folder.
const MAX_CACHE_BYTES: u64 = 256 << 20;

/// A cache folder, or none.
#[derive(Debug, Clone)]
pub struct KernelCache {
    folder: Option<PathBuf>,
}

impl KernelCache {
    /// The cache in the user's cache folder.
    pub fn of_user() -> Self {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Self { folder: caches.map(|caches| caches.join("rowloom").join("kernels")) }
    }

    /// A cache in `folder`.
    #[cfg(test)]
    pub fn at(folder: &Path) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// The stored machine code of `form`, compiled by `compiler`.
    pub fn load(&self, form: &Form, compiler: &str) -> Option<Vec<u8>> {
        let key = key(form, compiler);
        let path = file(self.folder.as_deref()?, form, key);
        let bytes = fs::read(&path).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?.strip_prefix(&key.to_le_bytes())?;
        let (hash, content) = rest.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*hash) == xxh3_64(content)).then(|| {
            touch(&path);
            content.to_vec()
        })
    }

    /// Stores the machine code of `form`, compiled by `compiler`, if the folder is writable.
    pub fn store(&self, form: &Form, compiler: &str, content: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let key = key(form, compiler);
        if let Err(error) = fs::create_dir_all(folder) {
            tracing::debug!(%error, "compiled kernels are not kept");
            return;
        }
        let written = files::replace(&file(folder, form, key), |file| {
            file.write_all(MAGIC)?;
            file.write_all(&key.to_le_bytes())?;
            file.write_all(&xxh3_64(content).to_le_bytes())?;
            file.write_all(content)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "compiled kernels are not kept");
        }
        prune(folder, MAX_CACHE_BYTES);
    }
}

/// Sets a file's modification time to now. If that fails, the file is only removed earlier.
fn touch(path: &Path) {
    let touched =
        fs::File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = touched {
        tracing::debug!(%error, "the time of a compiled kernel cannot be set");
    }
}

/// Removes the least recently used files until the rest has at most `max_bytes` bytes.
fn prune(folder: &Path, max_bytes: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let kernels = entries.flatten().filter_map(|entry| {
        let (path, metadata) = (entry.path(), entry.metadata().ok()?);
        let is_kernel = metadata.is_file() && path.extension().is_some_and(|ending| ending == EXTENSION);
        is_kernel.then_some((metadata.modified().ok()?, metadata.len(), path))
    });
    let mut kernels: Vec<(SystemTime, u64, PathBuf)> = kernels.collect();
    kernels.sort();
    let mut bytes: u64 = kernels.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, own_bytes, path) in kernels {
        if bytes <= max_bytes {
            return;
        }
        // If another process has removed the file already, its bytes are free as well.
        if let Err(error) = fs::remove_file(&path) {
            tracing::debug!(%error, "a compiled kernel cannot be removed");
        }
        bytes -= own_bytes;
    }
}

fn key(form: &Form, compiler: &str) -> u128 {
    let mut hash = Xxh3::new();
    let words = [form.text, compiler].into_iter().chain(form.options.iter().map(String::as_str));
    for word in words {
        // The length prefix keeps neighbouring strings apart.
        hash.update(&(word.len() as u64).to_le_bytes());
        hash.update(word.as_bytes());
    }
    hash.digest128()
}

fn file(folder: &Path, form: &Form, key: u128) -> PathBuf {
    let stem = form.file.strip_suffix(".cu").unwrap_or(form.file);
    folder.join(format!("{stem}-{key:032x}.{EXTENSION}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        Form { file: "a.cu", text: "text", options: vec!["-DA".into(), "-DB".into()] }
    }

    #[test]
    fn stored_code_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(&folder.path().join("deep/er"));
        assert_eq!(cache.load(&form(), "12.0"), None);
        cache.store(&form(), "12.0", b"machine code");
        assert_eq!(cache.load(&form(), "12.0").unwrap(), b"machine code");
        cache.store(&form(), "12.0", b"");
        assert_eq!(cache.load(&form(), "12.0").unwrap(), b"");
    }

    #[test]
    fn another_source_option_or_compiler_gives_another_key() {
        let same = key(&form(), "12.0");
        let options = |words: &[&str]| words.iter().map(|word| String::from(*word)).collect();
        for (other, compiler) in [
            (Form { text: "text ", ..form() }, "12.0"),
            (Form { options: options(&["-DA"]), ..form() }, "12.0"),
            (Form { options: options(&["-DA-DB"]), ..form() }, "12.0"),
            (Form { options: options(&["-DB", "-DA"]), ..form() }, "12.0"),
            (form(), "12.1"),
        ] {
            assert_ne!(key(&other, compiler), same, "{other:?} {compiler}");
        }
        assert_eq!(key(&form(), "12.0"), same);
    }

    #[test]
    fn damaged_and_foreign_files_are_ignored_and_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path());
        let path = file(folder.path(), &form(), key(&form(), "12.0"));
        cache.store(&form(), "12.0", b"machine code");
        let good = fs::read(&path).unwrap();
        for length in 0..good.len() {
            fs::write(&path, &good[..length]).unwrap();
            assert_eq!(cache.load(&form(), "12.0"), None, "cut to {length} bytes");
        }
        for byte in 0..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 1;
            fs::write(&path, bad).unwrap();
            assert_eq!(cache.load(&form(), "12.0"), None, "byte {byte} damaged");
        }
        cache.store(&form(), "12.0", b"machine code");
        assert_eq!(cache.load(&form(), "12.0").unwrap(), b"machine code");
    }

    #[test]
    fn a_folder_that_cannot_be_created_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        for cache in [KernelCache::at(&folder.path().join("file/below")), KernelCache { folder: None }] {
            cache.store(&form(), "12.0", b"machine code");
            assert_eq!(cache.load(&form(), "12.0"), None);
        }
    }

    #[test]
    fn the_least_recently_used_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path());
        let day = std::time::Duration::from_secs(86_400);
        let compilers = ["3 days ago", "2 days ago", "1 day ago"];
        let path = |compiler| file(folder.path(), &form(), key(&form(), compiler));
        for (compiler, days) in compilers.into_iter().zip([3, 2, 1]) {
            cache.store(&form(), compiler, b"machine code");
            let file = fs::File::options().append(true).open(path(compiler)).unwrap();
            file.set_modified(SystemTime::now() - day * days).unwrap();
        }
        fs::write(folder.path().join("foreign file"), [0; 999]).unwrap();
        let bytes = fs::metadata(path("1 day ago")).unwrap().len();
        prune(folder.path(), 3 * bytes);
        assert!(compilers.map(path).iter().all(|path| path.exists()));
        assert!(cache.load(&form(), "3 days ago").is_some());
        prune(folder.path(), 3 * bytes - 1);
        assert_eq!(compilers.map(|compiler| path(compiler).exists()), [true, false, true]);
        prune(folder.path(), bytes);
        assert_eq!(compilers.map(|compiler| path(compiler).exists()), [true, false, false]);
        assert!(folder.path().join("foreign file").exists());
    }

    #[test]
    fn storing_keeps_the_size_limit_and_the_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("b-0.cubin");
        let file = fs::File::create(&large).unwrap();
        file.set_len(MAX_CACHE_BYTES).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let cache = KernelCache::at(folder.path());
        cache.store(&form(), "12.0", b"machine code");
        assert!(!large.exists() && cache.load(&form(), "12.0").is_some());
    }
}
