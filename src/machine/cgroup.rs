//! The limits of this process's control groups (versions 1 and 2): memory and CPU time.
//!
//! Any level above the process may have a limit, so every level up to the mount is read and the smallest limit counts.

use std::path::{Component, Path, PathBuf};

use super::files::{number, text};

/// Version 1 writes "no limit" as the largest whole number of pages.
const NO_LIMIT_FROM: u64 = 1 << 62;

/// Limits of the process's control groups; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// CPU time per time: 1.5 is one and a half CPUs.
    pub cpus: Option<f64>,
}

impl Limits {
    /// Reads `proc/self` and the mounted control groups below `root`, which is `/` except in tests.
    pub fn read(root: &Path) -> Self {
        let mounts = text(&root.join("proc/self/mountinfo")).unwrap_or_default();
        let groups = text(&root.join("proc/self/cgroup")).unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mut limits = Self::default();
        for line in groups.lines() {
            // hierarchy:controllers:path, with no controllers for version 2.
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            for mount in mounts.iter().filter(|mount| mount.serves(controllers)) {
                for folder in mount.levels(root, path) {
                    limits.tighten(&folder);
                }
            }
        }
        limits
    }

    fn tighten(&mut self, folder: &Path) {
        let memory = [number(&folder.join("memory.max")), number(&folder.join("memory.limit_in_bytes"))];
        for bytes in memory.into_iter().flatten().filter(|&bytes| bytes < NO_LIMIT_FROM) {
            self.memory_bytes = Some(self.memory_bytes.map_or(bytes, |least| least.min(bytes)));
        }
        let version_2 = text(&folder.join("cpu.max")).and_then(|text| {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse().ok()?, period.parse().ok()?))
        });
        // A quota of −1 means no limit and does not parse as unsigned.
        let version_1 =
            number(&folder.join("cpu.cfs_quota_us")).zip(number(&folder.join("cpu.cfs_period_us")));
        for (quota, period) in [version_2, version_1].into_iter().flatten() {
            if period > 0 && quota > 0 {
                let cpus = quota as f64 / period as f64;
                self.cpus = Some(self.cpus.map_or(cpus, |least: f64| least.min(cpus)));
            }
        }
    }
}

/// One mounted hierarchy of control groups.
struct Mount {
    /// The group at the mount point.
    group: String,
    point: PathBuf,
    /// Controllers of version 1; none for version 2.
    controllers: Option<Vec<String>>,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (group, point) = (mount.next()?.to_string(), PathBuf::from(mount.next()?));
        let mut kind = kind.split(' ');
        let controllers = match kind.next()? {
            "cgroup2" => None,
            "cgroup" => Some(kind.nth(1)?.split(',').map(str::to_string).collect()),
            _ => return None,
        };
        Some(Self { group, point, controllers })
    }

    fn serves(&self, controllers: &str) -> bool {
        match &self.controllers {
            None => controllers.is_empty(),
            Some(own) => controllers.split(',').any(|wanted| {
                matches!(wanted, "memory" | "cpu") && own.iter().any(|controller| controller == wanted)
            }),
        }
    }

    /// Folders from the mount point down to the process's group. Inside a container the group's path may be the one outside
    /// of it; then only the part below the mounted group exists.
    fn levels(&self, root: &Path, path: &str) -> Vec<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.group).unwrap_or(Path::new(path));
        let point = self.point.strip_prefix("/").unwrap_or(&self.point);
        let mut folder = root.join(point);
        let mut folders = vec![folder.clone()];
        for component in below.components() {
            if let Component::Normal(name) = component {
                folder.push(name);
                folders.push(folder.clone());
            }
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system of these files.
    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_smallest_limit_of_nested_groups_counts() {
        let root = files(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"),
        ]);
        let limits = Limits::read(root.path());
        assert_eq!(limits, Limits { memory_bytes: Some(1_000_000), cpus: Some(1.5) });
    }

    #[test]
    fn version_1_limits_are_read_per_controller() {
        let root = files(&[
            ("proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2097152\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
        ]);
        let limits = Limits::read(root.path());
        assert_eq!(limits, Limits { memory_bytes: Some(2_097_152), cpus: Some(0.5) });
    }

    #[test]
    fn a_container_that_sees_its_group_as_the_mount_is_limited_too() {
        let root = files(&[
            ("proc/self/cgroup", "0::/docker/abc\n"),
            ("proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/memory.max", "4096\n"),
        ]);
        assert_eq!(Limits::read(root.path()).memory_bytes, Some(4096));
    }

    #[test]
    fn damaged_or_missing_files_are_no_limit() {
        assert_eq!(Limits::read(Path::new("/nonexistent")), Limits::default());
        let root = files(&[
            ("proc/self/cgroup", "rubbish\n0::/../../x\n:::\n"),
            (
                "proc/self/mountinfo",
                "rubbish\n - \n1 2 3 - cgroup2\n30 23 0:26 / /c rw - cgroup2 cgroup2 rw\n",
            ),
            ("c/memory.max", "lots\n"),
            ("c/cpu.max", "100000 0\n"),
            ("c/x/cpu.max", "\u{0}\n"),
        ]);
        assert_eq!(Limits::read(root.path()), Limits::default());
    }
}
