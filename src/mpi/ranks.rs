//! The ranks of a duplicated MPI communicator, and its messages.

#![allow(unsafe_code)] // MPI's C functions: messages use memory for longer than a call lasts

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use ::mpi::environment::processor_name;
use ::mpi::ffi;

use super::environment::{Environment, failed, is_finalised, serialised};
use crate::device::network::{Calls, Communicator, MIN_MAX_TAG, Members, Pending};
use crate::device::{MessageRead, MessageWrite};
use crate::error::Result;

/// The most bytes of one call: MPI counts in 32-bit integers.
const MAX_CALL_BYTES: usize = 1 << 30;

/// The ranks of a duplicate of `communicator`. All ranks of it call this.
///
/// # Safety
/// The handle is a valid communicator between processes of one group.
pub unsafe fn duplicate(
    environment: Arc<Environment>,
    communicator: ffi::MPI_Comm,
    timeout: Duration,
) -> Result<Arc<dyn Communicator>> {
    // SAFETY: as promised by the caller.
    let duplicate = unsafe { Duplicate::of(communicator, environment) }?;
    let (rank, size) = duplicate.rank_and_size()?;
    let name = processor_name().unwrap_or_else(|_| "?".into());
    let calls = Calls::new(duplicate.max_tag());
    let members = Members { rank, hosts: vec![name.clone(); size], timeout, calls };
    let takes_device_memory = takes_cuda_memory();
    let mut ranks = MpiRanks { members, takes_device_memory, communicator: Arc::new(duplicate) };
    let hosts = ranks.all_gather(name.as_bytes())?;
    ranks.members.hosts = hosts.iter().map(|host| String::from_utf8_lossy(host).into_owned()).collect();
    Ok(Arc::new(ranks))
}

/// A duplicated communicator, whose errors are returned.
struct Duplicate {
    raw: ffi::MPI_Comm,
    /// Dropped after the communicator was freed.
    _environment: Arc<Environment>,
}

// SAFETY: any thread may use a communicator, one at a time; `serialised` ensures it.
unsafe impl Send for Duplicate {}
// SAFETY: the same.
unsafe impl Sync for Duplicate {}

impl Duplicate {
    /// # Safety
    /// The handle is a valid communicator between processes of one group.
    unsafe fn of(communicator: ffi::MPI_Comm, environment: Arc<Environment>) -> Result<Self> {
        let check = |code: c_int| match code {
            0 => Ok(()),
            code => Err(failed(format!("the communicator cannot be duplicated: {}", message_of(code)))),
        };
        // SAFETY: a constant of the library.
        let mut raw = unsafe { ffi::RSMPI_COMM_NULL };
        let code = {
            let _serialised = serialised();
            // SAFETY: as promised by the caller; MPI writes one handle.
            unsafe { ffi::MPI_Comm_dup(communicator, &raw mut raw) }
        };
        check(code)?;
        let duplicate = Self { raw, _environment: environment };
        let code = {
            let _serialised = serialised();
            // SAFETY: the communicator is valid, and the error handler is one of the library.
            unsafe { ffi::MPI_Comm_set_errhandler(raw, ffi::RSMPI_ERRORS_RETURN) }
        };
        check(code).map(|()| duplicate)
    }

    fn rank_and_size(&self) -> Result<(usize, usize)> {
        let (_serialised, mut rank, mut size) = (serialised(), 0, 0);
        // SAFETY: the communicator is valid; MPI writes one number each.
        let codes = unsafe {
            [ffi::MPI_Comm_rank(self.raw, &raw mut rank), ffi::MPI_Comm_size(self.raw, &raw mut size)]
        };
        match codes.into_iter().find(|code| *code != 0) {
            None => Ok((rank as usize, size as usize)),
            Some(code) => Err(failed(message_of(code))),
        }
    }

    /// The largest tag.
    fn max_tag(&self) -> u32 {
        let _serialised = serialised();
        let (mut found, mut value) = (0, std::ptr::null_mut::<c_int>());
        // SAFETY: MPI writes a pointer to its number and whether it has one; the number is alive as long as the communicator.
        let max_tag = unsafe {
            let to = (&raw mut value).cast::<c_void>();
            let code = ffi::MPI_Comm_get_attr(self.raw, ffi::MPI_TAG_UB as c_int, to, &raw mut found);
            (code == 0 && found != 0 && !value.is_null()).then(|| *value)
        };
        max_tag.and_then(|tag| u32::try_from(tag).ok()).unwrap_or(MIN_MAX_TAG).max(MIN_MAX_TAG)
    }
}

impl Drop for Duplicate {
    fn drop(&mut self) {
        if is_finalised() {
            return;
        }
        let _serialised = serialised();
        // SAFETY: this is the last use: every message holds the communicator.
        unsafe { ffi::MPI_Comm_free(&raw mut self.raw) };
    }
}

/// The words of the library for an error.
fn message_of(code: c_int) -> String {
    let mut text = [0 as c_char; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length = 0;
    // SAFETY: the text has the documented length; MPI ends it with a zero, and the last byte stays zero anyway.
    let text = unsafe {
        let asked = ffi::MPI_Error_string(code, text.as_mut_ptr(), &raw mut length);
        (asked == 0).then(|| CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
    };
    text.unwrap_or_else(|| format!("MPI error {code}"))
}

/// Whether the MPI library says that it sends from the memory of CUDA cards and receives into it. `false` if it cannot be asked.
fn takes_cuda_memory() -> bool {
    /// CUDA, as a kind of GPU in MPICH.
    const MPIX_GPU_SUPPORT_CUDA: c_int = 0;
    // SAFETY: looks for a function of a loaded library by its name.
    let symbol = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let query = symbol(c"MPIX_Query_cuda_support");
    if !query.is_null() {
        // SAFETY: Open MPI and MPICH declare it as `int MPIX_Query_cuda_support(void)`.
        let query = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(query) };
        // SAFETY: MPI is initialised.
        return unsafe { query() } == 1;
    }
    let query = symbol(c"MPIX_GPU_query_support");
    if query.is_null() {
        return false;
    }
    type Query = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    // SAFETY: MPICH declares it as `int MPIX_GPU_query_support(int gpu_type, int *is_supported)`.
    let query = unsafe { std::mem::transmute::<*mut c_void, Query>(query) };
    let mut is_supported = 0;
    // SAFETY: MPI is initialised; the function writes one number.
    let code = unsafe { query(MPIX_GPU_SUPPORT_CUDA, &raw mut is_supported) };
    code == 0 && is_supported != 0
}

struct MpiRanks {
    members: Members,
    takes_device_memory: bool,
    communicator: Arc<Duplicate>,
}

impl MpiRanks {
    fn check(&self, rank: usize, code: i32) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(self.rank_error(rank, format!("a message failed: {}", message_of(code)))),
        }
    }
}

impl Communicator for MpiRanks {
    fn members(&self) -> &Members {
        &self.members
    }

    fn send(&self, to: usize, tag: u32, bytes: MessageRead) -> Result<Box<dyn Pending>> {
        let (data, calls) = (bytes.address(), calls(bytes.bytes()));
        let mut message = Message::new(&self.communicator, Held::Read { _bytes: bytes });
        let _serialised = serialised();
        for (begin, length) in calls {
            let mut request = no_request();
            // SAFETY: the part is inside the memory, which `message` holds until MPI has finished with it.
            let code = unsafe {
                let (data, kind) = (data.wrapping_add(begin).cast(), ffi::RSMPI_UINT8_T);
                let (length, to, tag) = (length as i32, to as i32, tag as i32);
                ffi::MPI_Isend(data, length, kind, to, tag, self.communicator.raw, &raw mut request)
            };
            message.requests.push((request, length));
            self.check(to, code)?;
        }
        Ok(Box::new(message))
    }

    fn receive(&self, from: usize, tag: u32, mut bytes: MessageWrite) -> Result<Box<dyn Pending>> {
        let (data, calls) = (bytes.address(), calls(bytes.bytes()));
        let mut message = Message::new(&self.communicator, Held::Write(bytes));
        let _serialised = serialised();
        for (begin, length) in calls {
            let mut request = no_request();
            // SAFETY: the part is inside the memory, which does not move and which `message` holds until MPI has finished with it.
            let code = unsafe {
                let (data, kind) = (data.wrapping_add(begin).cast(), ffi::RSMPI_UINT8_T);
                let (length, from, tag) = (length as i32, from as i32, tag as i32);
                ffi::MPI_Irecv(data, length, kind, from, tag, self.communicator.raw, &raw mut request)
            };
            message.requests.push((request, length));
            self.check(from, code)?;
        }
        Ok(Box::new(message))
    }

    fn takes_device_memory(&self) -> bool {
        self.takes_device_memory
    }

    fn abort(&self, exit_code: u8, message: &str) {
        let host = self.hosts().get(self.rank()).map_or("?", String::as_str);
        if !message.is_empty() {
            // MPI ends the process at once, so a failure to write has no other reader.
            let _ = writeln!(std::io::stderr(), "rowloom: rank {} on {host}: {message}", self.rank());
        }
        // Without the lock: a thread may wait in MPI for ever.
        // SAFETY: the communicator is valid as long as `self` lives.
        unsafe { ffi::MPI_Abort(self.communicator.raw, exit_code.into()) };
    }
}

fn no_request() -> ffi::MPI_Request {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_REQUEST_NULL }
}

/// The begin and the length of each call of a message.
fn calls(bytes: usize) -> Vec<(usize, usize)> {
    let parts = bytes.div_ceil(MAX_CALL_BYTES).max(1);
    let begin = |part: usize| part * MAX_CALL_BYTES;
    (0..parts).map(|part| (begin(part), MAX_CALL_BYTES.min(bytes - begin(part)))).collect()
}

/// The memory of a message.
enum Held {
    /// Held until the message is complete, and not accessed.
    Read {
        _bytes: MessageRead,
    },
    Write(MessageWrite),
}

/// A message of MPI.
struct Message {
    /// Null once complete, each with its number of bytes.
    requests: Vec<(ffi::MPI_Request, usize)>,
    memory: Option<Held>,
    /// Not freed, and MPI not ended, before the message is dropped.
    _communicator: Arc<Duplicate>,
}

// SAFETY: a request may be used by any thread, one at a time; `serialised` ensures it.
unsafe impl Send for Message {}

impl Message {
    fn new(communicator: &Arc<Duplicate>, memory: Held) -> Self {
        Self { requests: Vec::new(), memory: Some(memory), _communicator: communicator.clone() }
    }
}

impl Pending for Message {
    fn test(&mut self) -> Result<bool> {
        let _serialised = serialised();
        let is_received = matches!(self.memory, Some(Held::Write(_)));
        let mut all = true;
        for (request, length) in &mut self.requests {
            // SAFETY: the request is null or was started by this module and is not complete. MPI writes the status of a complete one.
            let (code, done, received) = unsafe {
                if *request == ffi::RSMPI_REQUEST_NULL {
                    continue;
                }
                let (mut done, mut received, mut status) = (0, 0, MaybeUninit::<ffi::MPI_Status>::zeroed());
                let mut code = ffi::MPI_Test(request, &raw mut done, status.as_mut_ptr());
                if code == 0 && done != 0 && is_received {
                    code = ffi::MPI_Get_count(status.as_ptr(), ffi::RSMPI_UINT8_T, &raw mut received);
                }
                (code, done != 0, received as usize)
            };
            if code != 0 {
                return Err(failed(format!("a message failed on its way: {}", message_of(code))));
            }
            if done && is_received && received != *length {
                return Err(failed(format!("a rank sent {received} bytes where {length} were expected")));
            }
            all &= done;
        }
        if all {
            self.requests.clear();
            if let Some(Held::Write(bytes)) = self.memory.take() {
                bytes.written();
            }
        }
        Ok(all)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.requests.is_empty() {
            return;
        }
        if is_finalised() {
            // The program ended MPI too early.
            return std::mem::forget(self.memory.take());
        }
        let _serialised = serialised();
        for (request, _) in &mut self.requests {
            // SAFETY: the request is null or was started by this module and is not complete; MPI has not ended.
            unsafe {
                if *request == ffi::RSMPI_REQUEST_NULL {
                    continue;
                }
                ffi::MPI_Cancel(request);
                ffi::MPI_Request_free(request);
            }
        }
        // MPI may still use the memory of a message that it could not cancel.
        std::mem::forget(self.memory.take());
    }
}
