//! Selects the function of a launch: the generic form at first, the exact form once it is compiled.
//!
//! Without NVRTC only generic forms are available. An exact form that is in the kernel cache is used from the first
//! launch. Of the generic form, machine code is loaded if there is some for this card, otherwise PTX.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::cublas::sys::cublasHandle_t;

use super::built_in::Architecture;
use super::built_in::Target;
use super::compiler_threads::{Compile, CompileResult, CompilerThreads};
use super::cublas::Cublas;
use super::forms::{Form, Forms, Generic};
use super::kernel_cache::KernelCache;
use super::loader::{Driver, Image, Loader};
use super::nvrtc::Nvrtc;
use crate::device::{Fault, FaultKind, Launch};
use crate::kernel::KernelId;
use crate::kernel::cuda::{EntryPoint, Variant};
use crate::matrix::Dtype;

/// The kernels of one device, loaded on demand. The owner thread, which has the device's context, uses and drops it.
pub struct Modules<L: Loader = Driver> {
    loader: L,
    forms: FormsOf,
    architecture: Architecture,
    /// `None` without NVRTC.
    compiler: Option<CompilerThreads>,
    compiled: HashMap<Form, Compiled<L::Module>>,
    /// Generic forms from built-in code, by entry name.
    built_in: HashMap<String, L::Module>,
    selected: HashMap<FunctionKey, Choice<L::Function>>,
    /// Functions of kernels with a single form that are loaded, by the kernel's name and precision.
    single_functions: HashMap<(&'static str, Dtype), L::Function>,
    /// `None` before its first use.
    cublas: Option<Cublas>,
}

/// The forms for a launch on a card.
type FormsOf = fn(&Launch, Architecture) -> Result<Forms, Fault>;

/// The properties of a launch that determine its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FunctionKey {
    kernel: KernelId,
    variant: Variant,
    dtype: Dtype,
    k: u64,
    uniform: bool,
    only_heavy: bool,
}

impl FunctionKey {
    pub(super) fn of(launch: &Launch) -> Self {
        let Launch { kernel, variant, dtype, k, uniform, only_heavy, .. } = *launch;
        Self { kernel, variant, dtype, k, uniform, only_heavy }
    }
}

/// The state of a form's compilation.
enum Compiled<M> {
    Requested,
    Ready(M),
    Failed(Fault),
}

/// The selected function, and the exact form that will replace it once compiled.
struct Choice<F> {
    selected: Selected<F>,
    pending: Option<Form>,
}

/// A function that serves a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected<F> {
    /// The function.
    pub function: F,
    /// Its variant, which determines the launch shape. It may differ from the launch's variant.
    pub variant: Variant,
}

/// A function that another thread launches, until the modules are dropped.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// The driver's handle.
    pub handle: usize,
    /// Its variant, which determines the launch shape.
    pub variant: Variant,
    /// Whether it stays: no better form is being compiled.
    pub is_final: bool,
}

impl Modules {
    /// No kernels yet. The card's context must be current on this thread; the driver is for CUDA `driver_major`.
    pub fn new(architecture: Architecture, driver_major: u32) -> Self {
        let compiler = Nvrtc::installed(driver_major).map(|nvrtc| nvrtc as Arc<dyn Compile>);
        Self::with(Driver, Forms::of, architecture, compiler, KernelCache::of_user())
    }

    /// The best function for a launch that is available now, for another thread.
    pub fn settled_function(&mut self, launch: &Launch) -> Result<Settled, Fault> {
        let Selected { function, variant } = self.function(launch)?;
        let choice = self.selected.get(&FunctionKey::of(launch));
        let is_final = choice.is_some_and(|choice| choice.pending.is_none());
        Ok(Settled { handle: function.expose_provenance(), variant, is_final })
    }
}

impl<L: Loader> Modules<L> {
    fn with(
        loader: L,
        forms: FormsOf,
        architecture: Architecture,
        compiler: Option<Arc<dyn Compile>>,
        cache: KernelCache,
    ) -> Self {
        let compiler = compiler.map(|compiler| CompilerThreads::new(compiler, cache));
        let (compiled, built_in, selected) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (single_functions, cublas) = (HashMap::new(), None);
        Self { loader, forms, architecture, compiler, compiled, built_in, selected, single_functions, cublas }
    }

    /// The handle of cuBLAS for the context that is current on this thread; a fault if it is not installed.
    pub fn cublas(&mut self) -> Result<cublasHandle_t, Fault> {
        let cublas = match &mut self.cublas {
            Some(cublas) => cublas,
            none => none.insert(Cublas::create()?),
        };
        Ok(cublas.handle())
    }

    /// The best function for a launch that is available now. Waits for the compiler only if there is none.
    pub fn function(&mut self, launch: &Launch) -> Result<Selected<L::Function>, Fault> {
        while let Some(made) = self.compiler.as_ref().and_then(CompilerThreads::try_next) {
            self.store(made);
        }
        let key = FunctionKey::of(launch);
        if let Some(choice) = self.selected.get(&key) {
            let waiting = |form| matches!(self.compiled.get(form), Some(Compiled::Requested));
            if choice.pending.as_ref().is_none_or(waiting) {
                return Ok(choice.selected);
            }
        }
        let choice = self.choose(launch)?;
        let selected = choice.selected;
        self.selected.insert(key, choice);
        Ok(selected)
    }

    /// The function of a kernel that has a generic form only.
    pub fn single_function(&mut self, kernel: &EntryPoint, dtype: Dtype) -> Result<L::Function, Fault> {
        if let Some(&function) = self.single_functions.get(&(kernel.name, dtype)) {
            return Ok(function);
        }
        let generic = Generic::of_entry_point(kernel, dtype, self.architecture);
        let function = self.generic(&generic)?.function;
        self.single_functions.insert((kernel.name, dtype), function);
        Ok(function)
    }

    /// Compiles the exact forms of these launches in parallel and waits for them. A fault names a form that does not
    /// compile; its launches use the generic form.
    pub fn prepare(&mut self, launches: &[Launch]) -> Result<(), Fault> {
        let mut forms = Vec::new();
        for launch in launches {
            forms.extend((self.forms)(launch, self.architecture)?.exact);
        }
        if self.compiler.is_none() {
            return Ok(());
        }
        forms.iter().for_each(|form| self.request(form));
        // Waits for all of them, even if the first fails.
        let waited: Vec<Result<(), Fault>> = forms.iter().map(|form| self.wait_for(form)).collect();
        waited.into_iter().collect()
    }

    fn choose(&mut self, launch: &Launch) -> Result<Choice<L::Function>, Fault> {
        let forms = (self.forms)(launch, self.architecture)?;
        let Some(exact) = forms.exact.as_ref().filter(|_| self.compiler.is_some()) else {
            let generic = forms.generic.ok_or_else(|| no_code(&forms.entry))?;
            return Ok(Choice { selected: self.generic(&generic)?, pending: None });
        };
        self.request(exact);
        let own = |function| Selected { function, variant: launch.variant };
        if let Some(Compiled::Ready(module)) = self.compiled.get(exact) {
            match self.loader.function(module, &forms.entry) {
                Ok(function) => return Ok(Choice { selected: own(function), pending: None }),
                Err(fault) => self.mark_failed(exact, fault),
            }
        }
        let generic = forms.generic.as_ref().ok_or_else(|| no_code(&forms.entry));
        match generic.and_then(|generic| self.generic(generic)) {
            Ok(selected) => {
                let requested = matches!(self.compiled.get(exact), Some(Compiled::Requested));
                Ok(Choice { selected, pending: requested.then(|| exact.clone()) })
            }
            Err(_) if self.wait_for(exact).is_ok() => {
                Ok(Choice { selected: own(self.entry_of(exact, &forms.entry)?), pending: None })
            }
            Err(fault) => Err(fault),
        }
    }

    /// The generic form's function: from built-in code, otherwise compiled now.
    fn generic(&mut self, generic: &Generic) -> Result<Selected<L::Function>, Fault> {
        let Generic { variant, ref entry, ref source, .. } = *generic;
        let function = match self.load_built_in(generic)? {
            Some(function) => function,
            None if self.compiler.is_none() => return Err(no_code(entry)),
            None => {
                self.request(source);
                self.wait_for(source)?;
                self.entry_of(source, entry)?
            }
        };
        Ok(Selected { function, variant })
    }

    /// The function from built-in code. If the driver refuses the machine code, PTX is loaded.
    fn load_built_in(&mut self, generic: &Generic) -> Result<Option<L::Function>, Fault> {
        let entry = &generic.entry;
        if let Some(module) = self.built_in.get(entry) {
            return self.loader.function(module, entry).map(Some);
        }
        let mut refused = None;
        for built_in in &generic.built_in {
            let Some(code) = built_in.archive.code(entry) else { continue };
            let image = match built_in.target {
                Target::MachineCode(_) => Image::MachineCode(&code),
                Target::Ptx => Image::Ptx(&code),
            };
            match self.loader.load(image) {
                Ok(module) => {
                    let function = self.loader.function(&module, entry);
                    self.built_in.insert(entry.clone(), module);
                    return function.map(Some);
                }
                // The driver is too old for the code.
                Err(fault) if fault.kind == FaultKind::Launch => {
                    tracing::debug!(entry, reason = fault.message, "built-in code is not used");
                    refused = Some(fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        match refused {
            Some(fault) if self.compiler.is_none() => Err(fault),
            _ => Ok(None),
        }
    }

    fn entry_of(&self, form: &Form, entry: &str) -> Result<L::Function, Fault> {
        match self.compiled.get(form) {
            Some(Compiled::Ready(module)) => self.loader.function(module, entry),
            Some(Compiled::Failed(fault)) => Err(fault.clone()),
            Some(Compiled::Requested) | None => {
                Err(Fault::new(FaultKind::Launch, format!("{entry} is not compiled")))
            }
        }
    }

    /// Requests the compilation of a form. A cached form is loaded at once.
    fn request(&mut self, form: &Form) {
        let Some(compiler) = self.compiler.as_mut().filter(|_| !self.compiled.contains_key(form)) else {
            return;
        };
        if let Some(code) = compiler.cached(form)
            && let Ok(module) = self.loader.load(Image::MachineCode(&code))
        {
            self.compiled.insert(form.clone(), Compiled::Ready(module));
            return;
        }
        match compiler.request(form.clone()) {
            Ok(()) => drop(self.compiled.insert(form.clone(), Compiled::Requested)),
            Err(reason) => self.mark_failed(form, Fault::new(FaultKind::Launch, reason)),
        }
    }

    fn wait_for(&mut self, form: &Form) -> Result<(), Fault> {
        while matches!(self.compiled.get(form), Some(Compiled::Requested)) {
            match self.compiler.as_ref().and_then(CompilerThreads::wait_next) {
                Some(made) => self.store(made),
                None => {
                    self.mark_failed(form, Fault::new(FaultKind::Launch, "the compiler threads have ended"))
                }
            }
        }
        match self.compiled.get(form) {
            Some(Compiled::Failed(fault)) => Err(fault.clone()),
            _ => Ok(()),
        }
    }

    fn store(&mut self, (form, code): CompileResult) {
        let loaded = match code {
            Ok(code) => self.loader.load(Image::MachineCode(&code)),
            Err(words) => {
                let options = form.options.join(" ");
                Err(Fault::new(
                    FaultKind::Launch,
                    format!("{} cannot be compiled with {options}: {words}", form.file),
                ))
            }
        };
        match loaded {
            Ok(module) => drop(self.compiled.insert(form, Compiled::Ready(module))),
            Err(fault) => self.mark_failed(&form, fault),
        }
    }

    fn mark_failed(&mut self, form: &Form, fault: Fault) {
        tracing::warn!(file = form.file, reason = fault.message, "a compiled kernel form is not used");
        if let Some(Compiled::Ready(module)) = self.compiled.insert(form.clone(), Compiled::Failed(fault)) {
            self.loader.unload(module);
        }
    }
}

fn no_code(entry: &str) -> Fault {
    let message = format!(
        "no code of {entry} is built in, and without NVRTC it cannot be compiled; install nvidia-cuda-nvrtc"
    );
    Fault::new(FaultKind::Launch, message)
}

impl<L: Loader> Drop for Modules<L> {
    fn drop(&mut self) {
        let compiled = self.compiled.drain().filter_map(|(_, compiled)| match compiled {
            Compiled::Ready(module) => Some(module),
            _ => None,
        });
        for module in compiled.chain(self.built_in.drain().map(|(_, module)| module)) {
            self.loader.unload(module);
        }
    }
}

#[cfg(test)]
mod tests;
