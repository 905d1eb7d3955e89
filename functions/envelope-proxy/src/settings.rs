//! The proxy's settings, from the environment.

use std::num::NonZeroU16;

const PORT: NonZeroU16 = NonZeroU16::new(9019).unwrap();

#[derive(Debug)]
pub struct Settings {
    /// Host and port of the Runtime API, or of another proxy in front of it.
    pub runtime_api: String,
    /// The port on loopback to listen on. A bad one is an error only when it is needed, because the caller then knows
    /// where to report it.
    port: Result<NonZeroU16, BadSetting>,
    /// The function's real bootstrap, if the proxy is installed as `bootstrap`.
    pub bootstrap: Option<String>,
    pub has_wrapper: bool,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{name} must be {expected}, got {got}")]
pub struct BadSetting {
    name: &'static str,
    expected: &'static str,
    got: String,
}

impl Settings {
    /// Reads the settings. Variables that are empty count as unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSetting> {
        let lookup = |name| lookup(name).filter(|value| !value.is_empty());
        let Some(runtime_api) = lookup("AWS_LAMBDA_RUNTIME_API") else {
            let (name, expected) = ("AWS_LAMBDA_RUNTIME_API", "host and port, as Lambda sets it");
            return Err(BadSetting { name, expected, got: "nothing".to_owned() });
        };
        let port = lookup("COMEBACK_PROXY_PORT").map_or(Ok(PORT), |port| {
            port.parse().map_err(|_| BadSetting {
                name: "COMEBACK_PROXY_PORT",
                expected: "a port, 1 to 65535",
                got: format!("{port:?}"),
            })
        });
        Ok(Self {
            runtime_api,
            port,
            bootstrap: lookup("COMEBACK_BOOTSTRAP"),
            has_wrapper: lookup("AWS_LAMBDA_EXEC_WRAPPER").is_some(),
        })
    }

    /// The port that the extension and its wrapper agree on.
    pub fn agreed_port(&self) -> Result<u16, BadSetting> {
        self.port.clone().map(NonZeroU16::get)
    }
}
