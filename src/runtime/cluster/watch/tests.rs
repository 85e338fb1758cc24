use std::time::Duration;

use super::times::*;
use super::*;
use crate::device::network::thread_communicators;

/// What the ranks of a job print and exit with, if `work` runs on each of them.
fn watched(size: usize, work: impl Fn(usize, Watch) + Sync) -> (Vec<String>, Vec<(usize, u8)>) {
    let (printed, exits) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    std::thread::scope(|scope| {
        for ranks in thread_communicators(size) {
            let (printed, exits, work) = (printed.clone(), exits.clone(), &work);
            scope.spawn(move || {
                let rank = ranks.rank();
                let actions = Actions {
                    text: Error::message,
                    print: Box::new(move |text| printed.lock().unwrap().push(text.to_owned())),
                    exit: Box::new(move |code| exits.lock().unwrap().push((rank, code))),
                };
                work(rank, Watch::start(&*ranks, actions).unwrap());
            });
        }
    });
    let (printed, exits) = (printed.lock().unwrap().clone(), exits.lock().unwrap().clone());
    (printed, exits)
}

#[test]
fn a_job_that_finishes_prints_nothing() {
    assert_eq!(watched(4, |_, watch| watch.finish()), (Vec::new(), Vec::new()));
}

#[test]
fn an_error_of_all_ranks_is_printed_once_and_all_end_in_order() {
    let (printed, exits) = watched(3, |_, watch| {
        let end = watch.report(&Error::usage("the flag is wrong"));
        assert_eq!((end.exit_code, end.is_agreed), (2, true));
    });
    assert_eq!((printed, exits), (vec!["the flag is wrong".to_owned()], Vec::new()));
}

#[test]
fn an_error_of_one_rank_is_printed_once_with_its_number_and_host() {
    for at_fault in 0..3 {
        let (printed, exits) = watched(3, |rank, watch| {
            if rank == at_fault {
                let end = watch.report(&Error::usage("no memory"));
                assert_eq!((end.exit_code, end.is_agreed), (2, false));
            }
            // The others wait for a message that never comes.
            std::thread::sleep(Duration::from_secs(4));
        });
        assert_eq!(printed, [format!("rank {at_fault} on threads: no memory")]);
        assert!(exits.iter().all(|(_, code)| *code == 2) && exits.len() == 3, "{exits:?}");
    }
}

/// Both ends of a connection.
fn connection() -> (peer::Peer, peer::Peer) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let here = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (peer::Peer::new(here).unwrap(), peer::Peer::new(listener.accept().unwrap().0).unwrap())
}

#[test]
fn a_rank_is_silent_once_nothing_arrived_for_the_time_in_which_this_rank_was_able_to_read() {
    let (mut here, mut there) = connection();
    let step = SILENCE_TIME * 6 / 10;
    assert!(here.frames(step).is_empty() && here.lost().is_none());
    there.send(peer::SIGN_OF_LIFE);
    while here.frames(Duration::ZERO).is_empty() {
        std::thread::yield_now();
    }
    assert!(here.frames(step).is_empty() && here.lost().is_none());
    here.frames(step);
    assert!(here.lost().unwrap().contains("no sign of life for 4 s"));
    // A rank whose work is done may end at any time.
    there.send(peer::FINISHED);
    while here.lost().is_some() {
        here.frames(Duration::ZERO);
    }
    drop(there);
    here.frames(step * 2);
    assert!(here.lost().is_none());
}

#[test]
fn time_in_which_the_watching_rank_itself_was_stopped_does_not_count() {
    let mut steps = decide::Steps::start();
    std::thread::sleep(Duration::from_millis(600));
    assert!(steps.next() <= Duration::from_millis(250));
    assert!(steps.next() < Duration::from_millis(250));
}

#[test]
fn the_stated_time_covers_silence_the_next_rank_and_the_launcher() {
    let launcher = Duration::from_secs(2);
    assert!(SILENCE_TIME + SUCCESSION_TIME + launcher < END_WITHIN);
    assert!(LAUNCHER_TIME + SUCCESSION_TIME + launcher < END_WITHIN);
    assert!(ANSWER_TIME + GRACE_TIME + launcher < END_WITHIN);
    assert!(SIGN_INTERVAL * 16 <= SILENCE_TIME);
}
