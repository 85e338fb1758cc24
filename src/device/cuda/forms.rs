//! The compiled forms of a kernel and their compiler options.
//!
//! The **generic** form takes K as an argument. It is built in as PTX, so it needs only a driver. The **exact** form is
//! specialised: K and the variant's numbers are constants (`-DEXACT_K=32 -DLANES=8 …`), and NVRTC compiles it at run
//! time. Both forms have the same entry name and arguments. If the kernel's summation order is canonical, they give
//! bit-identical results.

use std::hash::{Hash, Hasher};

use crate::device::{Fault, FaultKind, Launch};
use crate::kernel::cuda::CudaKernel;
use crate::kernel::vectors::VectorKernel;
use crate::matrix::Dtype;

/// Compiler options of every form, the same as in `.ci/compile_kernels.py`. They keep the order and rounding of the
/// source's floating-point operations.
const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--diag-suppress=177,128"];

/// The macro name whose use in a kernel's source shows that it has exact forms.
const EXACT: &str = "EXACT_K";

/// File names in `kernels/` with the PTX compiled from them.
const EMBEDDED_PTX: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded_ptx.rs"));

/// The compute capability of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Architecture {
    /// Major number, 9 of 9.0.
    pub major: u32,
    /// Minor number, 0 of 9.0.
    pub minor: u32,
}

/// A kernel source with compiler options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The file name in `kernels/`.
    pub file: &'static str,
    /// The source text.
    pub text: &'static str,
    /// The compiler options, including the architecture.
    pub options: Vec<String>,
}

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All forms of a file have the same text.
        self.file.hash(state);
        self.options.hash(state);
    }
}

impl Form {
    fn new(file: &'static str, text: &'static str, architecture: Architecture, defines: Vec<String>) -> Self {
        let target = format!("--gpu-architecture=sm_{}{}", architecture.major, architecture.minor);
        let options = std::iter::once(target).chain(OPTIONS.map(String::from)).chain(defines).collect();
        Self { file, text, options }
    }
}

/// The forms that can serve a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forms {
    /// The entry's name, the same in all forms.
    pub entry: String,
    /// Built-in PTX reduced to that entry, if there is any.
    pub ptx: Option<String>,
    /// The generic form, compiled if no PTX is built in.
    pub generic: Form,
    /// The exact form, if the kernel has one.
    pub exact: Option<Form>,
}

impl Forms {
    /// The forms for `launch` on a card of `architecture`.
    pub fn of(launch: &Launch, architecture: Architecture) -> Result<Self, Fault> {
        let kernel = CudaKernel::of(launch.kernel)
            .map_err(|error| Fault::new(FaultKind::Misuse, error.to_string()))?;
        let entry = kernel.entry(launch.dtype, &launch.variant);
        let form = |defines: Vec<String>| Form::new(kernel.file, kernel.text, architecture, defines);
        let facts = (launch.uniform, launch.only_heavy);
        Ok(Self {
            ptx: built_in_ptx(kernel.file, &entry),
            entry,
            generic: form(Vec::new()),
            exact: has_word(kernel.text, EXACT)
                .then(|| form(kernel.defines(&launch.variant, launch.dtype, launch.k, facts))),
        })
    }

    /// The forms of a kernel on multivectors.
    pub fn of_vectors(kernel: VectorKernel, dtype: Dtype, architecture: Architecture) -> Self {
        let (info, entry) = (kernel.info(), kernel.entry(dtype));
        Self {
            ptx: built_in_ptx(info.file, &entry),
            entry,
            generic: Form::new(info.file, info.text, architecture, Vec::new()),
            exact: None,
        }
    }
}

fn built_in_ptx(file: &str, entry: &str) -> Option<String> {
    let (_, ptx) = EMBEDDED_PTX.iter().find(|(name, _)| *name == file)?;
    only_entry(ptx, entry)
}

/// `ptx` reduced to one entry, because the driver would compile all of them. `None` if the entry does not exist.
fn only_entry(ptx: &str, entry: &str) -> Option<String> {
    const ENTRY: &str = ".visible .entry ";
    let mut kept = String::with_capacity(ptx.len() / 2);
    let mut found = false;
    let mut rest = ptx;
    while let Some(begin) = rest.find(ENTRY) {
        // An entry ends at the first closing brace at the start of a line; inner braces are indented.
        let end = rest[begin..].find("\n}").map_or(rest.len(), |end| begin + end + 2);
        kept.push_str(&rest[..begin]);
        let name = rest[begin + ENTRY.len()..].split(|c: char| !is_word(c)).next();
        if name == Some(entry) {
            found = true;
            kept.push_str(&rest[begin..end]);
        }
        rest = &rest[end..];
    }
    kept.push_str(rest);
    found.then_some(kept)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c| !is_word(c)).any(|part| part == word)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kernel::KernelId;
    use crate::kernel::cuda::CUDA_KERNELS;
    use crate::kernel::vectors::VECTOR_KERNELS;

    pub const H200: Architecture = Architecture { major: 9, minor: 0 };

    pub fn launch(kernel: KernelId, dtype: Dtype, k: u64) -> Launch {
        let variant = CudaKernel::of(kernel).map(CudaKernel::first_variant).unwrap_or_default();
        Launch {
            kernel,
            variant,
            dtype,
            items: 10.into(),
            uniform: false,
            only_heavy: false,
            k,
            arguments: Vec::new(),
            batch: None,
        }
    }

    #[test]
    fn every_kernel_has_its_ptx_with_both_entries() {
        let dtypes = [Dtype::F64, Dtype::F32];
        for kernel in CUDA_KERNELS {
            for (dtype, variant) in dtypes
                .iter()
                .flat_map(|&dtype| kernel.variants_of(dtype).map(move |&variant| (dtype, variant)))
            {
                let launch = Launch { variant, ..launch(kernel.id, dtype, 8) };
                let forms = Forms::of(&launch, H200).unwrap();
                let ptx = forms.ptx.unwrap_or_else(|| {
                    panic!("{} has no current PTX: run .ci/compile_kernels.py --write", kernel.file)
                });
                assert_eq!(ptx.matches(".visible .entry").count(), 1, "{}", forms.entry);
                assert!(ptx.contains(&format!(".visible .entry {}(", forms.entry)));
                let old_enough = ptx.contains(".version 8.") && ptx.contains(".target sm_75");
                assert!(old_enough, "for older drivers and cards");
                assert_eq!(ptx.matches('{').count(), ptx.matches('}').count());
            }
        }
    }

    #[test]
    fn every_kernel_on_multivectors_has_its_ptx() {
        for (info, dtype) in VECTOR_KERNELS.iter().flat_map(|info| [(info, Dtype::F64), (info, Dtype::F32)]) {
            let forms = Forms::of_vectors(info.kernel, dtype, H200);
            assert!(
                forms.ptx.is_some(),
                "{} has no current PTX: run .ci/compile_kernels.py --write",
                forms.entry
            );
            assert_eq!(forms.exact, None);
        }
    }

    #[test]
    fn an_entry_is_extracted_completely() {
        let ptx = "head\n.visible .entry one(\n)\n{\n\t{\n\t}\n}\n.shared s;\n.visible .entry one_more(\n)\n{\n}\ntail\n";
        assert_eq!(
            only_entry(ptx, "one").unwrap(),
            "head\n.visible .entry one(\n)\n{\n\t{\n\t}\n}\n.shared s;\n\ntail\n"
        );
        assert_eq!(
            only_entry(ptx, "one_more").unwrap(),
            "head\n\n.shared s;\n.visible .entry one_more(\n)\n{\n}\ntail\n"
        );
        assert_eq!(only_entry(ptx, "more"), None);
    }

    #[test]
    fn only_sources_that_use_exact_k_have_exact_forms() {
        let forms = Forms::of(&launch(KernelId::CsrScalarV3, Dtype::F64, 8), H200).unwrap();
        assert_eq!(forms.exact, None);
        assert_eq!(forms.generic.options[0], "--gpu-architecture=sm_90");
        assert!(has_word("#ifdef EXACT_K\n", EXACT) && !has_word("INEXACT_K EXACT_KS", EXACT));
    }

    #[test]
    fn only_exact_forms_get_the_uniform_and_only_heavy_macros() {
        for (uniform, only_heavy) in [(false, false), (true, false), (false, true), (true, true)] {
            let launch = Launch { uniform, only_heavy, ..launch(KernelId::Hybrid, Dtype::F32, 16) };
            let forms = Forms::of(&launch, H200).unwrap();
            let defined =
                |form: &Form| ["-DUNIFORM", "-DONLY_HEAVY"].map(|word| form.options.contains(&word.into()));
            assert_eq!(defined(&forms.exact.unwrap()), [uniform, only_heavy]);
            assert_eq!(defined(&forms.generic), [false, false]);
        }
    }

    #[test]
    fn host_kernels_have_no_forms() {
        let fault = Forms::of(&launch(KernelId::CpuCsr, Dtype::F64, 8), H200).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Misuse);
    }
}
