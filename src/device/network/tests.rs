use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, unbounded};

use super::*;
use crate::device::{Completion, DirectAccess, DirectBytes, DirectMemory, DirectRange};

/// Runs `work` on each of `ranks` ranks and returns the results in the order of ranks.
fn on_ranks<R: Send>(ranks: usize, work: impl Fn(Arc<dyn Communicator>) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = thread_communicators(ranks)
            .into_iter()
            .map(|communicator| scope.spawn(|| work(communicator)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn collective_calls_deliver_the_bytes_of_every_rank() {
    for ranks in 1..5 {
        let all = on_ranks(ranks, |of| {
            let own = vec![of.rank() as u8; 3 * of.rank()];
            of.barrier().unwrap();
            let gathered = of.all_gather(&own).unwrap();
            let parts = (0..of.size()).map(|to| vec![(10 * of.rank() + to) as u8; to]).collect();
            (of.rank(), gathered, of.all_to_all(parts).unwrap())
        });
        for (rank, gathered, delivered) in all {
            for from in 0..ranks {
                assert_eq!(gathered[from], vec![from as u8; 3 * from], "{ranks} ranks");
                assert_eq!(delivered[from], vec![(10 * from + rank) as u8; rank], "{ranks} ranks");
            }
        }
    }
}

#[test]
fn a_rank_that_ends_aborts_or_is_silent_is_named() {
    let ended = on_ranks(3, |of| if of.rank() == 1 { None } else { of.barrier().err() });
    let aborted = on_ranks(3, |of| {
        if of.rank() == 2 {
            of.abort(3, "out of memory");
            return None;
        }
        of.barrier().err()
    });
    let ranks = thread_communicators_with_timeout(2, Duration::from_millis(50));
    let silent = ranks[0].barrier().unwrap_err();
    for (error, rank, reason) in [
        (ended[0].as_ref().unwrap(), 1, "ended"),
        (ended[2].as_ref().unwrap(), 1, "ended"),
        (aborted[0].as_ref().unwrap(), 2, "out of memory"),
        (&silent, 1, "no answer"),
    ] {
        assert!(matches!(error, Error::Rank { rank: of, .. } if *of == rank), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

fn opened(of: &Arc<dyn Communicator>) -> (NetworkDevice, Receiver<Completion>) {
    let mut network = NetworkDevice::open(of.clone(), Clock::start()).unwrap();
    network.begin(of.members().calls.begin().unwrap());
    let (sender, receiver) = unbounded();
    network.report_to(DeviceId(2), &sender);
    (network, receiver)
}

#[test]
fn a_network_exchanges_messages_in_any_order_and_its_spans_do_not_overlap() {
    const MESSAGES: u32 = 20;
    let sent = on_ranks(2, |of| {
        let (mut network, completions) = opened(&of);
        let other = 1 - of.rank();
        let memory = |tag: u32| Pinned::pageable(tag as usize).unwrap();
        let received: Vec<Pinned> = (0..MESSAGES).map(memory).collect();
        for (tag, bytes) in received.iter().enumerate() {
            let message =
                RankMessage { rank: other, tag: tag as u32, bytes: MessageBytes::Host(bytes.clone()) };
            Device::submit(&mut network, RECEIVE, Operation::Receive(message), Demand::default(), &[])
                .unwrap();
        }
        for tag in (0..MESSAGES).rev() {
            let bytes = memory(tag);
            bytes.write().unwrap().fill(tag as u8 + 1);
            let message = RankMessage { rank: other, tag, bytes: MessageBytes::Host(bytes) };
            Device::submit(&mut network, SEND, Operation::Send(message), Demand::default(), &[]).unwrap();
        }
        let mut spans = Vec::new();
        for _ in 0..2 * MESSAGES {
            let completion = completions.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!((completion.device, completion.result), (DeviceId(2), Ok(())));
            spans.push((completion.fence.0 >= u64::from(MESSAGES), completion.start_ns, completion.end_ns));
        }
        for lane in [false, true] {
            let of_lane: Vec<_> = spans.iter().filter(|(send, ..)| *send == lane).collect();
            assert!(of_lane.windows(2).all(|pair| pair[0].2 <= pair[1].1), "{of_lane:?}");
        }
        for (tag, bytes) in received.iter().enumerate() {
            assert!(bytes.read().unwrap().iter().all(|&byte| byte == tag as u8 + 1));
        }
        network.sent_bytes()
    });
    assert_eq!(sent, [u64::from(MESSAGES * (MESSAGES - 1) / 2); 2]);
}

#[test]
fn a_lost_rank_is_a_fault_of_the_network_and_abandoned_messages_release_their_memory() {
    let ranks = thread_communicators(3);
    let (mut network, completions) = opened(&ranks[0]);
    let memory = Pinned::pageable(8).unwrap();
    let receive =
        |rank| Operation::Receive(RankMessage { rank, tag: 0, bytes: MessageBytes::Host(memory.clone()) });
    Device::submit(&mut network, RECEIVE, receive(1), Demand::default(), &[]).unwrap();
    assert!(completions.recv_timeout(Duration::from_millis(20)).is_err(), "rank 1 sent nothing");
    assert_eq!(network.abandon().1, [1]);
    let start = Instant::now();
    while memory.write().is_err() && start.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    drop(memory.write().unwrap());
    let mut ranks = ranks.into_iter();
    let _kept = (ranks.next(), ranks.next());
    drop(ranks);
    Device::submit(&mut network, RECEIVE, receive(2), Demand::default(), &[]).unwrap();
    let fault = completions.recv_timeout(Duration::from_secs(20)).unwrap().result.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Lost);
    assert!(matches!(network.abandon().0, Some(Error::Rank { rank: 2, .. })));
}

#[test]
fn a_message_that_is_kept_is_reported_once_it_is_submitted_again() {
    let ranks = thread_communicators(2);
    let (mut network, completions) = opened(&ranks[0]);
    let memory = [3, 5].map(|bytes| Pinned::pageable(bytes).unwrap());
    let receive = |tag: usize| {
        Operation::Receive(RankMessage {
            rank: 1,
            tag: tag as u32,
            bytes: MessageBytes::Host(memory[tag].clone()),
        })
    };
    let send = |tag: usize| {
        let bytes = Pinned::pageable(memory[tag].bytes()).unwrap();
        bytes.write().unwrap().fill(7 + tag as u8);
        drop(ranks[1].send(0, tag as u32, bytes.read().unwrap().into()).unwrap());
    };
    for tag in 0..2 {
        Device::submit(&mut network, RECEIVE, receive(tag), Demand::default(), &[]).unwrap();
    }
    // Messages are kept once more if they are submitted again and did not arrive.
    for _ in 0..2 {
        assert!(Device::keep_receives(&mut network));
        for tag in 0..2 {
            Device::submit(&mut network, RECEIVE, receive(tag), Demand::default(), &[]).unwrap();
        }
    }
    assert!(Device::keep_receives(&mut network));
    // One arrives while it is kept, the other after it was submitted again.
    send(0);
    assert!(completions.recv_timeout(Duration::from_millis(20)).is_err(), "a kept message was reported");
    let fences = [0, 1]
        .map(|tag| Device::submit(&mut network, RECEIVE, receive(tag), Demand::default(), &[]).unwrap());
    for (tag, fence) in fences.into_iter().enumerate() {
        if tag == 1 {
            assert!(completions.recv_timeout(Duration::from_millis(20)).is_err(), "nothing was sent");
            send(1);
        }
        let completion = completions.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((completion.fence, completion.result), (fence, Ok(())));
        assert!(memory[tag].read().unwrap().iter().all(|&byte| byte == 7 + tag as u8));
    }
    assert!(completions.try_recv().is_err());
}

#[test]
fn a_message_in_the_memory_of_a_lost_device_fails_alone() {
    struct Lost;
    impl DirectMemory for Lost {
        fn device(&self) -> &str {
            "emu:0"
        }

        fn address(&self) -> u64 {
            0
        }

        fn make_current(&self) -> std::result::Result<HeldContext, Fault> {
            Ok(Box::new(()))
        }

        fn begin(
            &self,
            _begin: u64,
            _end: u64,
            _access: DirectAccess,
        ) -> std::result::Result<Box<dyn DirectBytes>, Fault> {
            Err(Fault::new(FaultKind::PeerLost, "the device is lost"))
        }
    }
    let ranks = thread_communicators(1);
    let (mut network, completions) = opened(&ranks[0]);
    let range = DirectRange { memory: Arc::new(Lost), begin: 0, end: 8 };
    let message = |bytes| RankMessage { rank: 0, tag: 0, bytes };
    for (lane, operation) in [
        (SEND, Operation::Send(message(MessageBytes::Device(range.clone())))),
        (RECEIVE, Operation::Receive(message(MessageBytes::Device(range)))),
    ] {
        Device::submit(&mut network, lane, operation, Demand::default(), &[]).unwrap();
        let fault = completions.recv_timeout(Duration::from_secs(20)).unwrap().result.unwrap_err();
        assert_eq!(fault.kind, FaultKind::PeerLost);
    }
    let memory = MessageBytes::Host(Pinned::pageable(8).unwrap());
    Device::submit(&mut network, SEND, Operation::Send(message(memory)), Demand::default(), &[]).unwrap();
    assert_eq!(completions.recv_timeout(Duration::from_secs(20)).unwrap().result, Ok(()));
    assert!(network.abandon().0.is_none());
}
