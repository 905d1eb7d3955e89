//! Judges format errors, which no retry can fix.

use std::{char, error::Error, net, num, str, string};

use super::{Verdict, connection, standard::Opinion};

const NEVER: Option<Opinion> = Some(Opinion::Certain(Verdict::Never));

pub(super) fn opinion(error: &(dyn Error + 'static)) -> Option<Opinion> {
    if let Some(error) = error.downcast_ref::<serde_json::Error>() {
        // The reader may have failed. Then the error has the reader's error kind, but not its error.
        return error.io_error_kind().map_or(NEVER, connection::of_kind);
    }
    let format = error.is::<str::Utf8Error>()
        || error.is::<string::FromUtf8Error>()
        || error.is::<string::FromUtf16Error>()
        || error.is::<str::ParseBoolError>()
        || error.is::<num::ParseIntError>()
        || error.is::<num::ParseFloatError>()
        || error.is::<num::TryFromIntError>()
        || error.is::<char::ParseCharError>()
        || error.is::<char::CharTryFromError>()
        || error.is::<net::AddrParseError>()
        || error.is::<http::Error>()
        || error.is::<http::uri::InvalidUri>()
        || error.is::<http::header::InvalidHeaderName>()
        || error.is::<http::header::InvalidHeaderValue>()
        || error.is::<http::header::ToStrError>();
    if format { NEVER } else { None }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;
    use crate::transient::{Kind, judge};

    #[test]
    fn validation_and_format_errors_are_never_retried() {
        let errors: [Box<dyn Error>; 17] = [
            Box::new(serde_json::from_str::<u32>("twelve").unwrap_err()),
            Box::new(serde_json::from_str::<u32>("[1").unwrap_err()),
            Box::new(serde_json::from_str::<u32>("\"a string\"").unwrap_err()),
            Box::new(String::from_utf8(vec![0xff]).unwrap_err().utf8_error()),
            Box::new(String::from_utf8(vec![0xff]).unwrap_err()),
            Box::new(String::from_utf16(&[0xd800]).unwrap_err()),
            Box::new("maybe".parse::<bool>().unwrap_err()),
            Box::new("twelve".parse::<u32>().unwrap_err()),
            Box::new("twelve".parse::<f64>().unwrap_err()),
            Box::new(u8::try_from(256).unwrap_err()),
            Box::new("ab".parse::<char>().unwrap_err()),
            Box::new(char::try_from(0xd800_u32).unwrap_err()),
            Box::new("127.0.0".parse::<net::IpAddr>().unwrap_err()),
            Box::new(http::Request::builder().uri("a b").body(()).unwrap_err()),
            Box::new("a b".parse::<http::Uri>().unwrap_err()),
            Box::new("a b".parse::<http::HeaderName>().unwrap_err()),
            Box::new("a\nb".parse::<http::HeaderValue>().unwrap_err()),
        ];
        for error in errors {
            assert_eq!(judge(&*error), Verdict::Never, "{error:?}");
        }
    }

    /// A reader that fails with this kind of error.
    struct Broken(ErrorKind);

    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
    }

    #[test]
    fn json_from_a_broken_connection_has_the_verdict_of_the_connection() {
        for (kind, verdict) in [
            (ErrorKind::ConnectionReset, Verdict::retry(Kind::InDoubt)),
            (ErrorKind::TimedOut, Verdict::retry(Kind::TimedOut)),
            (ErrorKind::PermissionDenied, Verdict::Never),
        ] {
            let error = serde_json::from_reader::<_, u32>(Broken(kind)).unwrap_err();
            assert_eq!(judge(&error), verdict, "{kind}");
        }
    }
}
