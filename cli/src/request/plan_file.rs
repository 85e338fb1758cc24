//! Errors of products with a saved plan, `--plan FILE`.

use std::path::Path;

use rowloom::internal::error::{Error, Place, Result};
use rowloom::internal::plan::Plan;

/// `done`, where an error of the plan itself names its file. Only an error that the check of the plan returned is one: that check
/// refuses every plan that does not fit its matrix, so all other errors keep their text and kind.
pub fn named(done: Result<()>, plan: Option<&Path>) -> Result<()> {
    match (done, plan) {
        (Err(Error::Input { place, reason }), Some(path)) if place.source == Plan::PLACE => {
            let reason = reason.map_words(|words| format!("the plan is invalid: {words}"));
            Err(Error::input(Place::file(path), reason))
        }
        (done, _) => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::advice;
    use rowloom::internal::error::Advice;

    #[test]
    fn only_an_error_of_the_plan_asks_for_a_new_plan() {
        let named = |error| named(Err(error), Some("a.plan".as_ref())).unwrap_err();
        let place = Place { source: Plan::PLACE.into(), line: None, column: None };
        let error = named(Error::input(place, "chunk 3 has no kernel").advise([Advice::NewPlan]));
        assert_eq!(
            advice::text(&error),
            "a.plan: the plan is invalid: chunk 3 has no kernel; make it again with `rowloom plan --save`"
        );
        let error = named(Error::Internal("emu:0, kernel of chunk 3: wrong".into()));
        assert_eq!(error.exit_code(), 70);
        assert_eq!(advice::text(&error), "internal error: emu:0, kernel of chunk 3: wrong; please report it");
        let error = named(Error::input(Place::file("x.npy"), "damaged"));
        assert_eq!(advice::text(&error), "x.npy: damaged");
    }
}
