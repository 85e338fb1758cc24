//! Devices that hang, fail and panic: a right Y or a typed error, in bounded time.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rowloom::internal::device::cuda::Driver;
use rowloom::internal::matrix::generate;
use rowloom::internal::plan::Mode;

use super::devices_agree::{Case, expected, faulty, pool, words};

/// The device list of a child process.
const DEVICES: &str = "ROWLOOM_TEST_DEVICES";
/// Set if the child copies A, X and Y in place.
const IN_PLACE: &str = "ROWLOOM_TEST_IN_PLACE";
/// Long enough for a chunk on the CPU of a loaded machine.
const WATCHDOG_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a CUDA device waits for its threads when it is closed, and the start of a process on a loaded machine.
const SLACK: Duration = Duration::from_secs(20);

/// Runs one product on `devices` in another process, since a hung device may end it.
fn run_in_child(devices: &str, in_place: bool) -> (Output, Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "faults::a_product_in_this_process", "--ignored", "--nocapture"]);
    child.env(DEVICES, devices);
    if in_place {
        child.env(IN_PLACE, "1");
    }
    let begin = Instant::now();
    (child.output().unwrap(), begin.elapsed())
}

#[test]
#[ignore = "a child process of the tests below"]
fn a_product_in_this_process() {
    let devices = words(&std::env::var(DEVICES).unwrap());
    let a = generate::<f64>("stencil5,n=9", 5, u64::MAX).unwrap().matrix;
    let case = Case {
        devices: &devices,
        mode: Some(Mode::Oneshot),
        chunks: Some(6),
        register: std::env::var_os(IN_PLACE).is_some(),
        watchdog_timeout: WATCHDOG_TIMEOUT,
        ..Case::default()
    };
    let (y, faults) = faulty(&pool(), &a, &case).unwrap();
    assert!(y == expected(&a, 4));
    println!("Y is right after {} faults", faults.len());
    // The exit handlers of the CUDA driver would wait for a kernel that hangs.
    std::process::abort();
}

#[track_caller]
fn assert_ends_with_4(devices: &str, hung: &str) {
    let (output, took) = run_in_child(devices, true);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{devices}: {errors}");
    assert!(errors.contains(&format!("device {hung}: ")) && errors.contains("the process ends"), "{errors}");
    assert!(took < WATCHDOG_TIMEOUT + SLACK, "{devices}: {took:?}");
}

#[track_caller]
fn assert_recovers(devices: &str) {
    let (output, took) = run_in_child(devices, false);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Y is right after 1 faults"), "{devices}: {text}");
    assert!(took < WATCHDOG_TIMEOUT + SLACK, "{devices}: {took:?}");
}

#[test]
fn a_device_that_hangs_while_it_copies_in_place_ends_the_process_with_4_in_bounded_time() {
    std::thread::scope(|scope| {
        for operation in [1, 2, 3, 4, 6] {
            for list in ["cpu,emu:0", "emu:0,emu:1", "emu:0"] {
                let faulty = format!("emu:0?hang_at_operation={operation}");
                scope.spawn(move || assert_ends_with_4(&list.replacen("emu:0", &faulty, 1), "emu:0"));
            }
        }
    });
}

#[test]
fn a_kernel_that_never_ends_on_a_card_is_recovered_if_staged_and_ends_the_process_if_in_place() {
    if let Err(missing) = Driver::get() {
        crate::skip::skip("gpu", missing);
        return;
    }
    for launch in 1..=3 {
        let devices = format!("cpu,cuda:0?hang_at_launch={launch}");
        assert_recovers(&devices);
        assert_ends_with_4(&devices, "cuda:0");
    }
}
