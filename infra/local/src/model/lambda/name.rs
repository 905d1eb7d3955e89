//! References to a function: its name, its ARN or its partial ARN, with or without a qualifier.
//!
//! The local cloud has no published versions and no aliases, so `$LATEST` is the only valid qualifier.

use super::error::LambdaError;
use crate::model::arn::{ACCOUNT, REGION, is_name};

/// The unpublished version of a function, and the only version here.
pub const LATEST: &str = "$LATEST";

/// The longest function name, in characters: AWS's limit.
const NAME_MAX: usize = 64;

pub(crate) fn arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}")
}

pub(crate) fn qualified_arn(name: &str) -> String {
    format!("{}:{LATEST}", arn(name))
}

/// The function name in `reference`. The function need not exist.
///
/// # Errors
///
/// If the reference is malformed, if it names a version, an alias or a region that does not exist here, or if its
/// own qualifier differs from `qualifier`.
pub(crate) fn resolve(reference: &str, qualifier: Option<&str>) -> Result<String, LambdaError> {
    let (name, own) = split(reference)?;
    if let (Some(own), Some(given)) = (own, qualifier)
        && own != given
    {
        return Err(LambdaError::invalid(
            "The derived qualifier from the function name does not match the specified qualifier.",
        ));
    }
    match own.or(qualifier) {
        None | Some(LATEST) => Ok(name.to_owned()),
        Some(other) => {
            Err(LambdaError::ResourceNotFound(format!("Function not found: {}:{other}", arn(name))))
        }
    }
}

pub(crate) fn not_found(name: &str) -> LambdaError {
    LambdaError::ResourceNotFound(format!("Function not found: {}", arn(name)))
}

/// The error for a function that doesn't exist, in operations whose message includes `$LATEST`.
pub(crate) fn latest_not_found(name: &str) -> LambdaError {
    LambdaError::ResourceNotFound(format!("Function not found: {}", qualified_arn(name)))
}

fn split(reference: &str) -> Result<(&str, Option<&str>), LambdaError> {
    let parts: Vec<&str> = reference.split(':').collect();
    let rest = match parts.as_slice() {
        ["arn", "aws", "lambda", region, _, ..] if *region != REGION => {
            return Err(LambdaError::ResourceNotFound(format!(
                "Functions from '{region}' are not reachable in this region ('{REGION}')"
            )));
        }
        ["arn", "aws", "lambda", REGION, ACCOUNT, "function", rest @ ..]
        | [ACCOUNT, "function", rest @ ..] => rest,
        ["function", rest @ ..] if !rest.is_empty() => rest,
        // An account without a function.
        [ACCOUNT, ..] => &[],
        rest => rest,
    };
    let (name, qualifier) = match *rest {
        [name] => (name, None),
        [name, qualifier] => (name, Some(qualifier)),
        _ => return Err(malformed(reference)),
    };
    let is_qualifier = |qualifier| qualifier == LATEST || is_name(qualifier, NAME_MAX);
    if is_name(name, NAME_MAX) && qualifier.is_none_or(is_qualifier) {
        Ok((name, qualifier))
    } else {
        Err(malformed(reference))
    }
}

fn malformed(reference: &str) -> LambdaError {
    let rule = format!(
        "Member must be a function's name of up to {NAME_MAX} letters, digits, hyphens and underscores, or \
         an ARN in region {REGION} and account {ACCOUNT}"
    );
    LambdaError::constraint("functionName", reference, &rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_reference_resolves_to_the_function() {
        for reference in [
            "f",
            "f:$LATEST",
            "function:f",
            "000000000000:function:f",
            "000000000000:function:f:$LATEST",
            "arn:aws:lambda:us-east-1:000000000000:function:f",
            "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST",
        ] {
            assert_eq!(resolve(reference, None).as_deref(), Ok("f"), "{reference}");
            assert_eq!(resolve(reference, Some(LATEST)).as_deref(), Ok("f"), "{reference}");
        }
    }

    #[test]
    fn versions_other_than_latest_are_not_found() {
        for (reference, qualifier) in [("f:7", None), ("f", Some("live")), ("f:7", Some("7"))] {
            let error = resolve(reference, qualifier).unwrap_err();
            assert_eq!(error.code(), "ResourceNotFoundException", "{reference}");
        }
        let error = resolve("f:7", Some("8")).unwrap_err();
        assert_eq!(error.code(), "InvalidParameterValueException");
    }

    #[test]
    fn malformed_references_are_refused() {
        let long = "x".repeat(NAME_MAX + 1);
        for reference in [
            "",
            "a b",
            "é",
            long.as_str(),
            "arn:aws:lambda:us-east-1:111111111111:function:f",
            "arn:aws:lambda:us-east-1:f",
            "arn:aws:lambda:f",
            "arn:aws:sqs:us-east-1:000000000000:f",
        ] {
            let error = resolve(reference, None).unwrap_err();
            assert_eq!(error.code(), "ValidationException", "{reference:?}");
        }
    }
}
