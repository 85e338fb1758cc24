//! The end of a job that failed, on one rank.

use crate::error::Error;

/// The exit code for a rank that ended or is silent, as for a device that is lost.
pub const LOST_RANK: u8 = 4;

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct End {
    /// The exit code of the job.
    pub exit_code: u8,
    /// Whether all ranks reported the same error, so that all end in order.
    pub is_agreed: bool,
    /// Whether a rank is lost, of which the launcher may know nothing, so that all others end at once.
    pub(super) is_lost: bool,
}

/// What the thread of a rank does.
pub struct Actions {
    /// The text of an error, in the words of the client.
    pub text: fn(&Error) -> String,
    /// Prints the message; called on one rank of the job.
    pub print: Box<dyn Fn(&str) + Send + Sync>,
    /// Ends the process at once with an exit code, without a message. Must not return.
    pub exit: Box<dyn Fn(u8) + Send + Sync>,
}
