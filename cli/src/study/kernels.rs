//! Results of `study` for single kernels: a case is finished when all its devices are measured.

use crate::bench::kernels::CaseSink;
use crate::measure::CaseResult;
use crate::results::{Case, Journal, Record, records_of};
use rowloom::internal::error::{Error, Result};
use rowloom::internal::matrix::Dtype;

/// Receives measured kernels and adds each finished case to the journal and the results.
pub struct KernelCases<'a> {
    /// The cases of one matrix, precision and device list, and their keys in the journal.
    pub cases: &'a [&'a Case],
    pub keys: Vec<String>,
    /// The number of devices of a case, which are measured one after the other.
    pub devices: usize,
    /// The journal of finished cases.
    pub journal: &'a mut Journal,
    /// The results so far.
    pub records: &'a mut Vec<Record>,
    /// The number of finished cases.
    pub finished: &'a mut usize,
    /// Results for the current K on the devices so far.
    pub pending: Vec<CaseResult>,
}

impl CaseSink for KernelCases<'_> {
    fn wants(&mut self, _dtype: Dtype, _k: usize, _device: &str) -> bool {
        true
    }

    fn take(&mut self, case: CaseResult) -> Result<()> {
        let k = case.k;
        self.pending.push(case);
        if self.pending.len() < self.devices {
            return Ok(());
        }
        let done = std::mem::take(&mut self.pending);
        let place = self.cases.iter().position(|case| case.k == Some(k));
        let Some((case, key)) = place.and_then(|place| self.cases.get(place).zip(self.keys.get(place)))
        else {
            return Err(Error::Internal(format!("k = {k} was measured but is not part of the study")));
        };
        let mut records: Vec<Record> = done.iter().flat_map(records_of).collect();
        for record in &mut records {
            record.sweep = case.sweep.clone();
            record.schedule = Some(case.schedule.clone());
        }
        self.journal.append(key, &records)?;
        self.records.extend(records);
        *self.finished += 1;
        Ok(())
    }
}
