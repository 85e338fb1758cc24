//! The PCIe links of GPUs.

use std::path::Path;

use super::files::text;

/// The bandwidth of a GPU's PCIe link in one direction, in GB/s: lanes times the rate of a lane, less its line code. `None` if the system
/// does not report the link, as in some virtual machines.
pub fn pcie_gb_per_s(root: &Path, gpu: usize) -> Option<f64> {
    let addresses = std::fs::read_dir(root.join("proc/driver/nvidia/gpus")).ok()?.flatten();
    let mut addresses: Vec<_> = addresses.map(|address| address.file_name()).collect();
    addresses.sort();
    let folder = root.join("sys/bus/pci/devices").join(addresses.get(gpu)?);
    // `32.0 GT/s PCIe`; an idle card reports a lower current speed.
    let speed = text(&folder.join("max_link_speed"))?;
    let gigatransfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let lanes: f64 = text(&folder.join("current_link_width"))?.trim().parse().ok()?;
    let code = if gigatransfers > 5.0 { 128.0 / 130.0 } else { 0.8 };
    let gb_per_s = gigatransfers * lanes * code / 8.0;
    (gb_per_s > 0.0 && gb_per_s.is_finite()).then_some(gb_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_of_a_card_is_read_and_a_missing_one_is_none() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/driver/nvidia/gpus/0000:0a:00.0/information", "");
        write("sys/bus/pci/devices/0000:0a:00.0/max_link_speed", "32.0 GT/s PCIe\n");
        write("sys/bus/pci/devices/0000:0a:00.0/current_link_width", "16\n");
        assert!((pcie_gb_per_s(root.path(), 0).unwrap() - 63.0).abs() < 0.1);
        assert_eq!(pcie_gb_per_s(root.path(), 1), None);
        write("sys/bus/pci/devices/0000:0a:00.0/max_link_speed", "Unknown\n");
        assert_eq!(pcie_gb_per_s(root.path(), 0), None);
    }
}
