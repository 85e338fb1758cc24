//! `rowloom fetch` and `suitesparse:`, against a server on loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::Place;

const MATRIX: &str = "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 2\n2 3 4\n3 2 1\n";

/// The archive of a matrix, as the collection packs it.
fn archive(name: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut header = tar::Header::new_gnu();
    header.set_size(MATRIX.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, format!("{name}/{name}.mtx"), MATRIX.as_bytes()).unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

/// The address of a server that has `HB/small` and an index.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().and_then(|line| line.ok()).unwrap_or_default();
            lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).for_each(drop);
            let (status, body) = match first.split(' ').nth(1) {
                Some("/MM/HB/small.tar.gz") => ("200 OK", archive("small")),
                Some("/files/ssstats.csv") => ("200 OK", b"1\ndate\nHB,small,3,3,3\n".to_vec()),
                _ => ("404 Not Found", Vec::new()),
            };
            let length = body.len();
            let _ =
                write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(&body);
        }
    });
    url
}

#[test]
fn a_fetched_matrix_is_multiplied_and_kept() {
    let (place, url) = (Place::new(), server());
    let report = place.json(&format!("fetch HB/small --base-url {url} --folder matrices --json"));
    assert_eq!(report["matrices"][0]["downloaded"], true);
    assert!(place.path("matrices/HB/small.tar.gz").is_file());
    let again = place.succeed(&format!("fetch small --base-url {url} --folder matrices"));
    assert!(again.stdout.contains("HB/small") && again.stdout.contains("was there"), "{}", again.stdout);

    let run = |words: &str| {
        let mut command = place.command(words);
        command
            .env("ROWLOOM_MATRICES", place.path("matrices"))
            .env("ROWLOOM_SUITESPARSE_URL", "http://127.0.0.1:1");
        command.output().unwrap()
    };
    let output = run("run suitesparse:HB/small -k 2 --devices cpu --verify --json");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["matrix"]["nnz"], 3, "{report}");

    std::fs::write(place.path("matrices/HB/small.tar.gz"), "damaged").unwrap();
    let output = run("inspect suitesparse:HB/small");
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--again"));
}

#[test]
fn mistakes_in_names_and_addresses_are_named() {
    let (place, url) = (Place::new(), server());
    let words = format!("fetch HB/smal --base-url {url} --folder matrices");
    place.fail(&words, 3, "did you mean 'HB/small'?");
    place.fail(&format!("fetch smal --base-url {url} --folder matrices"), 2, "did you mean 'small'?");
    place.fail("fetch ../a/b --folder matrices", 2, "is no name");
    place.fail("fetch HB/small --base-url ftp://a --folder matrices", 2, "https://");
    let unreached = "fetch HB/small --base-url http://127.0.0.1:1 --folder matrices";
    for words in ["attempts failed", "ALL_PROXY", "put the file at matrices/HB/small.tar.gz by hand"] {
        place.fail(unreached, 3, words);
    }
    assert_eq!(place.run("fetch").code, 2);
}
