//! Which operation of Lambda's API a method and a path mean.

use percent_encoding::percent_decode_str;

/// An operation, and what its path names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "the names are those of Lambda's API")]
pub(super) enum Operation {
    CreateFunction,
    ListFunctions,
    GetFunction(String),
    DeleteFunction(String),
    GetFunctionConfiguration(String),
    UpdateFunctionConfiguration(String),
    UpdateFunctionCode(String),
    Invoke(String),
    PutFunctionConcurrency(String),
    GetFunctionConcurrency(String),
    DeleteFunctionConcurrency(String),
    PutFunctionEventInvokeConfig(String),
    UpdateFunctionEventInvokeConfig(String),
    GetFunctionEventInvokeConfig(String),
    DeleteFunctionEventInvokeConfig(String),
    ListFunctionEventInvokeConfigs(String),
    CreateEventSourceMapping,
    ListEventSourceMappings,
    GetEventSourceMapping(String),
    UpdateEventSourceMapping(String),
    DeleteEventSourceMapping(String),
    PutFunctionRecursionConfig(String),
    GetFunctionRecursionConfig(String),
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
        match segments.as_slice() {
            ["2015-03-31", "functions", rest @ ..] => Self::of_function(method, rest),
            ["2015-03-31", "event-source-mappings", rest @ ..] => Self::of_mapping(method, rest),
            [date, "functions", name, rest @ ..] => {
                Self::of_setting(method, date, (*name).to_owned(), rest)
            }
            _ => None,
        }
    }

    fn of_function(method: &str, rest: &[&str]) -> Option<Self> {
        Some(match (method, rest) {
            ("POST", []) => Self::CreateFunction,
            ("GET", []) => Self::ListFunctions,
            ("GET", [name]) => Self::GetFunction((*name).to_owned()),
            ("DELETE", [name]) => Self::DeleteFunction((*name).to_owned()),
            ("GET", [name, "configuration"]) => Self::GetFunctionConfiguration((*name).to_owned()),
            ("PUT", [name, "configuration"]) => {
                Self::UpdateFunctionConfiguration((*name).to_owned())
            }
            ("PUT", [name, "code"]) => Self::UpdateFunctionCode((*name).to_owned()),
            ("POST", [name, "invocations"]) => Self::Invoke((*name).to_owned()),
            _ => return None,
        })
    }

    fn of_mapping(method: &str, rest: &[&str]) -> Option<Self> {
        Some(match (method, rest) {
            ("POST", []) => Self::CreateEventSourceMapping,
            ("GET", []) => Self::ListEventSourceMappings,
            ("GET", [uuid]) => Self::GetEventSourceMapping((*uuid).to_owned()),
            ("PUT", [uuid]) => Self::UpdateEventSourceMapping((*uuid).to_owned()),
            ("DELETE", [uuid]) => Self::DeleteEventSourceMapping((*uuid).to_owned()),
            _ => return None,
        })
    }

    /// What is set beside a function's configuration; each has come with a date of its own.
    fn of_setting(method: &str, date: &str, name: String, rest: &[&str]) -> Option<Self> {
        Some(match (date, method, rest) {
            ("2017-10-31", "PUT", ["concurrency"]) => Self::PutFunctionConcurrency(name),
            ("2017-10-31", "DELETE", ["concurrency"]) => Self::DeleteFunctionConcurrency(name),
            ("2019-09-30", "GET", ["concurrency"]) => Self::GetFunctionConcurrency(name),
            ("2019-09-25", "PUT", ["event-invoke-config"]) => {
                Self::PutFunctionEventInvokeConfig(name)
            }
            ("2019-09-25", "POST", ["event-invoke-config"]) => {
                Self::UpdateFunctionEventInvokeConfig(name)
            }
            ("2019-09-25", "GET", ["event-invoke-config"]) => {
                Self::GetFunctionEventInvokeConfig(name)
            }
            ("2019-09-25", "DELETE", ["event-invoke-config"]) => {
                Self::DeleteFunctionEventInvokeConfig(name)
            }
            ("2019-09-25", "GET", ["event-invoke-config", "list"]) => {
                Self::ListFunctionEventInvokeConfigs(name)
            }
            ("2024-08-31", "PUT", ["recursion-config"]) => Self::PutFunctionRecursionConfig(name),
            ("2024-08-31", "GET", ["recursion-config"]) => Self::GetFunctionRecursionConfig(name),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_awss_method_and_path() {
        let name = || "f".to_owned();
        for (method, path, operation) in [
            ("POST", "/2015-03-31/functions", Operation::CreateFunction),
            ("GET", "/2015-03-31/functions/", Operation::ListFunctions),
            ("GET", "/2015-03-31/functions/f", Operation::GetFunction(name())),
            ("DELETE", "/2015-03-31/functions/f", Operation::DeleteFunction(name())),
            ("POST", "/2015-03-31/functions/f/invocations", Operation::Invoke(name())),
            ("PUT", "/2015-03-31/functions/f/code", Operation::UpdateFunctionCode(name())),
            (
                "PUT",
                "/2017-10-31/functions/f/concurrency",
                Operation::PutFunctionConcurrency(name()),
            ),
            (
                "GET",
                "/2019-09-30/functions/f/concurrency",
                Operation::GetFunctionConcurrency(name()),
            ),
            (
                "GET",
                "/2019-09-25/functions/f/event-invoke-config/list",
                Operation::ListFunctionEventInvokeConfigs(name()),
            ),
            ("POST", "/2015-03-31/event-source-mappings/", Operation::CreateEventSourceMapping),
            (
                "PUT",
                "/2024-08-31/functions/f/recursion-config",
                Operation::PutFunctionRecursionConfig(name()),
            ),
        ] {
            assert_eq!(Operation::of(method, path), Some(operation), "{method} {path}");
        }
    }

    #[test]
    fn an_arn_in_a_path_is_decoded() {
        let path = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Ar%3A1%3Afunction%3Af%3A%24LATEST";
        let arn = "arn:aws:lambda:r:1:function:f:$LATEST".to_owned();
        assert_eq!(Operation::of("GET", path), Some(Operation::GetFunction(arn)));
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
        ] {
            assert_eq!(Operation::of(method, path), None, "{method} {path}");
        }
    }
}
