//! The tables of `rowloom plan`: predicted times, devices, chunks grouped by device and kernel, and the reasons of the kernels.

use crate::console::device_names::named;
use crate::console::table::{Table, count, percent, seconds, short};
use crate::run::workload::with_own_names;
use rowloom::internal::error::{Bytes, Counted, Seconds};
use rowloom::internal::kernel::KindOfWork;
use rowloom::internal::plan::{Chunk, DevicePlan, Plan, XPlan};
use rowloom::internal::work::ChunkRows;

/// Groups of chunks that are shown without `--wide`.
const SHOWN_GROUPS: usize = 12;
/// Parts of X that are listed without `--wide`.
const LISTED_PARTS: usize = 4;
/// A set-up above this share of the total is called nearly all of it.
const MOSTLY_SET_UP: f64 = 0.99;

/// The name of a device of the plan.
pub fn name_of(plan: &Plan, device: u32) -> &str {
    plan.devices.get(device as usize).map_or("", |device| &device.name)
}

/// Adds the predicted times: set-up, product, and their total for all products. The parts of each add up to it; `product_words` are those of
/// a product.
pub fn add_times(facts: &mut Table, plan: &Plan, product_words: &str) {
    let (set_up, product) = (Seconds(plan.set_up.total_s()), Seconds(plan.predicted_s));
    let named = |text: &str| with_own_names(kind(plan), text);
    facts.fact("set-up", format!("{set_up} once: {}", named(&plan.set_up_reason())));
    if plan.first_compile_s() > 0.0 {
        let compile_s = Seconds(plan.first_compile_s());
        facts.fact("", format!("the first run compiles kernels in the background: about {compile_s}"));
    }
    let one = named("product");
    // The parts of a cluster's product name no device before them.
    let mark = if plan.cluster.is_some() { ":" } else { "" };
    facts.fact(&one, format!("{product}{mark} {}", named(product_words)));
    let (total, products) = (Seconds(plan.total_s()), Counted(plan.repeat, &one));
    if plan.set_up.total_s() > MOSTLY_SET_UP * plan.total_s() {
        facts.fact("total", format!("{total} for {products}, nearly all of it set-up"));
    } else {
        facts.fact("total", format!("{total} for {products}: {set_up} + {} × {product}", plan.repeat));
    }
}

/// The kind of work of a plan.
pub fn kind(plan: &Plan) -> KindOfWork {
    let kinds = [KindOfWork::Gemm, KindOfWork::Colmean];
    kinds.into_iter().find(|kind| kind.name() == plan.matrix.kind).unwrap_or(KindOfWork::Spmm)
}

/// What the entries of A are called.
pub fn entries(plan: &Plan) -> &'static str {
    if kind(plan) == KindOfWork::Spmm { "nonzeros" } else { "entries" }
}

/// The devices and their shares; a plan has no finish times on a cluster, since its exchange is simulated. With `wide` the layout of their memory.
pub fn devices(plan: &Plan, wide: bool) -> Table {
    let x = with_own_names(kind(plan), "X");
    let headings = ["device", "rows", entries(plan), "chunks", "memory", &x, "done after"];
    let mut table = Table::columns(headings, &[1, 2, 3, 6]);
    let share = |part: f64, of: u64| percent(if of == 0 { 0.0 } else { part / of as f64 });
    for (index, device) in plan.devices.iter().enumerate() {
        table.row([
            device.name.clone(),
            share(rows_of(plan, index), plan.matrix.rows),
            share(device.size.entries as f64, plan.matrix.entries),
            count(device.chunks),
            with_own_names(kind(plan), &memory(device, wide)),
            x_words(device, wide),
            if device.chunks == 0 || plan.cluster.is_some() {
                "-".into()
            } else {
                seconds(device.predicted_s)
            },
        ]);
    }
    table
}

/// The rows of device `index`; of a row that is split it has the share of its segments.
pub fn rows_of(plan: &Plan, index: usize) -> f64 {
    let own = plan.chunks.iter().filter(|chunk| chunk.home as usize == index);
    let rows = own.map(|chunk| match chunk.rows {
        ChunkRows::Rows { begin, end } => (end - begin) as f64,
        ChunkRows::Segments { row, begin, end } => {
            let split = plan.split_rows.iter().find(|split| split.row == row as u64);
            split.map_or(0.0, |split| (end - begin) as f64 / split.segments.max(1) as f64)
        }
    });
    // A sum of no numbers would be -0.
    rows.fold(0.0, |sum, rows| sum + rows)
}

fn memory(device: &DevicePlan, wide: bool) -> String {
    let slots = &device.slots;
    if device.profile.link.is_none() || slots.y_slots == 0 {
        return "-".into();
    }
    if !wide {
        return Bytes(slots.device_bytes()).to_string();
    }
    let mut parts = Vec::new();
    if slots.resident_bytes > 0 {
        parts.push(format!("A {}", Bytes(slots.resident_bytes)));
    }
    if slots.a_slots > 0 {
        parts.push(format!("{} x {} for A", slots.a_slots, Bytes(slots.a_slot_bytes)));
    }
    parts.push(format!("{} x {} for Y", slots.y_slots, Bytes(slots.y_slot_bytes)));
    format!("{} (of {} that may be used)", parts.join(", "), Bytes(device.memory_budget_bytes))
}

fn x_words(device: &DevicePlan, wide: bool) -> String {
    let bytes = Bytes(device.slots.x_bytes);
    match device.x {
        XPlan::Nothing => "-".into(),
        _ if device.profile.link.is_none() => "in place".into(),
        XPlan::Whole => format!("all, {bytes}"),
        XPlan::Columns { first, end } if wide => format!("rows {first}..{end}, {bytes}"),
        XPlan::Gather { columns } if wide => format!("{columns} rows, {bytes}"),
        XPlan::Columns { .. } | XPlan::Gather { .. } => format!("part, {bytes}"),
    }
}

/// Consecutive chunks of one device with one kernel.
struct Group<'a> {
    first: usize,
    chunks: Vec<&'a Chunk>,
}

fn groups(plan: &Plan) -> Vec<Group<'_>> {
    let key = |chunk: &Chunk| (chunk.home, plan.kernel_on(chunk, chunk.home), chunk.also.is_empty());
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, chunk) in plan.chunks.iter().enumerate() {
        match groups.last_mut().filter(|group| key(group.chunks[0]) == key(chunk)) {
            Some(group) => group.chunks.push(chunk),
            None => groups.push(Group { first: index, chunks: vec![chunk] }),
        }
    }
    groups
}

/// The chunks in groups, and how many groups are left out.
pub fn chunk_groups(plan: &Plan) -> (Table, usize) {
    let headings = ["chunks", "device", "rows", entries(plan), "kernel", "per chunk"];
    let mut table = Table::columns(headings, &[0, 2, 3, 5]);
    let groups = groups(plan);
    for Group { first, chunks } in groups.iter().take(SHOWN_GROUPS) {
        let (Some(from), Some(to)) = (chunks.first(), chunks.last()) else { continue };
        let (begin, _) = row_range(from);
        let (_, end) = row_range(to);
        let times = || chunks.iter().map(|chunk| chunk.predicted_s);
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let each = match (seconds(least), seconds(most)) {
            (least, most) if least == most => most,
            (least, most) => format!("{least}–{most}"),
        };
        let numbers = if chunks.len() == 1 {
            first.to_string()
        } else {
            format!("{first}–{}", first + chunks.len() - 1)
        };
        table.row([
            numbers,
            name_of(plan, from.home).into(),
            match from.rows {
                ChunkRows::Segments { row, .. } if end == row + 1 => {
                    format!("part of row {}", short(row as u64))
                }
                _ => format!("{}..{}", short(begin as u64), short(end as u64)),
            },
            short(chunks.iter().map(|chunk| chunk.size.entries).sum()),
            plan.kernel_on(from, from.home).name().into(),
            each,
        ]);
    }
    (table, groups.len().saturating_sub(SHOWN_GROUPS))
}

/// The first row of a chunk and the row behind its last.
fn row_range(chunk: &Chunk) -> (usize, usize) {
    match chunk.rows {
        ChunkRows::Rows { begin, end } => (begin, end),
        ChunkRows::Segments { row, .. } => (row, row + 1),
    }
}

/// Every chunk with all details.
pub fn all_chunks(plan: &Plan) -> Table {
    let headings = ["chunk", "rows", entries(plan), "device", "kernel", "predicted", "reason"];
    let mut table = Table::columns(headings, &[0, 2, 5]);
    for (index, chunk) in plan.chunks.iter().enumerate() {
        let rows = match chunk.rows {
            ChunkRows::Rows { begin, end } => format!("{}..{}", count(begin as u64), count(end as u64)),
            ChunkRows::Segments { row, begin, end } => format!("part of row {row}, segments {begin}..{end}"),
        };
        table.row([
            count(index as u64),
            rows,
            count(chunk.size.entries),
            name_of(plan, chunk.home).into(),
            plan.kernel_on(chunk, chunk.home).name().into(),
            if plan.cluster.is_some() { "-".into() } else { seconds(chunk.predicted_s) },
            chunk.full_reason(),
        ]);
    }
    table
}

/// The reason of each kernel, or with `largest_only` of the one with most entries: that of the largest chunk which it computes.
pub fn kernels(plan: &Plan, largest_only: bool) -> Table {
    let mut largest: Vec<(&str, usize)> = Vec::new();
    for (index, chunk) in plan.chunks.iter().enumerate() {
        let kernel = plan.kernel_on(chunk, chunk.home).name();
        match largest.iter_mut().find(|(known, _)| *known == kernel) {
            Some((_, best)) if plan.chunks[*best].size.entries >= chunk.size.entries => {}
            Some((_, best)) => *best = index,
            None => largest.push((kernel, index)),
        }
    }
    if largest_only {
        let computed = |kernel: &str| -> u64 {
            let own = plan.chunks.iter().filter(|chunk| plan.kernel_on(chunk, chunk.home).name() == kernel);
            own.map(|chunk| chunk.size.entries).sum()
        };
        largest = largest.into_iter().max_by_key(|(kernel, _)| computed(kernel)).into_iter().collect();
    }
    let mut table = Table::facts();
    for (kernel, index) in largest {
        let reason = &plan.chunks[index].kernel_reason;
        // The label is the name of the kernel.
        let reason = reason.strip_prefix(&format!("{kernel}: ")).unwrap_or(reason);
        let of_kernel = plan.chunks.iter().filter(|chunk| plan.kernel_on(chunk, chunk.home).name() == kernel);
        table.fact(
            kernel,
            match of_kernel.count() {
                1 if plan.chunks.len() == 1 => reason.into(),
                1 => format!("in chunk {index}: {reason}"),
                _ => format!("in chunk {index}, for example: {reason}"),
            },
        );
    }
    table
}

/// Reasons of devices without a share and of the parts of X, each once for all devices that it is true of. Without `wide`, many
/// different parts of X are one reason. On a cluster the host does nothing, and no X is sent from it.
pub fn device_reasons(plan: &Plan, wide: bool) -> Vec<String> {
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    let idle = plan.devices.iter().filter(|device| device.chunks == 0);
    let idle = idle.filter(|device| device.computes || plan.cluster.is_none());
    let has_x = |device: &&DevicePlan| {
        plan.cluster.is_none() && device.profile.link.is_some() && device.x != XPlan::Nothing
    };
    let sent = plan.devices.iter().filter(|device| has_x(device) && device.chunks > 0);
    let receiving = sent.clone().count();
    let idle = idle.map(|device| ("device", device.reason.as_str(), device.name.as_str()));
    let sent = sent.map(|device| ("X sent", device.x_reason.as_str(), device.name.as_str()));
    for (topic, reason, name) in idle.chain(sent) {
        match reasons.iter_mut().find(|known| (known.0, known.1) == (topic, reason)) {
            Some((_, _, names)) => names.push(name),
            None => reasons.push((topic, reason, vec![name])),
        }
    }
    let parts = reasons.iter().filter(|(topic, ..)| *topic == "X sent").count();
    let many_parts = (!wide && parts > LISTED_PARTS).then(|| {
        let receiving = reasons.iter().filter(|(topic, ..)| *topic == "X sent").flat_map(|(.., names)| names);
        let names: Vec<&str> = receiving.copied().collect();
        format!("X sent: to each of {} the rows that it uses; --wide shows them", named(&names))
    });
    if many_parts.is_some() {
        reasons.retain(|(topic, ..)| *topic != "X sent");
    }
    let words = |(topic, reason, names): &(&str, &str, Vec<&str>)| match reason.split_once(": ") {
        Some((part, why)) if *topic == "X sent" => {
            let to = if names.len() == 2 && receiving == 2 { "both devices".into() } else { named(names) };
            let why = match why.strip_prefix("its ").filter(|_| names.len() > 1) {
                Some(rest) => format!("their {rest}"),
                None => why.to_string(),
            };
            format!("{topic}: {part} to {to}: {why}")
        }
        _ if names[..] == ["host"] => format!("host: {reason}"),
        _ => format!("{topic}: {}: {reason}", named(names)),
    };
    reasons.iter().map(words).chain(many_parts).collect()
}
