//! Abstracts over the responses of HTTP clients.

use http::{HeaderMap, StatusCode};

/// A response that [`HttpStatus::check`](super::HttpStatus::check) accepts: one of reqwest 0.13 (feature
/// `reqwest`) or 0.12 (feature `reqwest-0-12`).
pub trait Response: sealed::Sealed + Send {
    #[doc(hidden)]
    fn status(&self) -> StatusCode;

    #[doc(hidden)]
    fn headers(&self) -> &HeaderMap;

    /// The next bytes of the body, or `None` at its end and after an error.
    #[doc(hidden)]
    fn chunk(&mut self) -> impl Future<Output = Option<impl AsRef<[u8]> + Send>> + Send;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! response {
    ($($feature:literal $response:ty;)*) => {$(
        #[cfg(feature = $feature)]
        impl sealed::Sealed for $response {}

        #[cfg(feature = $feature)]
        impl Response for $response {
            fn status(&self) -> StatusCode {
                self.status()
            }

            fn headers(&self) -> &HeaderMap {
                self.headers()
            }

            async fn chunk(&mut self) -> Option<impl AsRef<[u8]> + Send> {
                self.chunk().await.ok().flatten()
            }
        }
    )*};
}

response! {
    "reqwest" reqwest::Response;
    "reqwest-0-12" reqwest_0_12::Response;
}
