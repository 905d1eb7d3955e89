//! The cloud, and whether anything in it may have changed since it was last looked at.

use std::ops::{Deref, DerefMut};

use comeback_local_model::Cloud;

pub struct Watched {
    cloud: Cloud,
    is_touched: bool,
}

impl Watched {
    pub fn new(cloud: Cloud) -> Self {
        Self { cloud, is_touched: true }
    }

    pub fn is_touched(&self) -> bool {
        self.is_touched
    }

    pub fn is_looked_at(&mut self) {
        self.is_touched = false;
    }

    /// The cloud, for what changes nothing in it but with time.
    pub fn unchanged(&mut self) -> &mut Cloud {
        &mut self.cloud
    }
}

impl Deref for Watched {
    type Target = Cloud;

    fn deref(&self) -> &Cloud {
        &self.cloud
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut Cloud {
        self.is_touched = true;
        &mut self.cloud
    }
}
