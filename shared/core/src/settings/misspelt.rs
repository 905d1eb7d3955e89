//! Variables that look like misspelt settings.

use std::fmt;

use super::{contract::SETTINGS, setting::Scope};

/// A variable counts as a misspelt setting if at most this many edits turn it into one, and at most one edit for each
/// four characters of the setting's name.
const EDITS_MAX: usize = 2;

/// A variable that was probably meant to be a setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Misspelt {
    variable: String,
    pub(crate) setting: &'static str,
}

impl Misspelt {
    /// Finds misspelt settings among the names of an environment's variables.
    pub fn among(variables: impl IntoIterator<Item = String>) -> Vec<Self> {
        let variables_of = SETTINGS.iter().filter(|setting| setting.scope != Scope::Member);
        let settings = || variables_of.clone().map(|setting| setting.name);
        let others = variables.into_iter().filter(|name| !settings().any(|known| known == name));
        let misspelt = |variable: String| {
            let upper = variable.to_ascii_uppercase();
            // If the lengths differ by more than that, so do the names.
            let near = |known: &&str| known.len().abs_diff(upper.len()) <= EDITS_MAX;
            let edits = |known| (strsim::osa_distance(&upper, known), known);
            let (edits, setting) = settings().filter(near).map(edits).min()?;
            (edits <= EDITS_MAX.min(setting.len() / 4)).then_some(Self { variable, setting })
        };
        others.filter_map(misspelt).collect()
    }
}

impl fmt::Display for Misspelt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, setting } = self;
        write!(f, "{variable} is not a setting and is ignored; did you mean {setting}?")
    }
}
