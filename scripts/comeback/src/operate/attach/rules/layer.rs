//! Takes the envelope off, by a layer.

use std::collections::BTreeMap;

use crate::{
    account::setup::{WRAPPER, WRAPPER_VARIABLE},
    operate::attach::rules::{
        facts::Facts,
        order::Order,
        refusal::{IMAGE, Refusal},
    },
};

/// The layers of a function, if they change, and its variables, so that it no longer receives envelopes.
pub type Layering = (Option<Vec<String>>, BTreeMap<String, String>);

pub fn layering(facts: &Facts, order: &Order) -> Result<Option<Layering>, Refusal> {
    /// Lambda's limit for one function.
    const LAYERS_MAX: usize = 5;
    let Some(layer) = &order.layer else { return Ok(None) };
    let function = &facts.function;
    let runtime = function.runtime.as_deref().unwrap_or(IMAGE);
    if function.runtime.is_none() || runtime.starts_with("provided") {
        return Err(Refusal::NoWrapper(runtime.to_owned()));
    }
    let wrapper = function.environment.get(WRAPPER_VARIABLE);
    if let Some(other) = wrapper.filter(|it| *it != WRAPPER) {
        return Err(Refusal::OtherWrapper(other.clone()));
    }
    let has_layer = function.layers.contains(layer);
    if !has_layer && function.layers.len() >= LAYERS_MAX {
        return Err(Refusal::TooManyLayers);
    }
    if let Some(architectures) = facts.layer.as_ref().and_then(|it| it.unfit(function)) {
        let (own, layer) = (function.architecture.clone(), layer.clone());
        return Err(Refusal::OtherArchitecture { own, layer, architectures });
    }
    let signer = facts.layer.as_ref().map(|layer| layer.signer.clone().unwrap_or_default());
    if let (Some(signer), Some(signers)) = (signer, &facts.signers)
        && !has_layer
        && !signers.contains(&signer)
    {
        return Err(Refusal::NotSigned { layer: layer.clone(), signers: signers.clone() });
    }
    if has_layer && wrapper.is_some() {
        return Ok(None);
    }
    let mut environment = function.environment.clone();
    environment.insert(WRAPPER_VARIABLE.to_owned(), WRAPPER.to_owned());
    let layers = function.layers.iter().chain([layer]).cloned();
    Ok(Some(((!has_layer).then(|| layers.collect()), environment)))
}
