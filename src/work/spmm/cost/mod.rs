//! What the kernels of a sparse product cost: predicted times, fitted to measured ones, and the choice of a kernel.

mod calibration;
mod cases;
mod choose;
mod fit;
mod kernel_list;
mod kernels;
mod load;
mod reference;
mod regressors;
mod shape;
mod similarity;

pub use calibration::{KernelFit, calibration_cases, fit_device, least_gb_per_s};
pub use choose::{FREE_GAIN, choose, choose_candidate};
pub use fit::{Sample, fit, fit_factors};
pub use kernel_list::eligible;
pub use reference::Reference;
pub use regressors::{REGRESSORS, names as regressor_names};
