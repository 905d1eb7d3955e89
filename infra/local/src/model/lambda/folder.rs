//! Folders that functions and layers are unpacked to.

use std::{
    any::Any,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// Removes the folder when it is dropped with the last copy. `None` for a folder that the user provided.
    _keeper: Option<Arc<dyn Any + Send + Sync>>,
}

impl Folder {
    /// A folder that `keeper` removes when it is dropped.
    pub(crate) fn kept(path: PathBuf, keeper: impl Any + Send + Sync) -> Self {
        Self { path, _keeper: Some(Arc::new(keeper)) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<P: Into<PathBuf>> From<P> for Folder {
    fn from(path: P) -> Self {
        Self { path: path.into(), _keeper: None }
    }
}
