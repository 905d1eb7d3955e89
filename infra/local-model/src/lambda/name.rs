//! References to a function: its name, its ARN or its partial ARN, with or without a qualifier.
//!
//! The local cloud has no published versions and no aliases, so `$LATEST` is the only valid qualifier.

use super::error::LambdaError;
use crate::{ACCOUNT, REGION, is_name};

/// The unpublished version of a function, and the only version here.
pub const LATEST: &str = "$LATEST";

/// The longest function name, in characters: AWS's limit.
const NAME_MAX: usize = 64;

pub fn arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}")
}

pub fn qualified_arn(name: &str) -> String {
    format!("{}:{LATEST}", arn(name))
}

/// The function name in `reference`. The function need not exist.
pub fn resolve(reference: &str, qualifier: Option<&str>) -> Result<String, LambdaError> {
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
pub fn latest_not_found(name: &str) -> LambdaError {
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
    fn a_reference_names_a_function_in_every_form_and_only_its_latest_version() {
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:f";
        let long = "x".repeat(NAME_MAX + 1);
        let (missing, invalid, malformed) =
            ("ResourceNotFoundException", "InvalidParameterValueException", "ValidationException");
        for (reference, qualifier, expected) in [
            ("f", None, Ok("f")),
            ("f:$LATEST", Some(LATEST), Ok("f")),
            ("function:f", None, Ok("f")),
            ("000000000000:function:f:$LATEST", None, Ok("f")),
            (arn, Some(LATEST), Ok("f")),
            ("f:7", None, Err(missing)),
            ("f", Some("live"), Err(missing)),
            ("f:7", Some("8"), Err(invalid)),
            ("", None, Err(malformed)),
            ("é", None, Err(malformed)),
            (&long, None, Err(malformed)),
            ("arn:aws:lambda:us-east-1:111111111111:function:f", None, Err(malformed)),
            ("arn:aws:lambda:us-east-1:f", None, Err(malformed)),
            ("arn:aws:sqs:us-east-1:000000000000:f", None, Err(malformed)),
        ] {
            let resolved = resolve(reference, qualifier).map_err(|error| error.code());
            assert_eq!(resolved.as_deref(), expected.as_ref().map(|name| *name), "{reference}");
        }
    }
}
