//! Compressed files, archives, and paths that are not regular files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rowloom::Error;
use rowloom::internal::matrix::io::{ReadOptions, read};

use super::{ARRAY, REAL, accepted, dense_rows, error_of, given, packed, refused};

#[test]
fn damaged_gzip_is_refused_and_gzip_members_are_joined() {
    let (first, second) = (format!("{REAL}2 2 2\n1 1 3\n2 "), "2 4\n");
    let joined = [packed(&first), packed(second)].concat();
    assert_eq!(dense_rows(&accepted(&joined)), [[3.0, 0.0], [0.0, 4.0]]);
    let whole = packed(format!("{first}{second}"));
    // A file without its last byte, which holds no text, is refused too.
    for length in [2, 5, 15, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        refused(&whole[..length], None, "cut off");
    }
    let mut flipped = whole.clone();
    let checksum = whole.len() - 6;
    flipped[checksum] ^= 0x40;
    refused(&flipped, None, "damaged");
    refused([&whole[..], b"junk"].concat(), None, "trailing junk");
    refused([&whole[..], &[0; 512]].concat(), None, "trailing junk");
}

#[test]
fn a_gzip_bomb_is_refused() {
    let text = [REAL.as_bytes(), b"1 1 1\n1 1 1\n", &vec![b'\n'; 80 << 20]].concat();
    let bomb = packed(text);
    assert!(bomb.len() < 1 << 18);
    refused(bomb, None, "expands more than 256 times");
}

struct TarFile<'a> {
    name: &'a str,
    kind: tar::EntryType,
    text: &'a str,
}

fn tar_gz(files: &[TarFile]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_gnu();
        // Bypasses the checks of the tar crate, as a malicious archive would.
        header.as_old_mut().name[..file.name.len()].copy_from_slice(file.name.as_bytes());
        header.set_entry_type(file.kind);
        header.set_size(file.text.len() as u64);
        header.set_cksum();
        builder.append(&header, file.text.as_bytes()).unwrap();
    }
    packed(builder.into_inner().unwrap())
}

fn regular<'a>(name: &'a str, text: &'a str) -> TarFile<'a> {
    TarFile { name, kind: tar::EntryType::Regular, text }
}

#[test]
fn the_matrix_of_an_archive_is_found_among_side_files() {
    let matrix = format!("{REAL}2 2 2\n1 1 3\n2 2 4\n");
    let side = format!("{ARRAY}2 1\n1\n2\n");
    let files = [
        TarFile { name: "cant/", kind: tar::EntryType::Directory, text: "" },
        regular("cant/cant_b.mtx", &side),
        regular("cant/cant.mtx", &matrix),
        regular("cant/cant_notes.txt", "notes"),
    ];
    let whole = tar_gz(&files);
    let archive = given("download.tar.gz", &whole);
    let loaded = read::<f64>(&archive.path, &ReadOptions::default()).unwrap();
    assert_eq!(dense_rows(&loaded), [[3.0, 0.0], [0.0, 4.0]]);
    assert_eq!(loaded.info.name, "cant");
    refused(&whole[..whole.len() - 4], None, "cut off");
    refused(tar_gz(&[regular("cant/other.mtx", &matrix)]), None, "holds no NAME/NAME.mtx");
    refused(
        tar_gz(&[regular("a/a.mtx", &matrix), regular("b/b.mtx", &matrix)]),
        None,
        "holds a second matrix, b/b",
    );
    let damaged = matrix.replace("2 2 4", "2 9 4");
    let error = error_of(tar_gz(&[regular("cant/cant.mtx", &damaged)])).to_string();
    assert!(error.contains("a.mtx/cant/cant.mtx:4: column 9 is outside"), "{error}");
}

#[test]
fn archives_with_paths_outside_or_links_are_refused() {
    let matrix = format!("{REAL}1 1 1\n1 1 3\n");
    for name in ["../cant/cant.mtx", "/cant/cant.mtx", "cant/../../x"] {
        let files = [regular("cant/cant.mtx", &matrix), regular(name, &matrix)];
        refused(tar_gz(&files), None, "leaves the archive");
        refused(tar_gz(&files[1..]), None, "leaves the archive");
    }
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link] {
        refused(tar_gz(&[TarFile { name: "cant/cant.mtx", kind, text: "" }]), None, "holds a link");
    }
}

#[test]
fn a_damaged_archive_is_refused() {
    let matrix = format!("{REAL}1 1 1\n1 1 3\n{}", "% rest\n".repeat(200));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(matrix.len() as u64);
    header.set_cksum();
    builder.append_data(&mut header, "cant/cant.mtx", matrix.as_bytes()).unwrap();
    let tar = builder.into_inner().unwrap();
    // Cut within the comments after the last entry, where the matrix itself is complete.
    refused(packed(&tar[..1024]), None, "tar archive is damaged");
    let mut flipped = tar.clone();
    flipped[0] ^= 1;
    refused(packed(&flipped), None, "tar archive is damaged");
}

#[test]
fn a_path_that_is_not_a_readable_regular_file_is_refused_immediately() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| read::<f64>(path, &ReadOptions::default()).map(|_| ()).unwrap_err();
    let is_input = |error: &Error| matches!(error, Error::Input { .. });
    let error = open(folder.path());
    assert!(is_input(&error) && error.to_string().contains("this is a folder"), "{error}");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let start = Instant::now();
    let error = open(&pipe);
    assert!(is_input(&error) && error.to_string().contains("this is a pipe"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    let error = open(Path::new("/dev/zero"));
    assert!(is_input(&error) && error.to_string().contains("this is a device"), "{error}");
    let error = open(&folder.path().join("absent.mtx"));
    assert!(matches!(error, Error::Read { .. }) && error.exit_code() == 3, "{error}");
    let locked = folder.path().join("locked.mtx");
    fs::write(&locked, REAL).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read any file, so the test applies to other users only.
    if fs::File::open(&locked).is_err() {
        assert!(matches!(open(&locked), Error::Read { .. }));
    }
}
