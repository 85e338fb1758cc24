//! No figure without a right Y: a program checks every Y that it has timed, and ends with exit code 1 and without a ratio if one is wrong.

use rowloom::internal::error::Error;
use rowloom::internal::kernel::cpu::Kernels;
use rowloom::internal::matrix::{CsrView, MultiVectorView};
use rowloom::internal::runtime::Pool;
use rowloom_cli::measure::check_product;

/// An error if `y` is not `matrix` times `x`. Small products are compared with the reference, all rows of large ones by weighted sums.
pub fn require<T: Kernels>(
    pool: &Pool,
    what: &str,
    matrix: CsrView<'_, T>,
    x: MultiVectorView<'_, T>,
    y: MultiVectorView<'_, T>,
) -> rowloom::Result<()> {
    let checked = pool.install(|| check_product(matrix, x, y, true))?;
    match checked.passed {
        true => Ok(()),
        false => Err(Error::Verification(format!("{what}: Y is wrong, so there are no figures"))),
    }
}
