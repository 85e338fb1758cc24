//! The watch over a job until its ranks are connected: a rank that is stopped before that ends the job too.
//!
//! MPI waits for all ranks when it starts, in calls that return only when all have arrived. Ranks cannot send each other signs of life
//! before. But the kernel says which processes of a host are stopped or have ended, and the launcher has put the number of its rank into
//! the environment of each process. So a thread of every rank reads both of the processes on its host, until the ranks are connected.
//!
//! A rank that ended before it was seen is known if all ranks of the job are on this host, as the launcher says.
//!
//! A rank that is slow is not stopped, so it never counts as lost. Ranks of other hosts cannot distinguish a stopped rank that is alone on
//! its host from a rank whose host still loads the program. The job ends if the ranks are not connected after [`JOIN_TIME`], or after the
//! time in [`JOIN_TIME_VARIABLE`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::console::launch::Launch;
use rowloom::internal::error::{Error, Result};
use rowloom::internal::runtime::cluster::Actions;
use rowloom::internal::runtime::cluster::watch::{LOST_RANK, SUCCESSION_TIME};
use rowloom::internal::threads;

/// A rank whose process is stopped for so long is lost, and one whose process ended so long ago, unless the launcher ends the job before.
const LOST_TIME: Duration = Duration::from_secs(3);
/// How often the states of processes are read.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);
/// How long the ranks of a job may take to connect. Large jobs load the program over a shared file system.
const JOIN_TIME: Duration = Duration::from_secs(120);
/// The variable with another time, in seconds.
const JOIN_TIME_VARIABLE: &str = "ROWLOOM_JOIN_SECONDS";
/// Variables that name a job: of PMIx, which Open MPI and Slurm use, and of Slurm.
const JOB_VARIABLES: [&str; 3] = ["PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"];

/// Variables with the number of ranks on this host: of Open MPI, and of MPICH and Intel MPI.
const LOCAL_SIZE_VARIABLES: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

/// The watch of one rank until it is connected.
pub struct Joining {
    joined: Sender<()>,
    thread: JoinHandle<()>,
}

impl Joining {
    /// Starts to watch the ranks of this host. Called before MPI is initialised.
    pub fn start(launch: Launch, actions: Actions) -> Result<Self> {
        let (joined, is_joined) = channel();
        let job = Job::of(|name| std::env::var(name).ok());
        let join_time = join_time(|name| std::env::var(name).ok())?;
        let work = move || {
            let proc = Path::new("/proc");
            let (start, mut last) = (Instant::now(), Instant::now());
            let mut host = match all_ranks_are_local(|name| std::env::var(name).ok(), launch.size) {
                true => HostRanks::of(launch.size),
                false => HostRanks::default(),
            };
            let goes_on =
                |time: Duration| matches!(is_joined.recv_timeout(time), Err(RecvTimeoutError::Timeout));
            while goes_on(SCAN_INTERVAL) {
                // While this process was stopped itself, the others may have been stopped with it.
                let elapsed = last.elapsed().min(2 * SCAN_INTERVAL);
                last = Instant::now();
                host.update(&job.as_ref().map(|job| ranks_of_host(proc, job)).unwrap_or_default(), elapsed);
                let (lost, reason, first) = match host.lost() {
                    Some((rank, reason)) => (rank, reason.to_owned(), host.first_except(rank)),
                    None if start.elapsed() > join_time => {
                        let seconds = join_time.as_secs();
                        let reason = format!(
                            "the ranks did not connect within {seconds} s ({JOIN_TIME_VARIABLE}); a rank on another host is stopped or cannot be reached"
                        );
                        (launch.rank, reason, Some(0))
                    }
                    None => continue,
                };
                // One rank prints and ends, and the launcher ends the others before they print.
                if first.is_none_or(|first| first == launch.rank) || goes_on(SUCCESSION_TIME) {
                    (actions.print)(&format!("rank {lost} on {}: {reason}", host_name(proc)));
                    (actions.exit)(LOST_RANK);
                }
                return;
            }
        };
        Ok(Self { joined, thread: threads::start("joining", work)? })
    }

    /// Ends this watch: the ranks are connected.
    pub fn finish(self) {
        // The thread may have ended, and has no result.
        let _ = self.joined.send(());
        let _ = self.thread.join();
    }
}

/// How long the ranks may take to connect.
fn join_time(variable: impl Fn(&str) -> Option<String>) -> Result<Duration> {
    let Some(text) = variable(JOIN_TIME_VARIABLE) else { return Ok(JOIN_TIME) };
    match text.trim().parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(Error::usage(format!(
            "{JOIN_TIME_VARIABLE} is a number of seconds, at least 1, not {text:?}"
        ))),
    }
}

/// Whether all `size` ranks were started on this host.
fn all_ranks_are_local(variable: impl Fn(&str) -> Option<String>, size: usize) -> bool {
    LOCAL_SIZE_VARIABLES.into_iter().find_map(variable).and_then(|text| text.parse().ok()) == Some(size)
}

fn host_name(proc: &Path) -> String {
    fs::read_to_string(proc.join("sys/kernel/hostname"))
        .map_or_else(|_| "?".into(), |name| name.trim().into())
}

/// The values of [`JOB_VARIABLES`], one of which is set at least.
#[derive(Debug, PartialEq, Eq)]
struct Job([Option<String>; 3]);

impl Job {
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let values = JOB_VARIABLES.map(variable);
        values.iter().any(Option::is_some).then_some(Self(values))
    }
}

/// The state of a rank on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// One of its processes is stopped.
    Stopped,
    /// It has no process any more.
    Ended,
}

/// The states of the ranks of `job` that have a process on this host.
fn ranks_of_host(proc: &Path, job: &Job) -> BTreeMap<usize, State> {
    let mut ranks = BTreeMap::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        match rank_of_process(&entry.path(), job) {
            Some((rank, State::Stopped)) => drop(ranks.insert(rank, State::Stopped)),
            Some((rank, state)) => drop(ranks.entry(rank).or_insert(state)),
            None => {}
        }
    }
    ranks
}

/// The rank and the state of a process of `job`. `None` for processes of other jobs and of other users, and for those that have ended.
fn rank_of_process(process: &Path, job: &Job) -> Option<(usize, State)> {
    let environment = fs::read(process.join("environ")).ok()?;
    let variable = |name: &str| {
        let value =
            |entry: &[u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
        String::from_utf8(environment.split(|byte| *byte == 0).find_map(value)?).ok()
    };
    let launch = Launch::from(variable).filter(|_| Job::of(variable).as_ref() == Some(job))?;
    // The state follows the name of the program, which may contain any character.
    let status = fs::read_to_string(process.join("stat")).ok()?;
    let state = status.rsplit_once(") ")?.1.chars().next()?;
    Some((launch.rank, if state == 'T' { State::Stopped } else { State::Running }))
}

/// The ranks of this host that were seen, and for how long each has been in its state.
#[derive(Default)]
struct HostRanks(BTreeMap<usize, (State, Duration)>);

impl HostRanks {
    /// The ranks below `size`, none of which has been seen.
    fn of(size: usize) -> Self {
        Self((0..size).map(|rank| (rank, (State::Ended, Duration::ZERO))).collect())
    }

    /// Takes the present states, `elapsed` after the last ones.
    fn update(&mut self, now: &BTreeMap<usize, State>, elapsed: Duration) {
        for rank in now.keys() {
            self.0.entry(*rank).or_insert((State::Running, Duration::ZERO));
        }
        for (rank, (state, time)) in &mut self.0 {
            let state_now = now.get(rank).copied().unwrap_or(State::Ended);
            *time = if *state == state_now { *time + elapsed } else { elapsed };
            *state = state_now;
        }
    }

    /// A rank that is lost, and why.
    fn lost(&self) -> Option<(usize, &'static str)> {
        let find = |lost: State| {
            let is_lost = |(state, time): &(State, Duration)| *state == lost && *time >= LOST_TIME;
            self.0.iter().find(|(_, state)| is_lost(state)).map(|(rank, _)| *rank)
        };
        let stopped = find(State::Stopped).map(|rank| (rank, "its process is stopped"));
        stopped.or_else(|| find(State::Ended).map(|rank| (rank, "its process ended")))
    }

    /// The lowest rank that is not stopped and not `lost`. One that has ended meanwhile may have printed the message.
    fn first_except(&self, lost: usize) -> Option<usize> {
        let mut others =
            self.0.iter().filter(|(rank, (state, _))| **rank != lost && *state != State::Stopped);
        others.next().map(|(rank, _)| *rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_stopped_if_the_kernel_says_so_of_a_process_of_the_same_job() {
        let proc = tempfile::tempdir().unwrap();
        let process = |id: &str, state: &str, job: &str, rank: &str| {
            let folder = proc.path().join(id);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("stat"), format!("{id} (a ) name) {state} 1 2 3")).unwrap();
            let variables =
                format!("A=b\0OMPI_COMM_WORLD_RANK={rank}\0OMPI_COMM_WORLD_SIZE=4\0PMIX_NAMESPACE={job}\0");
            fs::write(folder.join("environ"), variables).unwrap();
        };
        process("10", "S", "7", "0");
        process("11", "R", "7", "1");
        process("12", "T", "7", "2");
        // A shell that waits for the stopped process that it started.
        process("13", "S", "7", "2");
        process("14", "T", "8", "3");
        fs::create_dir(proc.path().join("sys")).unwrap();
        let job = Job::of(|name| (name == "PMIX_NAMESPACE").then(|| "7".into())).unwrap();
        let ranks = ranks_of_host(proc.path(), &job);
        let (running, stopped) = (State::Running, State::Stopped);
        assert_eq!(ranks, BTreeMap::from([(0, running), (1, running), (2, stopped)]));
        assert_eq!(Job::of(|_| None), None);
    }

    #[test]
    fn only_a_rank_that_is_stopped_without_a_break_or_has_ended_is_lost() {
        let states = |of_rank_1: Option<State>| {
            let rank_1 = of_rank_1.map(|state| (1, state));
            rank_1.into_iter().chain([(0, State::Running), (2, State::Running)]).collect::<BTreeMap<_, _>>()
        };
        let almost = LOST_TIME - Duration::from_millis(1);
        for (state, reason) in [(Some(State::Stopped), "its process is stopped"), (None, "its process ended")]
        {
            let mut ranks = HostRanks::default();
            for now in [Some(State::Running), state, Some(State::Running), Some(State::Running), state] {
                ranks.update(&states(now), almost);
                assert_eq!(ranks.lost(), None);
            }
            ranks.update(&states(state), almost);
            assert_eq!(ranks.lost(), Some((1, reason)));
        }
    }

    #[test]
    fn one_rank_prints_also_if_it_has_ended_before_another_decides() {
        let mut ranks = HostRanks::default();
        let all = [(0, State::Stopped), (1, State::Running), (2, State::Running)];
        ranks.update(&BTreeMap::from(all), LOST_TIME);
        assert_eq!((ranks.lost().unwrap().0, ranks.first_except(0)), (0, Some(1)));
        ranks.update(&BTreeMap::from([all[0], all[2]]), LOST_TIME);
        assert_eq!((ranks.lost().unwrap().0, ranks.first_except(0)), (0, Some(1)));
    }

    #[test]
    fn the_time_to_connect_is_a_whole_number_of_seconds() {
        let set = |text: &'static str| join_time(move |_| Some(text.into()));
        assert_eq!(join_time(|_| None).unwrap(), JOIN_TIME);
        assert_eq!(set("8").unwrap(), Duration::from_secs(8));
        for text in ["0", "-1", "2.5", "", "soon"] {
            assert_eq!(set(text).unwrap_err().exit_code(), 2, "{text}");
        }
    }

    #[test]
    fn a_rank_that_was_never_seen_is_lost_if_all_ranks_are_on_this_host() {
        let local = |size: &str| {
            let size = size.to_owned();
            move |name: &str| (name == "OMPI_COMM_WORLD_LOCAL_SIZE").then(|| size.clone())
        };
        assert!(all_ranks_are_local(local("3"), 3));
        assert!(!all_ranks_are_local(local("2"), 3) && !all_ranks_are_local(|_| None, 3));
        let seen = BTreeMap::from([(0, State::Running), (2, State::Running)]);
        let (mut known, mut unknown) = (HostRanks::of(3), HostRanks::default());
        for _ in 0..7 {
            assert_eq!(known.lost(), None);
            known.update(&seen, SCAN_INTERVAL);
            unknown.update(&seen, SCAN_INTERVAL);
            if known.lost().is_some() {
                break;
            }
        }
        assert_eq!((known.lost(), known.first_except(1)), (Some((1, "its process ended")), Some(0)));
        assert_eq!(unknown.lost(), None);
    }
}
