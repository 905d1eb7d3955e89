//! What the local cloud takes from the user's environment.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The variables that functions inherit from the local cloud's own environment, to find programs and the user's files.
const INHERITED: [&str; 5] = ["HOME", "LANG", "PATH", "TMPDIR", "USER"];

const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

const TMPDIR_DEFAULT: &str = "/tmp";

const RUNTIMES: &str = "COMEBACK_RUNTIMES";

const RUNTIMES_DEFAULT: &str = ".comeback/runtimes";

/// The settings from the user's environment. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    pub(crate) variables: BTreeMap<OsString, OsString>,
    runtime_clients: Option<PathBuf>,
}

impl Inherited {
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = INHERITED.iter().filter_map(|name| Some((OsString::from(name), lookup(name)?)));
        let runtime_clients = lookup(RUNTIMES).filter(|named| !named.is_empty()).map(PathBuf::from);
        Self { variables: named.collect(), runtime_clients }
    }

    pub(crate) fn runtime_clients(&self) -> PathBuf {
        self.runtime_clients.clone().unwrap_or_else(|| {
            self.get("HOME").map_or(self.temporary(), Path::new).join(RUNTIMES_DEFAULT)
        })
    }

    pub(crate) fn path(&self) -> &OsStr {
        self.get("PATH").unwrap_or(OsStr::new(PATH_DEFAULT))
    }

    pub(crate) fn temporary(&self) -> &Path {
        Path::new(self.get("TMPDIR").unwrap_or(OsStr::new(TMPDIR_DEFAULT)))
    }

    /// The value of a variable. An empty one counts as unset.
    fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variables_that_find_programs_and_files_are_inherited() {
        let inherited = Inherited::from_lookup(|name| Some(format!("{name}'s").into()));
        let names: Vec<_> = inherited.variables.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, INHERITED);
        assert_eq!(inherited.runtime_clients(), Path::new("COMEBACK_RUNTIMES's"));
        assert_eq!(inherited.path(), "PATH's");
        assert_eq!(inherited.temporary(), Path::new("TMPDIR's"));
    }

    #[test]
    fn unset_and_empty_variables_have_defaults() {
        for inherited in [Inherited::default(), Inherited::from_lookup(|_| Some(OsString::new()))] {
            assert_eq!(inherited.path(), PATH_DEFAULT);
            assert_eq!(inherited.temporary(), Path::new(TMPDIR_DEFAULT));
            assert_eq!(inherited.runtime_clients(), Path::new("/tmp/.comeback/runtimes"));
        }
        let home = Inherited::from_lookup(|name| (name == "HOME").then(|| "/home/me".into()));
        assert_eq!(home.runtime_clients(), Path::new("/home/me/.comeback/runtimes"));
    }
}
