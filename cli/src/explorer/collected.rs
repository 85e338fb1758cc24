//! The data of all files of an explorer.

use std::collections::{BTreeMap, HashMap};

use super::naming;
use super::report_keys::{Description, Facts};
use crate::console::table::count_of;
use crate::plots::{ExplorerData, ExplorerMatrix};

/// The data of all files so far.
#[derive(Default)]
pub struct Collected {
    pub(super) data: ExplorerData,
    matrices: HashMap<(String, String), usize>,
    /// The host of each file's machine.
    pub(super) hosts: Vec<Option<String>>,
    /// Results that are not part of the page: how many of each reason, in the order of the reasons.
    skipped: BTreeMap<String, u64>,
}

impl Collected {
    /// The data of the page; devices of several machines are told apart by the host.
    pub fn finish(mut self, title: String) -> ExplorerData {
        let mut distinct: Vec<&String> = self.hosts.iter().flatten().collect();
        distinct.sort();
        distinct.dedup();
        if distinct.len() > 1 {
            for case in &mut self.data.cases {
                if let Some(Some(host)) = self.hosts.get(case.file) {
                    case.device = format!("{} on {host}", case.device);
                }
            }
        }
        let line = |(reason, number): (&String, &u64)| {
            format!("{}: {reason}", count_of(*number, "result", "results"))
        };
        self.data.left_out = self.skipped.iter().map(line).collect();
        self.data.title = title;
        self.data
    }

    /// The index of a matrix, which is added if it is new. A description fills gaps.
    pub(super) fn matrix(
        &mut self,
        facts: &Facts,
        argument: Option<String>,
        description: Option<&Description>,
    ) -> usize {
        let key = (facts.name.clone(), facts.hash.clone());
        let index = *self.matrices.entry(key).or_insert_with(|| {
            let Facts { name, rows, cols, nnz, .. } = facts.clone();
            self.data.matrices.push(ExplorerMatrix { name, rows, cols, nnz, ..Default::default() });
            self.data.matrices.len() - 1
        });
        let argument = description.and_then(|of| of.argument.clone()).or(argument);
        if let Some(matrix) = self.data.matrices.get_mut(index) {
            if matrix.group.is_empty() || matrix.argument.is_empty() {
                matrix.group = naming::group(&facts.name, argument.as_deref());
                matrix.argument = argument.as_deref().map(naming::quoted).unwrap_or_default();
            }
            if let Some(features) = description.and_then(|of| of.features.as_ref()) {
                features.fill(matrix);
            }
            if let Some(pattern) = description.and_then(|of| of.pattern.as_ref()) {
                matrix.pattern.clone_from(&pattern.cells);
            }
        }
        index
    }

    /// Counts a result that is not part of the page.
    pub(super) fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.into()).or_default() += 1;
    }
}
