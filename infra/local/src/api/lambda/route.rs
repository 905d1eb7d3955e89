//! Which operation of Lambda's API a method and a path mean.

use percent_encoding::percent_decode_str;

/// An operation, and what its path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// `Invoke` of the function that this means.
    Invoke(String),
    /// `CreateFunction`.
    CreateFunction,
    /// `ListFunctions`.
    ListFunctions,
    /// A change of the function that this means, so that its processes have to go.
    Change(String, Change),
    /// Another operation on the function that this means.
    OnFunction(String, OnFunction),
    /// `PublishLayerVersion` of the layer with this name.
    PublishLayerVersion(String),
    /// `GetLayerVersion` of the layer with this name, with this number.
    GetLayerVersion(String, usize),
    /// `CreateEventSourceMapping`.
    CreateEventSourceMapping,
    /// `ListEventSourceMappings`.
    ListEventSourceMappings,
    /// An operation on the event source mapping with this id.
    OnMapping(String, OnMapping),
}

/// What is asked or set of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnFunction {
    Get,
    GetConfiguration,
    PutConcurrency,
    GetConcurrency,
    DeleteConcurrency,
    PutEventInvokeConfig,
    UpdateEventInvokeConfig,
    GetEventInvokeConfig,
    DeleteEventInvokeConfig,
    ListEventInvokeConfigs,
    PutRecursionConfig,
    GetRecursionConfig,
}

/// What is changed of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Delete,
    UpdateCode,
    UpdateConfiguration,
}

/// What is done with an event source mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnMapping {
    Get,
    Update,
    Delete,
}

impl Operation {
    /// The operation of a request.
    pub(super) fn of(method: &str, path: &str) -> Option<Self> {
        let decoded: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
        Some(match (method, segments.as_slice()) {
            ("POST", ["2015-03-31", "functions"]) => Self::CreateFunction,
            ("GET", ["2015-03-31", "functions"]) => Self::ListFunctions,
            ("POST", ["2015-03-31", "functions", name, "invocations"]) => {
                Self::Invoke((*name).to_owned())
            }
            ("POST", ["2015-03-31", "event-source-mappings"]) => Self::CreateEventSourceMapping,
            ("GET", ["2015-03-31", "event-source-mappings"]) => Self::ListEventSourceMappings,
            (method, ["2015-03-31", "event-source-mappings", uuid]) => {
                Self::OnMapping((*uuid).to_owned(), OnMapping::of(method)?)
            }
            ("DELETE", ["2015-03-31", "functions", name]) => {
                Self::Change((*name).to_owned(), Change::Delete)
            }
            ("PUT", ["2015-03-31", "functions", name, "code"]) => {
                Self::Change((*name).to_owned(), Change::UpdateCode)
            }
            ("PUT", ["2015-03-31", "functions", name, "configuration"]) => {
                Self::Change((*name).to_owned(), Change::UpdateConfiguration)
            }
            ("POST", ["2018-10-31", "layers", name, "versions"]) => {
                Self::PublishLayerVersion((*name).to_owned())
            }
            ("GET", ["2018-10-31", "layers", name, "versions", version]) => {
                Self::GetLayerVersion((*name).to_owned(), version.parse().ok()?)
            }
            (method, [date, "functions", name, rest @ ..]) => {
                Self::OnFunction((*name).to_owned(), OnFunction::of(date, method, rest)?)
            }
            _ => return None,
        })
    }
}

impl OnFunction {
    /// Each setting has come to Lambda with a date of its own.
    fn of(date: &str, method: &str, rest: &[&str]) -> Option<Self> {
        Some(match (date, method, rest) {
            ("2015-03-31", "GET", []) => Self::Get,
            ("2015-03-31", "GET", ["configuration"]) => Self::GetConfiguration,
            ("2017-10-31", "PUT", ["concurrency"]) => Self::PutConcurrency,
            ("2017-10-31", "DELETE", ["concurrency"]) => Self::DeleteConcurrency,
            ("2019-09-30", "GET", ["concurrency"]) => Self::GetConcurrency,
            ("2019-09-25", "PUT", ["event-invoke-config"]) => Self::PutEventInvokeConfig,
            ("2019-09-25", "POST", ["event-invoke-config"]) => Self::UpdateEventInvokeConfig,
            ("2019-09-25", "GET", ["event-invoke-config"]) => Self::GetEventInvokeConfig,
            ("2019-09-25", "DELETE", ["event-invoke-config"]) => Self::DeleteEventInvokeConfig,
            ("2019-09-25", "GET", ["event-invoke-config", "list"]) => Self::ListEventInvokeConfigs,
            ("2024-08-31", "PUT", ["recursion-config"]) => Self::PutRecursionConfig,
            ("2024-08-31", "GET", ["recursion-config"]) => Self::GetRecursionConfig,
            _ => return None,
        })
    }
}

impl OnMapping {
    fn of(method: &str) -> Option<Self> {
        Some(match method {
            "GET" => Self::Get,
            "PUT" => Self::Update,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_awss_method_and_path() {
        let on = |what| Operation::OnFunction("f".to_owned(), what);
        let change = |what| Operation::Change("f".to_owned(), what);
        let mapping = |what| Operation::OnMapping("m".to_owned(), what);
        for (method, path, operation) in [
            ("POST", "/2015-03-31/functions", Operation::CreateFunction),
            ("GET", "/2015-03-31/functions/", Operation::ListFunctions),
            ("POST", "/2015-03-31/functions/f/invocations", Operation::Invoke("f".to_owned())),
            ("GET", "/2015-03-31/functions/f", on(OnFunction::Get)),
            ("DELETE", "/2015-03-31/functions/f", change(Change::Delete)),
            ("PUT", "/2015-03-31/functions/f/code", change(Change::UpdateCode)),
            ("PUT", "/2017-10-31/functions/f/concurrency", on(OnFunction::PutConcurrency)),
            ("GET", "/2019-09-30/functions/f/concurrency", on(OnFunction::GetConcurrency)),
            (
                "GET",
                "/2019-09-25/functions/f/event-invoke-config/list",
                on(OnFunction::ListEventInvokeConfigs),
            ),
            ("PUT", "/2024-08-31/functions/f/recursion-config", on(OnFunction::PutRecursionConfig)),
            ("POST", "/2015-03-31/event-source-mappings/", Operation::CreateEventSourceMapping),
            ("PUT", "/2015-03-31/event-source-mappings/m", mapping(OnMapping::Update)),
            (
                "POST",
                "/2018-10-31/layers/l/versions",
                Operation::PublishLayerVersion("l".to_owned()),
            ),
            (
                "GET",
                "/2018-10-31/layers/l/versions/7",
                Operation::GetLayerVersion("l".to_owned(), 7),
            ),
        ] {
            assert_eq!(Operation::of(method, path), Some(operation), "{method} {path}");
        }
    }

    #[test]
    fn an_arn_in_a_path_is_decoded() {
        let path = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Ar%3A1%3Afunction%3Af%3A%24LATEST";
        let arn = "arn:aws:lambda:r:1:function:f:$LATEST".to_owned();
        assert_eq!(Operation::of("GET", path), Some(Operation::OnFunction(arn, OnFunction::Get)));
    }

    #[test]
    fn what_is_not_there_is_no_operation() {
        for (method, path) in [
            ("GET", "/"),
            ("PATCH", "/2015-03-31/functions"),
            ("GET", "/2015-03-31/functions/f/versions"),
            ("GET", "/2015-03-31/functions/f/concurrency"),
            ("PUT", "/2017-10-31/functions"),
            ("GET", "/2014-11-13/functions/f"),
            ("GET", "/2018-10-31/layers/l/versions/last"),
        ] {
            assert_eq!(Operation::of(method, path), None, "{method} {path}");
        }
    }
}
