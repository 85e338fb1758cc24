//! The matrix of the cases of a study, loaded once for all cases in a row that use it.

use super::vectors;
use crate::args::MatrixSource;
use crate::bench::kernels::facts;
use crate::console::Console;
use crate::measure::used_columns;
use crate::measure::{MatrixDescription, MatrixFacts};
use crate::operands::session::{Session, check_intact};
use crate::results::{Case, StudySubject};
use rowloom::internal::error::Result;
use rowloom::internal::matrix::{Csr, Dtype};

/// The loaded matrix, in single precision too once a case needs it.
pub struct LoadedMatrix {
    /// Its name in the study.
    pub name: String,
    /// Whether its values were loaded too.
    has_values: bool,
    /// The matrix.
    pub double: Csr<f64>,
    /// The same in single precision.
    pub single: Option<Csr<f32>>,
    /// Its name, its hash and its size in results.
    pub facts: MatrixFacts,
    /// Number of columns with a nonzero.
    pub used_columns: u64,
}

impl LoadedMatrix {
    /// Whether a case needs the values of its matrix.
    pub fn needs_values(case: &Case) -> bool {
        case.subject != StudySubject::Vectors
    }

    /// Loads the matrix of a case.
    pub fn new(case: &Case, session: &Session, console: &Console) -> Result<Self> {
        let (source, has_values) = (MatrixSource::new(case.matrix.as_ref()), Self::needs_values(case));
        let (loaded, _) = match has_values {
            true => session.load::<f64>(&source, false, console)?,
            false => session.load_pattern::<f64>(&source, false, console)?,
        };
        check_intact(&loaded.matrix, &source)?;
        let facts = match has_values {
            true => facts(&loaded.info.name, loaded.matrix.view()),
            false => vectors::facts(&loaded.info.name, loaded.matrix.view()),
        };
        let used_columns = session.pool.install(|| used_columns(loaded.matrix.view()));
        let (name, double) = (case.matrix.clone(), loaded.matrix);
        Ok(Self { name, has_values, double, single: None, facts, used_columns })
    }

    /// Its description in results.
    pub fn description(&self, session: &Session) -> MatrixDescription {
        let argument = MatrixSource::new(self.name.as_ref()).name();
        session.pool.install(|| MatrixDescription::of(argument, &self.facts, self.double.view()))
    }

    /// Whether it is the matrix of a case, with values if the case needs them.
    pub fn is_of(&self, case: &Case) -> bool {
        self.name == case.matrix && self.has_values == Self::needs_values(case)
    }

    /// Converts it to the precision of a case, once.
    pub fn convert(&mut self, case: &Case, session: &Session) -> Result<()> {
        if case.dtype == Dtype::F32 && self.has_values && self.single.is_none() {
            self.single = Some(session.pool.install(|| self.double.cast())?);
            self.check()?;
        }
        Ok(())
    }

    /// An error if the file of the matrix changed since it was loaded.
    pub fn check(&self) -> Result<()> {
        check_intact(&self.double, &MatrixSource::new(self.name.as_ref()))
    }
}
