//! Tests of the choice between compiled forms, with a driver and a compiler that the tests control.

use std::cell::RefCell;
use std::rc::Rc;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::super::built_in::BuiltIn;
use super::super::built_in::tests::archive;
use super::super::forms::tests::{H200, launch};
use super::*;

/// A driver whose functions are the image's text and the entry's name.
#[derive(Default)]
struct FakeDriver {
    names: RefCell<Vec<&'static str>>,
    loaded: Rc<RefCell<i32>>,
}

impl Loader for FakeDriver {
    type Module = String;
    type Function = &'static str;

    fn load(&self, image: Image<'_>) -> Result<String, Fault> {
        let text = match image {
            Image::Ptx(text) => format!("PTX {}", String::from_utf8_lossy(text)),
            Image::MachineCode(code) => format!("code {}", String::from_utf8_lossy(code)),
        };
        if text.contains("refused") {
            return Err(Fault::new(FaultKind::Launch, "refused"));
        }
        *self.loaded.borrow_mut() += 1;
        Ok(text)
    }

    fn function(&self, module: &String, entry: &str) -> Result<&'static str, Fault> {
        let name: &'static str = format!("{module}: {entry}").leak();
        self.names.borrow_mut().push(name);
        Ok(name)
    }

    fn unload(&self, _: String) {
        *self.loaded.borrow_mut() -= 1;
    }
}

/// A compiler that returns the answers that the test sends.
struct FakeCompiler(Receiver<Result<&'static str, &'static str>>);

impl Compile for FakeCompiler {
    fn version(&self) -> String {
        "fake 1".into()
    }

    fn compile(&self, form: &Form) -> Result<Vec<u8>, String> {
        let answer = self.0.recv().expect("the test answers every request")?;
        Ok(format!("{answer} of {}", form.options.join(" ")).into_bytes())
    }
}

/// A kernel with exact forms. For single precision no code is built in.
fn forms(launch: &Launch, _: Architecture) -> Result<Forms, Fault> {
    let form = |option: String| Form { file: "a.cu", text: "text", options: vec![option] };
    let built_in = |target, code| BuiltIn { file: "a.cu", target, archive: archive(&[("entry", code)]) };
    let entry = if launch.dtype == Dtype::F64 { "entry" } else { "entry_f32" };
    // The number of items selects the built-in code.
    let code = if launch.items.count == OLD_DRIVER { "refused" } else { "built in" };
    Ok(Forms {
        entry: entry.into(),
        generic: (launch.items.count != NOTHING_SIMILAR).then(|| Generic {
            variant: SIMILAR,
            entry: entry.into(),
            built_in: vec![built_in(Target::MachineCode(H200), code), built_in(Target::Ptx, "text")],
            source: form("generic".into()),
        }),
        exact: Some(form(format!("k={}", launch.k))),
    })
}

/// Numbers of items for which the driver refuses the built-in machine code, and for which there is no generic form.
const OLD_DRIVER: u64 = 1;
const NOTHING_SIMILAR: u64 = 2;
/// The variant of generic forms.
const SIMILAR: Variant = Variant { depth: 77, ..Variant::PLAIN };

/// The function of the built-in machine code.
const GENERIC: &str = "code built in: entry";

type Answers = Sender<Result<&'static str, &'static str>>;

fn modules(cache: &KernelCache) -> (Modules<FakeDriver>, Answers, Rc<RefCell<i32>>) {
    let (sender, receiver) = unbounded();
    let driver = FakeDriver::default();
    let loaded = Rc::clone(&driver.loaded);
    let compiler = Some(Arc::new(FakeCompiler(receiver)) as Arc<dyn Compile>);
    (Modules::with(driver, forms, H200, compiler, cache.clone()), sender, loaded)
}

fn of(dtype: Dtype, k: u64) -> Launch {
    launch(KernelId::CsrScalarV3, dtype, k)
}

/// Polls until a launch's function is no longer the generic one.
fn function_after_compilation(modules: &mut Modules<FakeDriver>, launch: &Launch) -> &'static str {
    loop {
        match modules.function(launch).unwrap().function {
            GENERIC => std::thread::yield_now(),
            other => return other,
        }
    }
}

#[test]
fn the_exact_form_replaces_the_generic_one_once_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let (mut modules, answers, loaded) = modules(&KernelCache::at(folder.path()));
    for k in [8, 8, 9] {
        assert_eq!(modules.function(&of(Dtype::F64, k)).unwrap().function, GENERIC);
    }
    assert_eq!(*loaded.borrow(), 1, "the built-in code is loaded more than once");
    answers.send(Ok("code")).unwrap();
    answers.send(Ok("code")).unwrap();
    assert_eq!(function_after_compilation(&mut modules, &of(Dtype::F64, 8)), "code code of k=8: entry");
    assert_eq!(function_after_compilation(&mut modules, &of(Dtype::F64, 9)), "code code of k=9: entry");
    drop(modules);
    assert_eq!(*loaded.borrow(), 0, "a module stays loaded");
}

#[test]
fn the_variant_is_the_functions_own() {
    let folder = tempfile::tempdir().unwrap();
    let (mut modules, answers, _) = modules(&KernelCache::at(folder.path()));
    let launch = of(Dtype::F64, 8);
    assert_eq!(modules.function(&launch).unwrap(), Selected { function: GENERIC, variant: SIMILAR });
    answers.send(Ok("code")).unwrap();
    function_after_compilation(&mut modules, &launch);
    assert_eq!(modules.function(&launch).unwrap().variant, launch.variant);
}

#[test]
fn if_the_driver_refuses_machine_code_ptx_is_used() {
    let modules = || Modules::with(FakeDriver::default(), forms, H200, None, KernelCache::of_user());
    let launch = Launch { items: OLD_DRIVER.into(), ..of(Dtype::F64, 8) };
    assert_eq!(modules().function(&launch).unwrap().function, "PTX text: entry");
}

#[test]
fn without_a_generic_form_only_the_exact_form_is_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let (mut modules, answers, loaded) = modules(&KernelCache::at(folder.path()));
    let launch = Launch { items: NOTHING_SIMILAR.into(), ..of(Dtype::F64, 8) };
    answers.send(Ok("code")).unwrap();
    assert_eq!(modules.function(&launch).unwrap().function, "code code of k=8: entry");
    assert_eq!(*loaded.borrow(), 1);
}

#[test]
fn a_cached_form_is_used_from_the_first_launch() {
    let folder = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(folder.path());
    let (mut first, answers, _) = modules(&cache);
    answers.send(Ok("code")).unwrap();
    first.prepare(&[of(Dtype::F64, 8)]).unwrap();
    let (mut second, _answers, loaded) = modules(&cache);
    assert_eq!(second.function(&of(Dtype::F64, 8)).unwrap().function, "code code of k=8: entry");
    assert_eq!(*loaded.borrow(), 1, "the generic form was loaded too");
}

#[test]
fn prepared_launches_never_use_the_generic_form() {
    let folder = tempfile::tempdir().unwrap();
    let (mut modules, answers, loaded) = modules(&KernelCache::at(folder.path()));
    let launches = [1, 2, 3, 4, 5, 2].map(|k| of(Dtype::F64, k));
    (1..=5).for_each(|_| answers.send(Ok("code")).unwrap());
    modules.prepare(&launches).unwrap();
    for launch in &launches {
        let expected = format!("code code of k={}: entry", launch.k);
        assert_eq!(modules.function(launch).unwrap().function, expected);
    }
    assert_eq!(*loaded.borrow(), 5);
}

#[test]
fn if_the_exact_form_fails_the_generic_one_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(folder.path());
    for (answer, words) in [(Err("line 3: no"), "line 3: no"), (Ok("refused"), "refused")] {
        let (mut modules, answers, _) = modules(&cache);
        answers.send(answer).unwrap();
        let fault = modules.prepare(&[of(Dtype::F64, 8)]).unwrap_err();
        assert!(fault.message.contains(words), "{fault:?}");
        assert_eq!(modules.function(&of(Dtype::F64, 8)).unwrap().function, GENERIC);
    }
    // Cached machine code that the driver refuses is compiled again.
    let (mut modules, answers, _) = modules(&cache);
    answers.send(Ok("code")).unwrap();
    modules.prepare(&[of(Dtype::F64, 8)]).unwrap();
}

#[test]
fn without_built_in_code_the_first_launch_waits_for_the_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let (mut modules, answers, _) = modules(&KernelCache::at(folder.path()));
    answers.send(Ok("code")).unwrap();
    answers.send(Ok("code")).unwrap();
    let function = modules.function(&of(Dtype::F32, 8)).unwrap().function;
    assert!(function.starts_with("code code of "), "{function}");
}

#[test]
fn without_a_compiler_only_generic_forms_are_used() {
    let cache = KernelCache::of_user();
    let mut modules = Modules::with(FakeDriver::default(), forms, H200, None, cache);
    modules.prepare(&[of(Dtype::F64, 8)]).unwrap();
    assert_eq!(modules.function(&of(Dtype::F64, 8)).unwrap().function, GENERIC);
    let fault = modules.function(&of(Dtype::F32, 8)).unwrap_err();
    assert!(fault.message.contains("install"), "{fault:?}");
}

#[test]
fn dropping_waits_for_running_compilations_only() {
    let folder = tempfile::tempdir().unwrap();
    let (mut modules, answers, loaded) = modules(&KernelCache::at(folder.path()));
    for k in 1..=100 {
        modules.function(&of(Dtype::F64, k)).unwrap();
    }
    (0..16).for_each(|_| answers.send(Ok("code")).unwrap());
    drop(modules);
    assert_eq!(*loaded.borrow(), 0);
}
