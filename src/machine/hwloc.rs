//! The topology from hwloc, which handles more unusual machines than sysfs alone.

use std::path::Path;

use hwloc2::{Bitmap, ObjectType, TopologyObject};

use super::topology::{Cache, Cpu, Topology, numa_nodes};

impl Topology {
    /// The topology from hwloc; `None` where hwloc cannot read it.
    pub fn from_hwloc() -> Option<Self> {
        // The binding panics on unknown object kinds; the caller then reads sysfs.
        std::panic::catch_unwind(read).ok().flatten()
    }
}

fn read() -> Option<Topology> {
    let machine = hwloc2::Topology::new()?;
    let objects = |kind: ObjectType| machine.objects_with_type(&kind).unwrap_or_default();
    let first_in = |objects: &[&TopologyObject], cpu: usize| {
        objects
            .iter()
            .find(|object| ids(object.cpuset()).contains(&cpu))
            .map(|object| object.os_index() as usize)
    };
    let packages = objects(ObjectType::Package);
    let cores: Vec<Vec<usize>> = objects(ObjectType::Core).iter().map(|core| ids(core.cpuset())).collect();
    let mut cpus: Vec<Cpu> = objects(ObjectType::PU)
        .iter()
        .map(|unit| {
            let id = unit.os_index() as usize;
            let core = cores.iter().find(|core| core.contains(&id)).and_then(|core| core.first().copied());
            Cpu {
                id,
                core: core.unwrap_or(id),
                package: first_in(&packages, id).unwrap_or(0),
                // This binding panics when asked for NUMA nodes; a hardware thread's own node set is safe.
                numa_node: ids(unit.nodeset()).first().copied().unwrap_or(0),
            }
        })
        .collect();
    if cpus.is_empty() {
        return None;
    }
    cpus.sort_unstable_by_key(|cpu| cpu.id);
    let levels = [ObjectType::L1Cache, ObjectType::L2Cache, ObjectType::L3Cache, ObjectType::L4Cache];
    let mut caches: Vec<Cache> = (1..)
        .zip(levels)
        .flat_map(|(level, kind)| {
            objects(kind).into_iter().filter_map(move |object| {
                let size_bytes = object.cache_attributes()?.size();
                Some(Cache { level, size_bytes, cpus: ids(object.cpuset()) })
            })
        })
        .collect();
    caches.sort();
    Some(Topology { source: "hwloc", cpus, caches, numa_nodes: numa_nodes(Path::new("/")) })
}

/// The members of a set, ascending.
fn ids(set: Option<Bitmap>) -> Vec<usize> {
    // Iterating an infinite set (last member −1) would not end; no object of a loaded topology has one.
    set.filter(|set| set.last() >= 0).into_iter().flatten().map(|id| id as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hwloc_and_sysfs_see_the_same_cores_and_caches() {
        let hwloc = Topology::from_hwloc().unwrap();
        let sysfs = Topology::from_sysfs(Path::new("/"));
        assert_eq!(hwloc.cpus, sysfs.cpus);
        assert_eq!((hwloc.cores(), hwloc.packages()), (sysfs.cores(), sysfs.packages()));
        assert_eq!(hwloc.caches, sysfs.caches);
    }
}
