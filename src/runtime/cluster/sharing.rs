//! The hardware threads and the cards of a host, divided between its ranks.
//!
//! A rank that the launcher of the job has bound keeps its hardware threads. Ranks that may use the same ones divide them evenly. In
//! the same way, ranks that see the same cards take them in turn: rank l of n ranks on a host takes the cards l, l + n, l + 2 n.

use std::collections::BTreeMap;

use super::agreement::agree;
use crate::device::cuda;
use crate::device::network::Communicator;
use crate::error::{Advice, Error, Result};
use crate::machine::{Machine, may_have_nvidia_gpu};
use crate::runtime::{DeviceWord, Devices, Runtime, RuntimeBuilder};

/// What a rank may use, as it tells the others.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Usable {
    cpus: Vec<usize>,
    /// The cards that the environment restricts the CUDA driver to.
    visible_cards: Option<String>,
}

/// The runtime that `builder` opens with the share of this rank in its host. All ranks have one, or all have an error.
pub(super) fn open_shared(builder: RuntimeBuilder, ranks: &dyn Communicator) -> Result<Runtime> {
    let mut machine = Machine::detect();
    let own = Usable {
        cpus: machine.usable_cpus.clone(),
        visible_cards: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
    };
    let bytes = serde_json::to_vec(&own).map_err(|error| Error::Internal(error.to_string()))?;
    let mut local: Vec<(usize, Usable)> = Vec::new();
    for (rank, bytes) in ranks.all_gather(&bytes)?.iter().enumerate() {
        if ranks.hosts().get(rank) == ranks.hosts().get(ranks.rank()) {
            let usable = serde_json::from_slice(bytes);
            local.push((rank, usable.map_err(|error| ranks.rank_error(rank, error.to_string()))?));
        }
    }
    // The place of this rank among the ranks of its host that may use the same.
    let place = |is_same: &dyn Fn(&Usable) -> bool| {
        let same = || local.iter().filter(|(_, usable)| is_same(usable));
        (same().take_while(|(rank, _)| *rank < ranks.rank()).count(), same().count().max(1))
    };
    let (index, count) = place(&|usable| usable.cpus == own.cpus);
    if count > 1 {
        machine.usable_cpus = share_of(&cores(&machine), index, count);
        machine.usable_threads = (machine.usable_threads / count).clamp(1, machine.usable_cpus.len());
    }
    let open = || {
        let devices: Devices = builder.asked_devices().parse().map_err(Error::usage)?;
        let devices = divided_cards(&devices, place(&|usable| usable.visible_cards == own.visible_cards))?;
        builder.machine(machine).devices(devices.name()).open()
    };
    agree(ranks, open())
}

/// For each core its hardware threads that this process may use; cores of a package follow one another.
fn cores(machine: &Machine) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for &id in &machine.usable_cpus {
        let cpu = machine.topology.cpus.iter().find(|cpu| cpu.id == id);
        cores.entry(cpu.map_or((0, id), |cpu| (cpu.package, cpu.core))).or_default().push(id);
    }
    cores.into_values().collect()
}

/// The hardware threads of one of `count` ranks: those of its cores. Where there are more ranks than cores, ranks share them.
fn share_of(cores: &[Vec<usize>], index: usize, count: usize) -> Vec<usize> {
    let threads: Vec<Vec<usize>> = cores.iter().flatten().map(|&thread| vec![thread]).collect();
    let all = if cores.len() < count { &threads[..] } else { cores };
    let (begin, end) = (index * all.len() / count, (index + 1) * all.len() / count);
    let mut share = all.get(begin..end.max(begin + 1)).unwrap_or_default().concat();
    share.sort_unstable();
    share
}

/// The devices with the cards of one of `count` ranks where they are not named one by one.
fn divided_cards(devices: &Devices, (index, count): (usize, usize)) -> Result<Devices> {
    let all_cards = DeviceWord::Cuda { card: None, options: Vec::new() };
    let words = match devices {
        Devices::List(words) => words.clone(),
        Devices::Auto if may_have_nvidia_gpu() => vec![DeviceWord::Cpu, all_cards],
        Devices::Auto => return Ok(Devices::Auto),
    };
    let is_all = |word: &DeviceWord| matches!(word, DeviceWord::Cuda { card: None, .. });
    if count == 1 || !words.iter().any(is_all) {
        return Ok(devices.clone());
    }
    let cards = match (cuda::Driver::get(), devices) {
        (Ok(driver), _) => driver.cards,
        (Err(_), Devices::Auto) => 0,
        (Err(reason), _) => return Err(Error::device("cuda", reason).advise([Advice::CpuOnly])),
    };
    let mut divided = Vec::new();
    for word in words {
        match word {
            DeviceWord::Cuda { card: None, options } => divided.extend(
                (index as u32..cards)
                    .step_by(count)
                    .map(|card| DeviceWord::Cuda { card: Some(card), options: options.clone() }),
            ),
            word => divided.push(word),
        }
    }
    if divided.is_empty() {
        let reason = format!("there are {cards} cards for {count} ranks on this host; start fewer ranks");
        return Err(Error::device("cuda", reason));
    }
    Ok(Devices::List(divided))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_divide_hardware_threads_without_overlap_and_share_only_where_there_are_too_few() {
        let cores: Vec<Vec<usize>> = (0..8).map(|core| vec![core, core + 8]).collect();
        for count in 1..=16 {
            let shares: Vec<Vec<usize>> = (0..count).map(|index| share_of(&cores, index, count)).collect();
            let mut all = shares.concat();
            all.sort_unstable();
            assert_eq!(all, (0..16).collect::<Vec<_>>(), "{count} ranks");
            let whole = |share: &Vec<usize>| share.iter().all(|thread| share.contains(&((thread + 8) % 16)));
            assert_eq!(shares.iter().all(whole), count <= 8, "{count} ranks");
        }
        for index in 0..5 {
            assert_eq!(share_of(&[vec![3], vec![4]], index, 5).len(), 1, "rank {index}");
        }
    }

    #[test]
    fn cards_that_are_named_one_by_one_are_not_divided() {
        for words in ["cpu", "cpu,cuda:0", "emu:0,cpu"] {
            let devices: Devices = words.parse().unwrap();
            assert_eq!(divided_cards(&devices, (1, 2)).unwrap(), devices);
        }
    }
}
