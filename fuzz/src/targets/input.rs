//! A file with the bytes of one execution, since readers take files.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The folder of a thread's file. Removed when the thread ends.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rowloom-fuzz-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("the temporary folder is writable");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static FOLDER: RefCell<Option<Folder>> = const { RefCell::new(None) };
}

/// Calls `read` with the path of a file that holds `bytes`.
pub fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    FOLDER.with_borrow_mut(|folder| {
        let path = folder.get_or_insert_with(Folder::create).0.join("input");
        fs::write(&path, bytes).expect("the disk has room");
        read(&path);
    });
}
