//! The compiled forms of a kernel and their compiler options.
//!
//! The **generic** form takes K as an argument. It is built in, as machine code and as PTX, so it needs only a driver. The
//! **exact** form is specialised: K and the variant's numbers are constants (`-DEXACT_K=32 -DLANES=8 …`), and NVRTC compiles
//! it at run time. Both forms have the same arguments. If the kernel's summation order is canonical, they give bit-identical
//! results.
//!
//! Few variants are built in. For the others, the generic form is that of a similar variant that reads the same arrays.

use std::hash::{Hash, Hasher};

use super::built_in::{Architecture, BuiltIn};
use crate::device::{Fault, FaultKind, Launch};
use crate::kernel::cuda::{CudaKernel, EntryPoint, Variant};
use crate::matrix::Dtype;

/// Compiler options of every form, the same as in `.ci/compile_kernels.py`. They keep the order and rounding of the
/// source's floating-point operations.
const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--diag-suppress=177,128"];

/// The macro name whose use in a kernel's source shows that it has exact forms.
const EXACT: &str = "EXACT_K";

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

/// The generic form of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generic {
    /// The variant: the launch's own one, or a similar one. A kernel with a single form has one variant.
    pub variant: Variant,
    /// The entry's name.
    pub entry: String,
    /// Built-in code of the kernel's file, best first.
    pub built_in: Vec<BuiltIn>,
    /// The source, which is compiled if no built-in code can be loaded.
    pub source: Form,
}

impl Generic {
    /// The form of a kernel that has no other.
    pub fn of_entry_point(kernel: &EntryPoint, dtype: Dtype, architecture: Architecture) -> Self {
        Self {
            variant: Variant::PLAIN,
            entry: kernel.entry(dtype),
            built_in: BuiltIn::for_card(kernel.file, architecture),
            source: Form::new(kernel.file, kernel.text, architecture, Vec::new()),
        }
    }
}

/// The forms that can serve a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forms {
    /// The entry's name in the exact form.
    pub entry: String,
    /// The generic form, if the kernel's file has a suitable variant.
    pub generic: Option<Generic>,
    /// The exact form, if the kernel has one.
    pub exact: Option<Form>,
}

impl Forms {
    /// The forms for `launch` on a card of `architecture`.
    pub fn of(launch: &Launch, architecture: Architecture) -> Result<Self, Fault> {
        let kernel =
            CudaKernel::of(launch.kernel).map_err(|error| Fault::new(FaultKind::Misuse, error.message()))?;
        let form = |defines: Vec<String>| Form::new(kernel.file, kernel.text, architecture, defines);
        let generic = |variant: Variant| Generic {
            variant,
            entry: kernel.entry(launch.dtype, &variant),
            built_in: BuiltIn::for_card(kernel.file, architecture),
            source: form(Vec::new()),
        };
        let facts = (launch.uniform, launch.only_heavy);
        Ok(Self {
            entry: kernel.entry(launch.dtype, &launch.variant),
            generic: kernel.built_in_variant(&launch.variant, launch.dtype, launch.k).map(generic),
            exact: has_word(kernel.text, EXACT)
                .then(|| form(kernel.defines(&launch.variant, launch.dtype, launch.k, facts))),
        })
    }
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
    fn a_variant_that_is_not_built_in_has_the_generic_form_of_a_similar_one() {
        let segments = CudaKernel::of(KernelId::CsrSegments).unwrap();
        let own = segments.variant_for(Dtype::F64, 32).unwrap();
        let of = |variant| {
            let launch = Launch { variant, ..launch(KernelId::CsrSegments, Dtype::F64, 32) };
            Forms::of(&launch, H200).unwrap()
        };
        let forms = of(own);
        assert_eq!(forms.generic.unwrap().entry, forms.entry);
        let forms = of(Variant { depth: 16, ..own });
        assert_eq!(forms.entry, segments.entry(Dtype::F64, &Variant { depth: 16, ..own }));
        assert_eq!(forms.generic.unwrap().variant, own);
        assert_eq!(of(Variant { piece: 999, ..own }).generic, None, "the arrays are others");
    }

    #[test]
    fn only_sources_that_use_exact_k_have_exact_forms() {
        let forms = Forms::of(&launch(KernelId::CsrScalarV3, Dtype::F64, 8), H200).unwrap();
        assert_eq!(forms.exact, None);
        assert_eq!(forms.generic.unwrap().source.options[0], "--gpu-architecture=sm_90");
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
            assert_eq!(defined(&forms.generic.unwrap().source), [false, false]);
        }
    }

    #[test]
    fn host_kernels_have_no_forms() {
        let fault = Forms::of(&launch(KernelId::CpuCsr, Dtype::F64, 8), H200).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Misuse);
    }
}
