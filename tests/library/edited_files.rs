//! Plans, models and caches with random edits: each is refused with a typed error, or gives the right Y.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rowloom::internal::cost::{Model, cpu_profile, emulated_profile, host_rates};
use rowloom::internal::kernel::verify;
use rowloom::internal::machine::Machine;
use rowloom::internal::matrix::io::{ReadOptions, cache, read};
use rowloom::internal::matrix::{Csr, Loaded, MultiVector, generate};
use rowloom::internal::plan::{DeviceSpec, Mode, Plan, PlanRequest, make};
use rowloom::internal::runtime::{Pool, Runtime};
use rowloom::internal::work::Work;
use rowloom::{Error, Result};
use serde_json::Value;

/// How many edits are made, of which nine tenths are of plans: this variable, else [`QUICK_EDITS`].
const EDITS: &str = "ROWLOOM_TEST_EDITS";
const QUICK_EDITS: u64 = 300;

/// A product of a damaged plan that takes longer has hung.
const HANG: Duration = Duration::from_secs(120);

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

fn edits() -> u64 {
    std::env::var(EDITS).map_or(QUICK_EDITS, |count| count.parse().unwrap())
}

/// The pointers of all values that have no parts.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, part) in map {
                leaves(part, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, part) in list.iter().enumerate() {
                leaves(part, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.into()),
    }
}

/// Another value for a leaf.
fn edited(old: &Value, other: &Value, random: &mut Random) -> Value {
    if random.below(6) == 0 {
        return other.clone();
    }
    match old {
        Value::Bool(on) => Value::Bool(!on),
        Value::Number(number) => match number.as_u64() {
            Some(number) => {
                let by = 1 + random.below(4) as u64;
                let large = [u64::MAX, u64::from(u32::MAX), 1 << 40, 1 << 62, 0, number / 2];
                match random.below(4) {
                    0 => Value::from(number.saturating_add(by)),
                    1 => Value::from(number.saturating_sub(by)),
                    2 => Value::from(number.saturating_mul(2)),
                    _ => Value::from(random.of(&large)),
                }
            }
            None => Value::from(random.of(&[0.0, -5.0, 1e308, 1e-308, -1e-3, 3.0])),
        },
        Value::Array(_) => Value::from(vec![random.below(9)]),
        Value::Null => Value::from(random.below(9)),
        _ => other.clone(),
    }
}

/// One to three edits of values, or of bytes.
fn edit(text: &str, value: &Value, places: &[String], random: &mut Random) -> (Vec<u8>, String) {
    if random.below(10) == 0 {
        let mut bytes = text.as_bytes().to_vec();
        let at = random.below(bytes.len());
        bytes[at] = random.of(b"0123456789-.,eE\"{}[] \0\xff");
        return (bytes, format!("byte {at}"));
    }
    let (mut damaged, mut what) = (value.clone(), Vec::new());
    for _ in 0..1 + random.below(3) {
        let (place, other) = (random.of(places), random.of(places));
        let other = value.pointer(&other).cloned().unwrap_or_default();
        if let Some(leaf) = damaged.pointer_mut(&place) {
            let new = edited(leaf, &other, random);
            what.push(format!("{place}: {leaf} -> {new}"));
            *leaf = new;
        }
    }
    (serde_json::to_vec(&damaged).unwrap(), what.join(", "))
}

fn is_typed(error: &Error) -> bool {
    [2, 3, 4].contains(&error.exit_code())
}

struct Planned {
    matrix: Csr<f64>,
    k: usize,
    text: String,
}

/// Saved plans of several modes, with and without registered memory.
fn plans(folder: &Path) -> Vec<Planned> {
    let mut plans = Vec::new();
    for (spec, k) in [("stencil5,n=12", 3), ("stencil5,n=12", 8), ("hub,rows=300,hubs=1,degree=3", 8)] {
        let matrix = generate::<f64>(spec, 1, 1 << 30).unwrap().matrix;
        for mode in [Mode::Resident, Mode::Oneshot, Mode::Stream] {
            for always_register in [false, true] {
                let cpu = cpu_profile(2, 1 << 34).unwrap();
                let mut gpu = emulated_profile().unwrap();
                gpu.product_ns = cpu.product_ns;
                let mut devices =
                    vec![DeviceSpec::new("cpu", cpu.clone()), DeviceSpec::new("emu:0", gpu.clone())];
                devices.iter_mut().for_each(|device| device.required = true);
                let work = Work::spmm(&matrix.view(), k).unwrap();
                let request = PlanRequest::new(work, devices, host_rates(2).unwrap());
                let request = PlanRequest { mode: Some(mode), chunks: Some(4), always_register, ..request };
                let path = folder.join("plan");
                make(&request).unwrap().save(&path).unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                plans.push(Planned { matrix: generate(spec, 1, 1 << 30).unwrap().matrix, k, text });
            }
        }
    }
    plans
}

/// The product of a plan file; whether Y is right.
fn run(pool: &Arc<Pool>, path: &Path, matrix: &Csr<f64>, k: usize) -> Result<bool> {
    let plan = Plan::load(path)?;
    if plan.k != k as u64 {
        return Err(Error::usage("another K"));
    }
    let runtime = Runtime::builder().devices("cpu,emu:0").pool(Machine::detect(), pool.clone()).open()?;
    let mut product = runtime.product(matrix.view()).columns(k).plan(plan).build()?;
    let x = MultiVector::from_fn(matrix.cols(), k, |row, k| ((row * 31 + k * 17) % 101) as f64 / 37.0 - 1.3)?;
    let mut y = MultiVector::from_fn(matrix.rows(), k, |_, _| f64::NAN)?;
    product.bind(&x, &mut y, |bound| bound.apply())?;
    Ok(verify(matrix.view(), x.view(), y.view())?.passed)
}

#[test]
fn an_edited_plan_is_refused_or_gives_the_right_y() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Arc::new(Pool::new(&Machine::detect(), Some(2)).unwrap());
    let plans = plans(folder.path());
    let parsed: Vec<(Value, Vec<String>)> = plans
        .iter()
        .map(|planned| {
            let value: Value = serde_json::from_str(&planned.text).unwrap();
            let mut places = Vec::new();
            leaves(&value, "", &mut places);
            (value, places)
        })
        .collect();
    let (report, reports) = mpsc::channel();
    let count = edits() * 9 / 10;
    std::thread::spawn(move || {
        let mut random = Random(11);
        let path = folder.path().join("edited");
        for (index, planned) in plans.iter().enumerate() {
            std::fs::write(&path, &planned.text).unwrap();
            let whole = run(&pool, &path, &planned.matrix, planned.k);
            report.send((format!("plan {index} without an edit"), whole, false)).unwrap();
        }
        for number in 0..count {
            let index = random.below(plans.len());
            let (planned, (value, places)) = (&plans[index], &parsed[index]);
            let (bytes, what) = edit(&planned.text, value, places, &mut random);
            std::fs::write(&path, bytes).unwrap();
            let done = run(&pool, &path, &planned.matrix, planned.k);
            report.send((format!("edit {number} of plan {index}: {what}"), done, true)).unwrap();
        }
    });
    let (mut refused, mut right, mut wrong) = (0, 0, Vec::new());
    loop {
        match reports.recv_timeout(HANG) {
            Ok((_, Ok(true), _)) => right += 1,
            Ok((_, Err(error), true)) if is_typed(&error) => refused += 1,
            Ok((what, done, _)) => wrong.push(format!("{what}: {done:?}")),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("a product hangs after {right} right and {refused}")
            }
        }
    }
    println!("{count} edited plans: {refused} refused, {right} with the right Y, {} wrong", wrong.len());
    assert_eq!(refused + right + wrong.len() as u64, count + 18, "the thread panicked");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_edited_model_is_refused_or_gives_a_valid_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (path, plan_path) = (folder.path().join("model.toml"), folder.path().join("plan"));
    let text = "[host]\ncores = 2\nmemory_gb_per_s = 20.0\ncopy_gb_per_s = 9.5\n\n[[device]]\nname = \"cpu\"\nthreads = 2\n\
                [device.factors]\ncpu_csr = 1.25\n\n[[device]]\nname = \"emulated\"\n[device.factors]\nsell = 0.5\nhybrid = 2.0\n";
    let matrix = generate::<f64>("stencil5,n=12", 1, 1 << 30).unwrap().matrix;
    let mut random = Random(12);
    let words =
        ["0", "-5", "0.0", "-5.0", "nan", "inf", "-inf", "1e308", "1e-308", "true", "\"x\"", "[]", ""];
    let (mut refused, mut planned) = (0, 0);
    for number in 0..edits() / 20 {
        let mut damaged = text.as_bytes().to_vec();
        if random.below(2) == 0 {
            let numbers: Vec<&str> =
                text.split(['\n', ' ']).filter(|word| word.parse::<f64>().is_ok()).collect();
            damaged = text.replacen(random.of(&numbers), random.of(&words), 1).into_bytes();
        } else {
            let at = random.below(damaged.len());
            damaged[at] = random.of(b"0123456789-.=[]\"\n x\0\xff");
        }
        std::fs::write(&path, &damaged).unwrap();
        let shown = String::from_utf8_lossy(&damaged).into_owned();
        match Model::load(&path) {
            Err(error) => {
                assert!(is_typed(&error), "edit {number}: {error}\n{shown}");
                refused += 1;
            }
            Ok(model) => {
                let (mut cpu, mut gpu) = (cpu_profile(2, 1 << 34).unwrap(), emulated_profile().unwrap());
                model.apply(&mut cpu, 2);
                model.apply(&mut gpu, 2);
                let devices = vec![DeviceSpec::new("cpu", cpu), DeviceSpec::new("emu:0", gpu)];
                let host = model.host.clone().unwrap_or_else(|| host_rates(2).unwrap());
                let work = Work::spmm(&matrix.view(), 4).unwrap();
                let plan = make(&PlanRequest::new(work, devices, host));
                let plan = plan.unwrap_or_else(|error| panic!("edit {number}: {error}\n{shown}"));
                plan.save(&plan_path).unwrap();
                Plan::load(&plan_path).unwrap_or_else(|error| panic!("edit {number}: {error}\n{shown}"));
                planned += 1;
            }
        }
    }
    println!("edited models: {refused} refused, {planned} planned with");
}

#[test]
fn an_edited_cache_is_refused_or_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rlm");
    let Loaded { matrix, info, .. } = generate::<f64>("stencil5,n=12", 1, 1 << 30).unwrap();
    cache::write_cache(&path, &matrix.view(), &info, None).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut random = Random(13);
    let (mut refused, mut unchanged) = (0, 0);
    for number in 0..edits() / 20 {
        let mut bytes = whole.clone();
        match random.below(4) {
            0 => bytes.truncate(random.below(whole.len())),
            1 => bytes.extend((0..random.below(99)).map(|_| 7)),
            2 => {
                let at = random.below(128);
                bytes[at] ^= 1 << random.below(8);
            }
            _ => {
                let at = random.below(whole.len());
                bytes[at] = random.next() as u8;
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match read::<f64>(&path, &ReadOptions::default()) {
            Err(error) => {
                assert!(is_typed(&error), "edit {number}: {error}");
                refused += 1;
            }
            Ok(loaded) => {
                assert_eq!(loaded.matrix, matrix, "edit {number}");
                unchanged += 1;
            }
        }
    }
    println!("edited caches: {refused} refused, {unchanged} unchanged");
}
