use std::fs;

use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Two packages of four cores of two hardware threads, numbered as Linux does: 0-7 the cores' first hardware
/// threads, 8-15 their second. Two memory nodes.
fn fabricated() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "sys/devices/system/cpu/online", "0-15\n");
    for cpu in 0..16 {
        let (core, package) = (cpu % 8, cpu % 8 / 4);
        let of_cpu = |path: &str| format!("sys/devices/system/cpu/cpu{cpu}/{path}");
        let siblings = format!("{core},{}\n", core + 8);
        let neighbours =
            format!("{}-{},{}-{}\n", package * 4, package * 4 + 3, package * 4 + 8, package * 4 + 11);
        write(root, &of_cpu("topology/physical_package_id"), &format!("{package}\n"));
        write(root, &of_cpu("topology/thread_siblings_list"), &siblings);
        for (index, level, kind, size, shared) in [
            (0, "1", "Data", "48K", &siblings),
            (1, "1", "Instruction", "32K", &siblings),
            (2, "2", "Unified", "2048K", &siblings),
            (3, "3", "Unified", "30M", &neighbours),
        ] {
            write(root, &of_cpu(&format!("cache/index{index}/level")), level);
            write(root, &of_cpu(&format!("cache/index{index}/type")), kind);
            write(root, &of_cpu(&format!("cache/index{index}/size")), size);
            write(root, &of_cpu(&format!("cache/index{index}/shared_cpu_list")), shared);
        }
    }
    for (node, cpus) in [(0, "0-3,8-11"), (1, "4-7,12-15")] {
        write(root, &format!("sys/devices/system/node/node{node}/cpulist"), cpus);
        let meminfo = format!("Node {node} MemTotal:       16384 kB\nNode {node} MemFree: 1 kB\n");
        write(root, &format!("sys/devices/system/node/node{node}/meminfo"), &meminfo);
    }
    write(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Fabricated 9000\n");
    write(root, "proc/meminfo", "MemTotal:       32768 kB\nMemFree: 5 kB\n");
    write(root, "proc/self/cgroup", "0::/job\n");
    write(root, "proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    folder
}

fn seen(root: &Path, mask: &[usize]) -> Machine {
    Machine::read(root, Topology::from_sysfs(root), mask)
}

#[test]
fn a_fabricated_machine_is_read_as_it_was_made() {
    let folder = fabricated();
    let mask: Vec<usize> = (0..16).collect();
    let machine = seen(folder.path(), &mask);
    assert_eq!(
        (machine.packages, machine.cores, machine.hardware_threads, machine.numa_nodes),
        (2, 8, 16, 2)
    );
    assert_eq!(machine.cpu, "Fabricated 9000");
    assert_eq!((machine.memory_bytes, machine.memory_limit_bytes()), (Some(32 << 20), 32 << 20));
    assert_eq!((machine.usable_cpus.len(), machine.usable_threads), (16, 16));
    let level = |level, size_bytes, shared_by, count| CacheLevel { level, size_bytes, shared_by, count };
    assert_eq!(machine.caches, [level(1, 48 << 10, 2, 8), level(2, 2 << 20, 2, 8), level(3, 30 << 20, 8, 2)]);
    assert_eq!(machine.topology.cpus[13], Cpu { id: 13, core: 5, package: 1, numa_node: 1 });
    assert_eq!(machine.topology.numa_nodes[1].memory_bytes, Some(16 << 20));
}

#[test]
fn workers_get_cores_before_hardware_threads_and_one_package_before_the_other() {
    let folder = fabricated();
    let machine = seen(folder.path(), &(0..16).collect::<Vec<_>>());
    assert_eq!(machine.placement(5), [0, 1, 2, 3, 4]);
    assert_eq!(machine.placement(10), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(machine.placement(18)[14..], [14, 15, 0, 1]);
    assert_eq!(machine.placement(0), [0usize; 0]);
}

#[test]
fn workers_stay_inside_the_mask_on_a_machine_numbered_core_by_core() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "sys/devices/system/cpu/online", "0-7\n");
    for cpu in 0..8 {
        let siblings = format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1);
        write(folder.path(), &format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"), &siblings);
    }
    let machine = seen(folder.path(), &[2, 3, 4, 5, 7, 900]);
    assert_eq!(machine.cores, 4);
    assert_eq!(machine.usable_cpus, [2, 3, 4, 5, 7], "900 is not online");
    assert_eq!(machine.placement(5), [2, 4, 7, 3, 5]);
}

#[test]
fn a_quota_limits_threads_rounded_up_and_a_group_limits_memory() {
    let folder = fabricated();
    write(folder.path(), "sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    write(folder.path(), "sys/fs/cgroup/memory.max", "1048576\n");
    let machine = seen(folder.path(), &(0..16).collect::<Vec<_>>());
    assert_eq!((machine.usable_threads, machine.cgroup_cpus), (3, Some(2.5)));
    assert_eq!(machine.memory_limit_bytes(), 1 << 20);
}

#[test]
fn a_machine_without_files_is_one_core_a_hardware_thread() {
    let folder = tempfile::tempdir().unwrap();
    let machine = seen(folder.path(), &[3, 5]);
    assert_eq!((machine.cores, machine.packages, machine.numa_nodes), (2, 1, 1));
    assert_eq!((machine.placement(3), machine.usable_threads), (vec![3, 5, 3], 2));
    assert_eq!((machine.memory_limit_bytes(), machine.notes.len()), (u64::MAX, 1));
}

#[test]
fn damage_in_any_one_file_or_all_of_them_leaves_a_usable_machine() {
    fn all_files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { all_files(&path, found) } else { found.push(path) }
        }
    }
    let folder = fabricated();
    let mut files = Vec::new();
    all_files(folder.path(), &mut files);
    let mask: Vec<usize> = (0..16).collect();
    let check = |machine: Machine| {
        assert!((1..=16).contains(&machine.cores) && machine.usable_threads >= 1);
        assert!(machine.placement(16).iter().all(|cpu| mask.contains(cpu)));
    };
    for damage in ["", "-1", "\u{0}\u{fffd}", "0-4294967295", "99999999999999999999999"] {
        for file in files.iter().step_by(7) {
            let before = fs::read(file).unwrap();
            fs::write(file, damage).unwrap();
            check(seen(folder.path(), &mask));
            fs::write(file, before).unwrap();
        }
    }
    for file in &files {
        fs::write(file, "\u{1}rubbish:,-\n").unwrap();
    }
    check(seen(folder.path(), &mask));
}

#[test]
fn this_machine_is_detected() {
    let machine = Machine::detect();
    assert!(machine.cores >= 1 && machine.cores <= machine.hardware_threads);
    assert_eq!(machine.usable_cpus, affinity());
    assert!(machine.memory_limit_bytes() > 1 << 20);
    assert_eq!(machine.memory_limit_bytes(), memory_limit_bytes());
    assert!(serde_json::to_value(&machine).unwrap()["cores"].is_number());
}

#[test]
fn peak_memory_covers_what_was_touched() {
    let block = vec![1u8; 300 << 20];
    assert!(std::hint::black_box(&block).iter().step_by(4096).all(|&byte| byte == 1));
    assert!(peak_rss_bytes().unwrap() >= 300 << 20);
}
