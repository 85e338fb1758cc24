//! The connections between rank 0 and all others.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::peer::Peer;
use super::times::CONNECT_TIME;
use crate::device::network::Communicator;
use crate::error::{Error, Result};
use crate::runtime::cluster::agreement::share;

/// The connections of a rank.
pub enum Connected {
    /// Those of rank 0 to all others, the first being none.
    Root(Vec<Option<Peer>>),
    /// That of another rank to rank 0.
    Other(Peer),
}

/// Connects this rank. Collective.
pub fn connect(ranks: &dyn Communicator) -> Result<Connected> {
    let unreachable =
        |error: io::Error| Error::device("cpu", format!("ranks cannot be watched over TCP: {error}"));
    let listener = match ranks.rank() {
        0 => Some(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(unreachable)?),
        _ => None,
    };
    let port = match &listener {
        Some(listener) => listener.local_addr().map_err(unreachable)?.port(),
        None => 0,
    };
    // Another program that connects by accident does not know it.
    let token = std::process::id() as u64 ^ (u64::from(port) << 32) ^ since_epoch_ns();
    let (port, token) = share(ranks, &(port, token))?.swap_remove(0);
    let Some(listener) = listener else {
        let stream = connect_to(ranks, port).map_err(|error| {
            ranks.rank_error(0, format!("rank {} cannot connect to its port {port}: {error}", ranks.rank()))
        })?;
        let mut peer = Peer::new(stream).map_err(unreachable)?;
        peer.send_bytes(&[token.to_le_bytes(), (ranks.rank() as u64).to_le_bytes()].concat());
        return Ok(Connected::Other(peer));
    };
    listener.set_nonblocking(true).map_err(unreachable)?;
    let mut peers: Vec<Option<Peer>> = (0..ranks.size()).map(|_| None).collect();
    let start = Instant::now();
    while let Some(missing) = (1..ranks.size()).find(|rank| peers[*rank].is_none()) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Some((rank, peer)) = greeted(stream, token).filter(|(rank, _)| *rank < ranks.size()) {
                    peers[rank] = Some(peer);
                }
            }
            Err(_) if start.elapsed() < CONNECT_TIME => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => {
                let reason =
                    format!("it did not connect to port {port} of rank 0; open the port range between hosts");
                return Err(ranks.rank_error(missing, reason));
            }
        }
    }
    Ok(Connected::Root(peers))
}

fn since_epoch_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

/// The connection of a rank that knows the token, and its number.
fn greeted(stream: TcpStream, token: u64) -> Option<(usize, Peer)> {
    let mut greeting = [0; 16];
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    (&stream).read_exact(&mut greeting).ok()?;
    let number = |at: usize| greeting[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    (number(0)? == token).then_some(())?;
    Some((usize::try_from(number(8)?).ok()?, Peer::new(stream).ok()?))
}

fn connect_to(ranks: &dyn Communicator, port: u16) -> io::Result<TcpStream> {
    let hosts = ranks.hosts();
    let addresses: Vec<SocketAddr> = match hosts.first() == hosts.get(ranks.rank()) {
        true => vec![(Ipv4Addr::LOCALHOST, port).into()],
        false => (hosts.first().map_or("", String::as_str), port).to_socket_addrs()?.collect(),
    };
    let mut failed = io::Error::other("the name of its host has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIME) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
