//! Rowloom inside a program that uses MPI itself. Each test starts itself again under `mpirun`.

use std::process::{Command, Stdio};

use mpi::collective::CommunicatorCollectives;
use mpi::ffi;
use mpi::point_to_point::{Destination, Source};
use mpi::topology::{Color, Communicator as _};
use rowloom::internal::device::network::Communicator;
use rowloom::internal::matrix::MultiVector;
use rowloom::{Error, Result, Runtime};

use crate::ranks::{bits, block, filled, host, matrix, values};
use crate::skip::skip;

/// Set in the processes of a job.
const IS_RANK: &str = "ROWLOOM_TEST_IS_RANK";

/// Runs `rank` on each of `ranks` processes, which are this test again.
fn on_ranks(test: &str, ranks: usize, rank: impl FnOnce()) {
    if std::env::var_os(IS_RANK).is_some() {
        return rank();
    }
    if Command::new("mpirun").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return skip("mpi", "mpirun is not installed");
    }
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    command.arg(std::env::current_exe().unwrap());
    command.args([&format!("mpi_inside::{test}"), "--exact", "--nocapture"]).env(IS_RANK, "1");
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    // Containers forbid the system call that it would use.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
    assert_eq!(stdout.matches("1 passed").count(), ranks, "{stdout}{stderr}");
}

/// Whether MPI has ended.
fn has_ended() -> bool {
    let mut flag = 0;
    // SAFETY: allowed at any time; writes one number.
    unsafe { ffi::MPI_Finalized(&raw mut flag) };
    flag != 0
}

/// Whether errors on a communicator end the program, as they do unless the program says otherwise.
fn errors_are_fatal(communicator: &impl mpi::topology::Communicator) -> bool {
    // SAFETY: the communicator is valid; MPI writes one handle.
    unsafe {
        let mut handler = ffi::RSMPI_ERRORS_RETURN;
        ffi::MPI_Comm_get_errhandler(communicator.as_raw(), &raw mut handler);
        handler == ffi::RSMPI_ERRORS_ARE_FATAL
    }
}

/// The bits of the rows of this rank of A X, with K = 3.
fn rows_of_product(ranks: std::sync::Arc<dyn Communicator>) -> Result<(Vec<u64>, Vec<u64>)> {
    let a = matrix("stencil5,n=20");
    let cluster =
        Runtime::builder().devices("cpu").threads(1).model("none").refine(false).over(ranks.clone())?;
    let mut product = cluster.product(block(&cluster, &a, 3)).columns(3).build()?;
    let (x, mut y) = (filled(product.vectors()?), product.vectors()?);
    product.apply_into(&x, &mut y)?;
    Ok((bits(&host(&y)), bits(&y.norm()?)))
}

#[test]
fn a_program_computes_on_a_communicator_of_its_own_and_keeps_its_mpi() {
    on_ranks("a_program_computes_on_a_communicator_of_its_own_and_keeps_its_mpi", 3, || {
        let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Serialized).unwrap();
        let world = universe.world();
        // Rank 1 does not compute; the others have the opposite order.
        let color = if world.rank() == 1 { Color::undefined() } else { Color::with_value(0) };
        let part = world.split_by_color_with_key(color, -world.rank());
        if let Some(part) = part {
            let ranks = rowloom::mpi::from_communicator(&part).unwrap();
            assert!(errors_are_fatal(&part) && errors_are_fatal(&world));
            assert_eq!((ranks.size(), ranks.rank()), (2, usize::from(world.rank() == 0)));
            // A message of the program with any tag is not mistaken for one of a product.
            let other = part.process_at_rank(1 - part.rank());
            let sent = [17u8; 8];
            mpi::request::scope(|scope| {
                let own: Vec<_> =
                    (0..600).map(|tag| other.immediate_send_with_tag(scope, &sent[..], tag)).collect();
                let (y, norms) = rows_of_product(ranks.clone()).unwrap();
                for tag in 0..600 {
                    assert_eq!(other.receive_vec_with_tag::<u8>(tag).0, sent);
                }
                for request in own {
                    let _ = request.wait();
                }
                let all = ranks.all_gather(bytemuck::cast_slice(&y)).unwrap().concat();
                let a = matrix("stencil5,n=20");
                let alone = Runtime::builder().devices("cpu").threads(1).model("none").open().unwrap();
                let x = values(0, 400, 3);
                let mut expected = MultiVector::zeros(400, 3).unwrap();
                let mut product = alone.product(&a).columns(3).reproducible(true).build().unwrap();
                product.apply_into(&x, &mut expected).unwrap();
                assert_eq!(all, bytemuck::cast_slice::<u64, u8>(&bits(expected.data())));
                assert_eq!(norms.len(), 3);
            });
        }
        // MPI of the program works on.
        world.barrier();
        assert!(!has_ended());
    });
}

#[test]
fn a_program_that_initialised_mpi_for_one_thread_gets_advice() {
    on_ranks("a_program_that_initialised_mpi_for_one_thread_gets_advice", 1, || {
        let _universe = mpi::initialize_with_threading(mpi::Threading::Single).unwrap();
        // The library may allow more than was asked for.
        if mpi::environment::threading_support() < mpi::Threading::Serialized {
            let error = rowloom::mpi::communicator().err().unwrap();
            assert!(
                matches!(&error, Error::Device { .. }) && error.to_string().contains("MPI_THREAD_SERIALIZED")
            );
        }
    });
}

#[test]
fn mpi_does_not_end_on_another_thread_than_the_one_that_initialised_it() {
    on_ranks("mpi_does_not_end_on_another_thread_than_the_one_that_initialised_it", 2, || {
        let ranks = rowloom::mpi::communicator().unwrap();
        let second = rowloom::mpi::communicator().unwrap();
        rows_of_product(second.clone()).unwrap();
        drop(second);
        assert!(!has_ended(), "a communicator is in use");
        std::thread::spawn(move || drop(ranks)).join().unwrap();
        // It ends when the process exits; otherwise `mpirun` reports an error.
        assert!(!has_ended());
    });
}
