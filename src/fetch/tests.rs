//! Downloads from a server on loopback that misbehaves as told.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

/// A gzip archive, as far as downloads look at it.
fn archive(bytes: usize) -> Vec<u8> {
    [0x1f, 0x8b].into_iter().chain((2..bytes).map(|at| (at * 7 % 251) as u8)).collect()
}

/// A request: path and headers in lower case.
struct Request {
    path: String,
    headers: String,
}

impl Request {
    /// The first byte of a range that is asked for.
    fn range(&self) -> Option<usize> {
        let at = self.headers.find("range: bytes=")? + "range: bytes=".len();
        self.headers[at..].split('-').next()?.parse().ok()
    }
}

type Answer = dyn Fn(usize, &Request, &mut TcpStream) + Send + Sync;

/// A server that answers every request as `answer` does; its first argument counts requests.
struct Server {
    url: String,
    requests: Arc<Mutex<usize>>,
}

impl Server {
    fn new(answer: impl Fn(usize, &Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(0));
        let (count, answer): (_, Arc<Answer>) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (count, answer) = (count.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let Some(Ok(first)) = lines.next() else { return };
                    let headers: Vec<String> =
                        lines.map_while(|line| line.ok().filter(|line| !line.is_empty())).collect();
                    let path = first.split(' ').nth(1).unwrap_or_default().to_string();
                    let request = Request { path, headers: headers.join("\n").to_lowercase() };
                    let number = std::mem::replace(&mut *count.lock().unwrap(), 0);
                    *count.lock().unwrap() = number + 1;
                    answer(number, &request, &mut stream);
                });
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> usize {
        *self.requests.lock().unwrap()
    }
}

fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n");
    let _ = stream.write_all(body);
}

fn whole(stream: &mut TcpStream, body: &[u8]) {
    respond(stream, "200 OK", &format!("Content-Length: {}\r\nETag: \"v1\"\r\n", body.len()), body);
}

struct Fixture {
    folder: tempfile::TempDir,
    collection: Collection,
}

impl Fixture {
    fn new(server: &Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = Collection { base_url: String::new(), folder: folder.path().into(), max_bytes: 1 << 20 };
        Self { collection: base.at(&server.url).unwrap(), folder }
    }

    fn fetch(&self, name: &str, again: bool) -> Result<Fetched> {
        self.collection.fetch(name, again, &Watcher { progress: &|_, _| (), stopped: &|| false })
    }

    #[track_caller]
    fn refused(&self, words: &str) {
        let error = self.fetch("HB/a", false).unwrap_err();
        assert!(error.to_string().contains(words), "'{words}' is not in: {error}");
        assert_eq!(error.exit_code(), 3);
        assert!(!self.folder.path().join("HB/a.tar.gz").exists());
    }
}

#[test]
fn an_archive_is_downloaded_once_and_compared_with_its_checksum() {
    let body = archive(50_000);
    let sent = body.clone();
    let server = Server::new(move |_, request, stream| {
        assert_eq!(request.path, "/MM/HB/a.tar.gz");
        whole(stream, &sent);
    });
    let fixture = Fixture::new(&server);
    let fetched = fixture.fetch("HB/a", false).unwrap();
    assert!(fetched.is_new && fetched.bytes == 50_000);
    assert_eq!(std::fs::read(&fetched.path).unwrap(), body);
    let again = fixture.fetch("HB/a", false).unwrap();
    assert!(!again.is_new && server.requests() == 1);

    let mut damaged = body.clone();
    damaged[700] ^= 1;
    std::fs::write(&fetched.path, &damaged).unwrap();
    let error = fixture.fetch("HB/a", false).unwrap_err();
    assert!(error.to_string().contains("not the one that was downloaded"), "{error}");
    assert!(fixture.fetch("HB/a", true).unwrap().is_new);
    assert_eq!(std::fs::read(&fetched.path).unwrap(), body);
    let files = std::fs::read_dir(fixture.folder.path().join("HB")).unwrap().count();
    assert_eq!(files, 2, "an archive and its checksum");
}

#[test]
fn an_archive_that_was_put_into_the_folder_by_hand_needs_no_server() {
    let server = Server::new(|_, _, _| unreachable!("nothing is to be fetched"));
    let fixture = Fixture::new(&server);
    let path = fixture.folder.path().join("HB/a.tar.gz");
    std::fs::create_dir(fixture.folder.path().join("HB")).unwrap();
    std::fs::write(&path, archive(5000)).unwrap();
    let fetched = fixture.fetch("HB/a", false).unwrap();
    assert!(!fetched.is_new && fetched.bytes == 5000 && fetched.path == path);

    // From then on it has a checksum like others.
    std::fs::write(&path, archive(4000)).unwrap();
    let error = fixture.fetch("HB/a", false).unwrap_err();
    assert!(error.to_string().contains("not the one that was downloaded"), "{error}");
}

#[test]
fn several_that_fetch_one_matrix_download_it_once() {
    let body = archive(200_000);
    let sent = body.clone();
    let server = Server::new(move |_, request, stream| {
        assert_eq!(request.path, "/MM/HB/a.tar.gz");
        // Long enough that the others wait.
        std::thread::sleep(Duration::from_millis(300));
        whole(stream, &sent);
    });
    let fixture = Fixture::new(&server);
    std::thread::scope(|scope| {
        let fetches: Vec<_> = (0..6).map(|_| scope.spawn(|| fixture.fetch("HB/a", false).unwrap())).collect();
        let fetched: Vec<Fetched> = fetches.into_iter().map(|fetch| fetch.join().unwrap()).collect();
        assert_eq!(fetched.iter().filter(|fetched| fetched.is_new).count(), 1);
        assert!(fetched.iter().all(|fetched| fetched.bytes == 200_000));
    });
    assert_eq!(server.requests(), 1);
    let path = fixture.folder.path().join("HB/a.tar.gz");
    assert_eq!(std::fs::read(&path).unwrap(), body);
    // All of them replace it, one after the other.
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| fixture.fetch("HB/a", true).unwrap())));
        (0..3).for_each(|_| drop(scope.spawn(|| fixture.fetch("HB/a", false).unwrap())));
    });
    assert_eq!(std::fs::read(&path).unwrap(), body);
    assert_eq!(
        std::fs::read_dir(fixture.folder.path().join("HB")).unwrap().count(),
        2,
        "an archive and its checksum"
    );
}

#[test]
fn a_broken_download_is_continued_where_it_ended() {
    let body = archive(300_000);
    let (sent, expected) = (body.clone(), body);
    let server = Server::new(move |number, request, stream| match request.range() {
        None => {
            assert_eq!(number, 0);
            let headers = format!("Content-Length: {}\r\nETag: \"v1\"\r\n", sent.len());
            respond(stream, "200 OK", &headers, &sent[..100_000]);
        }
        Some(begin) => {
            assert!(request.headers.contains("if-range: \"v1\""), "{}", request.headers);
            let end = (begin + 150_000).min(sent.len());
            let headers = format!(
                "Content-Length: {}\r\nContent-Range: bytes {begin}-{}/{}\r\n",
                sent.len() - begin,
                sent.len() - 1,
                sent.len()
            );
            respond(stream, "206 Partial Content", &headers, &sent[begin..end]);
        }
    });
    let fixture = Fixture::new(&server);
    let fetched = fixture.fetch("HB/a", false).unwrap();
    assert_eq!(std::fs::read(fetched.path).unwrap(), expected);
    assert_eq!(server.requests(), 3);
}

#[test]
fn a_file_that_has_changed_on_the_server_is_downloaded_from_its_start() {
    let (old, new) = (archive(200_000), [&[0x1f, 0x8b][..], &[9; 150_000]].concat());
    let expected = new.clone();
    let server = Server::new(move |number, _, stream| match number {
        0 => respond(stream, "200 OK", "Content-Length: 200000\r\nETag: \"v1\"\r\n", &old[..90_000]),
        // The server ignores the range, since its file has another tag.
        _ => respond(stream, "200 OK", &format!("Content-Length: {}\r\nETag: \"v2\"\r\n", new.len()), &new),
    });
    let fetched = Fixture::new(&server).fetch("HB/a", false);
    assert_eq!(fetched.as_ref().unwrap().bytes, expected.len() as u64);
}

#[test]
fn redirects_are_followed_and_endless_ones_refused() {
    let body = archive(1000);
    let server = Server::new(move |_, request, stream| match request.path.as_str() {
        "/elsewhere" => whole(stream, &body),
        "/MM/HB/b.tar.gz" => {
            respond(stream, "302 Found", "Location: /elsewhere\r\nContent-Length: 0\r\n", b"")
        }
        path => respond(stream, "302 Found", &format!("Location: {path}\r\nContent-Length: 0\r\n"), b""),
    });
    let fixture = Fixture::new(&server);
    assert_eq!(fixture.fetch("HB/b", false).unwrap().bytes, 1000);
    fixture.refused("redirects without end");
}

#[test]
fn answers_that_are_no_archive_of_the_announced_size_are_refused() {
    let page = b"<html>Service unavailable</html>";
    Fixture::new(&Server::new(|_, _, stream| whole(stream, page))).refused("other than a gzip archive");
    Fixture::new(&Server::new(|_, _, stream| whole(stream, b""))).refused("other than a gzip archive");
    let announced = Server::new(|_, _, stream| respond(stream, "200 OK", "Content-Length: 1048577\r\n", b""));
    Fixture::new(&announced).refused("more than the limit of 1 MiB");
    assert_eq!(announced.requests(), 1, "a file that is too large was asked for again");
    let endless = Server::new(|_, _, stream| {
        respond(stream, "200 OK", "", &[0x1f, 0x8b]);
        while stream.write_all(&[7; 4096]).is_ok() {}
    });
    Fixture::new(&endless).refused("more than the limit of 1 MiB");
    let cut =
        Server::new(|_, _, stream| respond(stream, "200 OK", "Content-Length: 5000\r\n", &archive(100)));
    Fixture::new(&cut).refused("attempts failed");
    for status in ["403 Forbidden", "206 Partial Content"] {
        let server = Server::new(move |_, _, stream| respond(stream, status, "Content-Length: 0\r\n", b""));
        Fixture::new(&server).refused("answered with status");
    }
}

#[test]
fn a_busy_server_is_asked_again() {
    let body = archive(1000);
    let server = Server::new(move |number, _, stream| match number {
        0 | 1 => respond(stream, "503 Service Unavailable", "Content-Length: 0\r\n", b""),
        _ => whole(stream, &body),
    });
    assert!(Fixture::new(&server).fetch("HB/a", false).unwrap().is_new);
    let busy =
        Server::new(|_, _, stream| respond(stream, "503 Service Unavailable", "Content-Length: 0\r\n", b""));
    let fixture = Fixture::new(&busy);
    fixture.refused("status 503; 4 attempts failed");
    let left = std::fs::read_dir(fixture.folder.path().join("HB")).unwrap().count();
    assert_eq!(left, 0, "an empty file is left");
    assert_eq!(busy.requests(), 4);
}

#[test]
fn a_server_that_sends_nothing_more_counts_as_broken() {
    let server = Server::new(|_, _, stream| {
        respond(stream, "200 OK", "Content-Length: 5000\r\n", &archive(100));
        std::thread::sleep(Duration::from_secs(600));
    });
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    let watcher = Watcher { progress: &|_, _| (), stopped: &|| false };
    let start = std::time::Instant::now();
    let error = download::with_stall_timeout(&server.url, &part, Duration::from_millis(100), &watcher);
    assert!(error.unwrap_err().to_string().contains("sent nothing"));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_download_stops_when_it_is_asked_to() {
    let server = Server::new(|_, _, stream| {
        respond(stream, "200 OK", "Content-Length: 5000\r\n", &archive(100));
        std::thread::sleep(Duration::from_secs(600));
    });
    let fixture = Fixture::new(&server);
    let watcher = Watcher { progress: &|_, _| (), stopped: &|| true };
    let stopped = fixture.collection.fetch("HB/a", false, &watcher);
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

#[test]
fn a_name_without_a_group_is_found_in_the_index_and_unknown_names_have_suggestions() {
    const INDEX: &str = "3\ndate\nHB,1138_bus,1\nWilliams,cant,2\nBoeing,ct20stif,3\nOther,ct20stif,3\n";
    let body = archive(100);
    let server = Server::new(move |_, request, stream| match request.path.as_str() {
        "/files/ssstats.csv" => whole(stream, INDEX.as_bytes()),
        "/MM/Williams/cant.tar.gz" => whole(stream, &body),
        _ => respond(stream, "404 Not Found", "Content-Length: 0\r\n", b""),
    });
    let fixture = Fixture::new(&server);
    assert_eq!(fixture.fetch("cant", false).unwrap().name.to_string(), "Williams/cant");
    for (name, words) in [
        ("cnat", "did you mean 'cant'?"),
        ("ct20stif", "Boeing/ct20stif, Other/ct20stif"),
        ("Wiliams/cant", "did you mean 'Williams/cant'?"),
        ("../../etc/passwd", "is no name"),
    ] {
        let error = fixture.fetch(name, false).unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

#[test]
fn addresses_are_checked() {
    let server = Server::new(|_, _, stream| whole(stream, b""));
    let collection = Fixture::new(&server).collection;
    for url in ["", "ftp://a", "sparse.tamu.edu", "https://a b", "file:///etc"] {
        assert_eq!(collection.clone().at(url).unwrap_err().exit_code(), 2, "{url}");
    }
    // Nothing listens there.
    let nowhere = collection.at("http://127.0.0.1:1/").unwrap();
    let watcher = Watcher { progress: &|_, _| (), stopped: &|| false };
    assert_eq!(nowhere.fetch("HB/a", false, &watcher).unwrap_err().exit_code(), 3);
}
