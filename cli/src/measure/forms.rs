//! Names of kernel forms.

use std::collections::HashMap;

use rowloom::internal::cost::Form;
use rowloom::internal::kernel::Processor;
use rowloom::internal::matrix::Dtype;
use rowloom::internal::work::spmm::cost::eligible;

/// Every form that the planner may choose for `k` columns, by each of its names in reports.
pub fn forms_by_name(dtype: Dtype, k: u64) -> HashMap<String, Form> {
    let kernels = [Processor::Cpu, Processor::Gpu].into_iter().flat_map(eligible);
    let forms =
        kernels.flat_map(|&kernel| [true, false].map(|compiles| Form::all(kernel, dtype, k, compiles)));
    let mut found = HashMap::new();
    for form in forms.flatten() {
        for name in form_names(&form) {
            found.entry(name).or_insert(form);
        }
    }
    found
}

/// The two names of a form in reports: with threads and piece, as it is called where several forms share the short name, and the
/// short name.
pub fn form_names(form: &Form) -> [String; 2] {
    let (threads, piece) = (form.variant.threads, form.variant.piece);
    let short = match rowloom::internal::kernel::cuda::CudaKernel::of(form.kernel) {
        Ok(gpu) => gpu.variant_name(&form.variant),
        Err(_) => form.kernel.name().into(),
    };
    [format!("{short} t{threads} p{piece}"), short]
}
