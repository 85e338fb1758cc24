//! The sweep over ranks: what `ranks` of a sweep may be combined with.

use super::config::{Subject, Sweep};

/// Most ranks that a study may ask for.
const MOST_RANKS: usize = 4096;

impl Sweep {
    /// The key that is wrong, and the reason.
    pub(super) fn check_ranks(&self) -> std::result::Result<(), (&'static str, String)> {
        if self.ranks.is_empty() {
            return Ok(());
        }
        if !self.ranks.iter().all(|ranks| (1..=MOST_RANKS).contains(ranks)) {
            return Err(("ranks", format!("ranks must be from 1 to {MOST_RANKS}")));
        }
        if self.subject != Subject::Run {
            return Err(("ranks", "ranks has an effect on subject = \"run\" only; remove it".into()));
        }
        if let Some(devices) = self.devices.iter().find(|devices| devices.contains("sim:")) {
            let reason =
                format!("{devices} is simulated in one process; remove ranks, or name cpu, cuda or emu:0");
            return Err(("devices", reason));
        }
        if !self.against.is_empty() {
            return Err(("against", "other libraries are not measured over ranks; remove against".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::results::StudyConfig;
    use rowloom::internal::toml_file::TomlFile;

    const SMALL: &str = "
        title = 'small'
        [[sweep]]
        name = 'ranks'
        matrices = ['gen:uniform,rows={1_000*ranks},degree=4']
        k = [1, 8]
        threads = 1
        ranks = [1, 2, 4]
    ";

    #[test]
    fn ranks_are_swept_and_matrices_grow_with_them() {
        let parse = |text: &str| StudyConfig::parse(&TomlFile::new("a.toml", text));
        let cases = parse(SMALL).unwrap().cases(6, |_| 1).unwrap();
        assert_eq!(cases.len(), 3 * 2);
        let ranks: Vec<Option<usize>> = cases.iter().step_by(2).map(|case| case.ranks).collect();
        assert_eq!(ranks, [Some(1), Some(2), Some(4)]);
        assert_eq!(cases[5].matrix, "gen:uniform,rows=4000,degree=4");
        for (from, to, words) in [
            ("[1, 2, 4]", "[0]", "ranks must be from 1"),
            ("[1, 2, 4]", "[1]\nsubject = 'kernel'", "only; remove it"),
            ("[1, 2, 4]", "[1]\ndevices = 'sim:h200x4'", "simulated in one process"),
            ("ranks = [1, 2, 4]", "", "braces hold a number"),
        ] {
            let error = parse(&SMALL.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
