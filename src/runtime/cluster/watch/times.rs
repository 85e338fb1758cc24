//! The times within which a job ends after the failure of a rank.

use std::time::Duration;

/// The time within which a job ends after one of its ranks failed, ended or became silent. The launcher needs up to 2 s of it to end
/// the processes that are left.
pub const END_WITHIN: Duration = Duration::from_secs(10);
/// How much longer than the first rank the others wait to print that a rank is lost: the launcher ends them before.
pub const SUCCESSION_TIME: Duration = Duration::from_millis(2500);
/// A rank that gave no sign of life for so long counts as hung: sixteen signs are missing.
pub const SILENCE_TIME: Duration = Duration::from_secs(4);
/// How long the ranks wait for the launcher to end a job after one of its processes ended; then they end it themselves.
pub const LAUNCHER_TIME: Duration = Duration::from_secs(3);
/// How long rank 0 waits for the errors of other ranks after the first.
pub const COLLECT_TIME: Duration = Duration::from_millis(400);
/// How long a rank waits for the answer to its error.
pub const ANSWER_TIME: Duration = Duration::from_secs(2);
/// How long a rank without an error waits for the launcher to end it.
pub const GRACE_TIME: Duration = Duration::from_secs(2);
/// How long a rank may take to connect.
pub const CONNECT_TIME: Duration = Duration::from_secs(6);
pub const SIGN_INTERVAL: Duration = Duration::from_millis(250);
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
