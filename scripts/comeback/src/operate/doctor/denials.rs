//! What IAM's policy simulator denies a role.

use aws_sdk_iam::types::{EvaluationResult, PolicyEvaluationDecisionType};

use crate::{
    account::fault::Answer,
    aws::{Aws, fault},
};

/// The actions that a role may not perform, each with its resource.
pub type Denied = Vec<(String, String)>;

/// Which of these actions on these resources a role may not perform, according to IAM's policy simulator.
pub async fn denied(
    aws: &Aws,
    role: &str,
    actions: &[&str],
    resources: Vec<String>,
) -> Answer<Denied> {
    if resources.is_empty() {
        return Ok(Denied::new());
    }
    let call = aws.iam.simulate_principal_policy().policy_source_arn(role);
    let actions = actions.iter().map(|&action| action.to_owned()).collect();
    let call = call.set_action_names(Some(actions));
    let call = call.set_resource_arns(Some(resources.clone()));
    let results = call.into_paginator().items().send().collect::<Result<Vec<_>, _>>();
    let results = aws.call(results).await.map_err(fault("iam:SimulatePrincipalPolicy", role))?;
    Ok(results.iter().flat_map(|result| lacking(result, &resources)).collect())
}

/// The resources for which a result of the simulation is a denial. A denial for lack of a condition key's value counts
/// as allowed. A result is either about one resource, or about all, with a decision for each.
fn lacking(result: &EvaluationResult, asked: &[String]) -> Denied {
    let is_no = |decision: &PolicyEvaluationDecisionType, missing: &[String]| {
        *decision != PolicyEvaluationDecisionType::Allowed && missing.is_empty()
    };
    let specific = result.resource_specific_results();
    let named = result.eval_resource_name().unwrap_or_default();
    let resources: Vec<_> = if !specific.is_empty() {
        let no = specific
            .iter()
            .filter(|it| is_no(&it.eval_resource_decision, it.missing_context_values()));
        no.map(|it| it.eval_resource_name.clone()).collect()
    } else if !is_no(&result.eval_decision, result.missing_context_values()) {
        Vec::new()
    } else if asked.iter().any(|resource| resource == named) {
        vec![named.to_owned()]
    } else {
        asked.to_vec()
    };
    resources.into_iter().map(|resource| (result.eval_action_name.clone(), resource)).collect()
}

pub fn actions(denied: Denied) -> Vec<String> {
    denied.into_iter().map(|(action, _)| action).collect()
}

#[cfg(test)]
mod tests {
    use aws_sdk_iam::types::{
        PolicyEvaluationDecisionType::{Allowed, ExplicitDeny, ImplicitDeny},
        ResourceSpecificResult,
    };

    use super::*;

    #[test]
    fn a_simulation_result_is_about_one_resource_or_about_each() {
        let asked = ["a", "b"].map(str::to_owned);
        let result = |decision| {
            EvaluationResult::builder().eval_action_name("sqs:SendMessage").eval_decision(decision)
        };
        let specific = |resource: &str, decision| {
            let result = ResourceSpecificResult::builder().eval_resource_name(resource);
            result.eval_resource_decision(decision).build().unwrap()
        };
        let of_each = result(ImplicitDeny)
            .eval_resource_name("*")
            .resource_specific_results(specific("a", Allowed))
            .resource_specific_results(specific("b", ExplicitDeny));
        for (result, expected) in [
            (result(Allowed).eval_resource_name("a"), [].as_slice()),
            (result(ImplicitDeny).eval_resource_name("a"), &["a"]),
            (result(ExplicitDeny).eval_resource_name("*"), &["a", "b"]),
            (result(ImplicitDeny).missing_context_values("aws:SourceVpc"), &[]),
            (of_each, &["b"]),
        ] {
            let denied = lacking(&result.build().unwrap(), &asked);
            let on: Vec<_> = denied.iter().map(|(_, resource)| resource.as_str()).collect();
            assert_eq!(on, expected, "{denied:?}");
        }
    }
}
