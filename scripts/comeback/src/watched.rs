//! The live page of `comeback local`.

use comeback_local::Config;

use crate::{
    deploy::HANDLER,
    happening::Happening,
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

/// What the first lines say of the page.
pub const HINT: &str = "Open it in a browser to watch failed events come back.";

/// Tells the page what happens in the local cloud.
pub struct Watched(Shared);

impl Watched {
    /// Nothing has happened yet.
    pub fn new(shell: &Shell) -> Result<Self, Failure> {
        Ok(Self(Live::new(None, shell.now, None)?))
    }

    /// A local cloud that answers browsers, and that outages can be played in.
    pub fn configure(&self, config: Config) -> Config {
        let page = Some(web::router(Shared::clone(&self.0)));
        Config { page, outages: self.0.outages.clone(), ..config }
    }

    /// The loop is deployed, so the page can ask about it.
    pub async fn deployed(&self, endpoint: &str) -> Result<(), Failure> {
        let local = Some(Some(endpoint.to_owned()));
        let connection = Connection { local, ..Connection::default() };
        let aws = Aws::connect(&connection, self.0.now).await?;
        self.0.connect(Cloud { aws, handler: Some(HANDLER.to_owned()), connection });
        Ok(())
    }

    /// What happened.
    pub fn happened(&self, entries: &[Entry], happenings: &[Happening]) {
        let of_handler = entries.iter().filter(|entry| *entry.function == *HANDLER);
        let lines: Vec<_> = of_handler.filter_map(|entry| entry.line.as_deref()).collect();
        self.0.happened(happenings, &lines);
    }

    /// Ends the connections of the page.
    pub fn close(&self) {
        self.0.close();
    }
}
