//! A file in memory with the bytes of one execution, since readers take files.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

thread_local! {
    static FILE: RefCell<Option<(PathBuf, File)>> = const { RefCell::new(None) };
}

/// Calls `read` with the path of a file that holds `bytes`.
pub fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    FILE.with_borrow_mut(|file| {
        let (path, file) = file.get_or_insert_with(|| {
            let path = Path::new("/dev/shm").join(format!("rowloom-fuzz-{}", std::process::id()));
            let file = File::create(&path).expect("/dev/shm is writable");
            (path, file)
        });
        file.set_len(0).expect("the file can be emptied");
        fs::write(&*path, bytes).expect("/dev/shm has room");
        read(path);
    });
}
