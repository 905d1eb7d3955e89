//! The live page of `comeback local`.

use comeback_local::Config;

use crate::{
    activity::Activity,
    deploy::HANDLER,
    journal::Entry,
    operate::{
        aws::Aws,
        options::Connection,
        web::{
            self,
            live::{Cloud, Live, Shared},
        },
    },
    shell::{Failure, Shell},
};

/// The line about the page at the start of `comeback local`.
pub const HINT: &str = "Open it in a browser to watch failed events come back.";

/// The live page, which follows the activity in the local cloud.
pub struct LivePage(Shared);

impl LivePage {
    /// A page that has seen no activity yet.
    pub fn new(shell: &Shell) -> Result<Self, Failure> {
        Ok(Self(Live::new(None, shell.now, None)?))
    }

    /// Makes the local cloud serve the page, and lets the page simulate outages in it.
    pub fn configure(&self, config: Config) -> Config {
        let page = Some(web::router(Shared::clone(&self.0)));
        Config { page, outages: self.0.outages.clone(), ..config }
    }

    /// Connects the page to the retry loop, which is now deployed.
    pub async fn deployed(&self, endpoint: &str) -> Result<(), Failure> {
        let local = Some(Some(endpoint.to_owned()));
        let connection = Connection { local, ..Connection::default() };
        let aws = Aws::connect(&connection, self.0.now).await?;
        self.0.connect(Cloud { aws, handler: Some(HANDLER.to_owned()), connection });
        Ok(())
    }

    /// Shows new entries of the journal. `activities` is what they were read as.
    pub fn observe(&self, entries: &[Entry], activities: &[Activity]) {
        let of_handler = entries.iter().filter(|entry| *entry.function == *HANDLER);
        let lines: Vec<_> = of_handler.filter_map(|entry| entry.line.as_deref()).collect();
        self.0.observe(activities, &lines);
    }

    pub fn close(&self) {
        self.0.close();
    }
}
