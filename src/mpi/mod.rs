//! Ranks that are processes of an MPI job, started with `mpirun`. Built with the feature `mpi`.
//!
//! Messages are MPI's own non-blocking ones. They are in host memory, which is page-locked where a device copies from it or to it, or
//! in the memory of a card if the library says that it takes it (CUDA-aware MPI). The library is asked at run time, since a program may
//! be started with another one than it was built with.
//!
//! MPI is initialised for calls from one thread at a time, and a lock serialises all calls.

#![allow(unsafe_code)] // MPI's C functions: messages use memory for longer than a call lasts

use std::ffi::{CStr, c_int, c_void};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::mpi::Threading;
use ::mpi::environment::{Universe, initialize_with_threading, processor_name};
use ::mpi::ffi;
use ::mpi::topology::Communicator as _;

use crate::device::network::{Communicator, Members, Pending, RANK_TIMEOUT};
use crate::device::{MessageRead, MessageWrite};
use crate::error::{Error, Result};

/// The most bytes of one call: MPI counts in 32-bit integers.
const MAX_CALL_BYTES: usize = 1 << 30;

/// Held during every call of MPI.
static CALLS: Mutex<()> = Mutex::new(());

fn serialised() -> MutexGuard<'static, ()> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ranks of this MPI job. MPI ends when the communicator is dropped, and can be started once in a process.
pub fn communicator() -> Result<Arc<dyn Communicator>> {
    communicator_with_timeout(RANK_TIMEOUT)
}

/// The same, with the time after which a silent rank counts as hung.
pub fn communicator_with_timeout(timeout: Duration) -> Result<Arc<dyn Communicator>> {
    let failed = |reason: &str| Error::Device { device: "network".into(), reason: reason.into() };
    let started = initialize_with_threading(Threading::Serialized);
    let (universe, threading) = started.ok_or_else(|| failed("MPI was started before in this process"))?;
    if threading < Threading::Serialized {
        return Err(failed(
            "this MPI library does not allow calls from several threads; use one built with threads",
        ));
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let name = processor_name().unwrap_or_else(|_| "?".into());
    let members = Members { rank, hosts: vec![name.clone(); size], timeout };
    let takes_device_memory = takes_cuda_memory();
    let mut ranks = MpiRanks { members, takes_device_memory, _universe: universe };
    let hosts = ranks.all_gather(name.as_bytes())?;
    ranks.members.hosts = hosts.iter().map(|host| String::from_utf8_lossy(host).into_owned()).collect();
    Ok(Arc::new(ranks))
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
    /// Ends MPI when it is dropped.
    _universe: Universe,
}

impl MpiRanks {
    fn check(&self, rank: usize, tag: u32, code: i32) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(self.rank_error(rank, format!("MPI error {code} of message {tag}"))),
        }
    }
}

impl Communicator for MpiRanks {
    fn members(&self) -> &Members {
        &self.members
    }

    fn send(&self, to: usize, tag: u32, bytes: MessageRead) -> Result<Box<dyn Pending>> {
        let mut message = Message { requests: Vec::new(), memory: Some(Held::Read(bytes)) };
        let Some(Held::Read(bytes)) = &message.memory else { return Ok(Box::new(message)) };
        let _serialised = serialised();
        for (begin, length) in calls(bytes.bytes()) {
            // SAFETY: the part is inside the memory, which `message` holds until MPI has finished with it.
            let code = unsafe {
                message.requests.push(ffi::RSMPI_REQUEST_NULL);
                let request = message.requests.last_mut().map_or(std::ptr::null_mut(), |request| request);
                let data = bytes.address().wrapping_add(begin).cast();
                let (kind, world) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_COMM_WORLD);
                ffi::MPI_Isend(data, length as i32, kind, to as i32, tag as i32, world, request)
            };
            self.check(to, tag, code)?;
        }
        Ok(Box::new(message))
    }

    fn receive(&self, from: usize, tag: u32, mut bytes: MessageWrite) -> Result<Box<dyn Pending>> {
        let (data, all) = (bytes.address(), calls(bytes.bytes()));
        let mut message = Message { requests: Vec::new(), memory: Some(Held::Write(bytes)) };
        let _serialised = serialised();
        for (begin, length) in all {
            // SAFETY: the part is inside the memory, which does not move and which `message` holds until MPI has finished with it.
            let code = unsafe {
                message.requests.push(ffi::RSMPI_REQUEST_NULL);
                let request = message.requests.last_mut().map_or(std::ptr::null_mut(), |request| request);
                let (kind, world) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_COMM_WORLD);
                ffi::MPI_Irecv(
                    data.wrapping_add(begin).cast(),
                    length as i32,
                    kind,
                    from as i32,
                    tag as i32,
                    world,
                    request,
                )
            };
            self.check(from, tag, code)?;
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
        // SAFETY: MPI is initialised as long as `self` lives.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, exit_code.into()) };
    }
}

/// The begin and the length of each call of a message.
fn calls(bytes: usize) -> Vec<(usize, usize)> {
    let parts = bytes.div_ceil(MAX_CALL_BYTES).max(1);
    let begin = |part: usize| part * MAX_CALL_BYTES;
    (0..parts).map(|part| (begin(part), MAX_CALL_BYTES.min(bytes - begin(part)))).collect()
}

/// The memory of a message.
enum Held {
    Read(MessageRead),
    Write(MessageWrite),
}

/// A message of MPI.
struct Message {
    /// Null once complete.
    requests: Vec<ffi::MPI_Request>,
    memory: Option<Held>,
}

// SAFETY: a request may be used by any thread, one at a time; `serialised` ensures it.
unsafe impl Send for Message {}

impl Pending for Message {
    fn test(&mut self) -> Result<bool> {
        let _serialised = serialised();
        let mut all = 1;
        for request in &mut self.requests {
            let mut done = 0;
            // SAFETY: the request is null or was started by this module and is not complete.
            let code = unsafe { ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE) };
            if code != 0 {
                return Err(Error::Internal(format!("MPI error {code} while a message was in flight")));
            }
            all &= done;
        }
        if all != 0 {
            self.requests.clear();
            if let Some(Held::Write(bytes)) = self.memory.take() {
                bytes.written();
            }
        }
        Ok(all != 0)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let _serialised = serialised();
        for request in &mut self.requests {
            // SAFETY: the request is null or was started by this module and is not complete.
            unsafe {
                if *request == ffi::RSMPI_REQUEST_NULL {
                    continue;
                }
                ffi::MPI_Cancel(request);
                ffi::MPI_Request_free(request);
            }
        }
        if !self.requests.is_empty() {
            // MPI may still use the memory of a message that it could not cancel.
            std::mem::forget(self.memory.take());
        }
    }
}
