//! Layers: code and data that functions share. Each version of a layer is immutable.

use std::{
    any::Any,
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use comeback_core::Timestamp;

use super::error::LambdaError;
use crate::{ACCOUNT, REGION, is_name};

/// The most layers that a function may use: AWS's limit.
const LAYERS_MAX: usize = 5;

/// The longest layer name, in characters: AWS's limit.
const NAME_MAX: usize = 140;

/// A folder on this machine. An unpacked one is removed with its last copy.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// Removes the folder when it is dropped with the last copy. `None` for a folder that the user provided.
    _keeper: Option<Arc<dyn Any + Send + Sync>>,
}

impl Folder {
    /// A folder that `keeper` removes when it is dropped.
    pub fn kept(path: PathBuf, keeper: impl Any + Send + Sync) -> Self {
        Self { path, _keeper: Some(Arc::new(keeper)) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<P: Into<PathBuf>> From<P> for Folder {
    fn from(path: P) -> Self {
        Self { path: path.into(), _keeper: None }
    }
}

/// All layers by name. The versions of each are sorted by number.
#[derive(Default)]
pub struct Layers(BTreeMap<Arc<str>, Vec<Arc<LayerVersion>>>);

#[derive(Clone, Debug)]
pub struct Content {
    pub folder: Folder,
    pub size: u64,
    /// The SHA-256 of the layer's package in base64, or an empty string if there is no package.
    pub sha256: String,
}

#[derive(Clone, Debug)]
pub struct LayerVersion {
    pub name: Arc<str>,
    pub version: usize,
    pub description: String,
    pub created: Timestamp,
    pub content: Content,
}

impl LayerVersion {
    pub fn layer_arn(&self) -> String {
        layer_arn(&self.name)
    }

    pub fn arn(&self) -> String {
        format!("{}:{}", self.layer_arn(), self.version)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Layered {
    /// The layer versions. Files of later ones overwrite those of earlier ones.
    pub versions: Vec<Arc<LayerVersion>>,
    /// The folder that stands for `/opt`, with the merged content of all layers.
    pub opt: Option<Folder>,
}

impl Layers {
    pub fn publish(
        &mut self,
        now: Timestamp,
        reference: &str,
        description: &str,
        content: Content,
    ) -> Result<Arc<LayerVersion>, LambdaError> {
        let name: Arc<str> = name(reference)?.into();
        let versions = self.0.entry(Arc::clone(&name)).or_default();
        let published = Arc::new(LayerVersion {
            name,
            version: versions.len() + 1,
            description: description.to_owned(),
            created: now,
            content,
        });
        versions.push(Arc::clone(&published));
        Ok(published)
    }

    pub fn version(
        &self,
        reference: &str,
        version: usize,
    ) -> Result<&Arc<LayerVersion>, LambdaError> {
        self.find(name(reference)?, version).ok_or_else(|| {
            LambdaError::ResourceNotFound("The resource you requested does not exist.".to_owned())
        })
    }

    /// Resolves the ARNs in a function's configuration to layer versions.
    pub fn versions(&self, arns: &[String]) -> Result<Vec<Arc<LayerVersion>>, LambdaError> {
        let refuse = |message| Err(LambdaError::invalid(message));
        if arns.len() > LAYERS_MAX {
            return refuse(format!("Cannot reference more than {LAYERS_MAX} layers."));
        }
        let mut found: Vec<Arc<LayerVersion>> = Vec::new();
        for arn in arns {
            let Some(version) = self.by_arn(arn) else {
                return refuse(format!("Layer version {arn} does not exist."));
            };
            if let Some(other) = found.iter().find(|other| other.name == version.name) {
                return refuse(format!(
                    "Two different versions of the same layer are not allowed to be referenced in \
                     the same function. {} and {arn}.",
                    other.arn()
                ));
            }
            found.push(Arc::clone(version));
        }
        Ok(found)
    }

    fn by_arn(&self, arn: &str) -> Option<&Arc<LayerVersion>> {
        let (layer, version) = arn.rsplit_once(':')?;
        let name = layer.strip_prefix(&*layer_arn(""))?;
        self.find(name, version.parse().ok()?)
    }

    fn find(&self, name: &str, version: usize) -> Option<&Arc<LayerVersion>> {
        self.0.get(name)?.get(version.checked_sub(1)?)
    }
}

fn layer_arn(name: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:layer:{name}")
}

/// The layer name in a reference, which is a name or an ARN.
fn name(reference: &str) -> Result<&str, LambdaError> {
    let name = reference.strip_prefix(&*layer_arn("")).unwrap_or(reference);
    if is_name(name, NAME_MAX) {
        return Ok(name);
    }
    let rule = format!(
        "Member must be a layer's name of up to {NAME_MAX} letters, digits, hyphens and underscores, or \
         its ARN in region {REGION} and account {ACCOUNT}"
    );
    Err(LambdaError::constraint("layerName", reference, &rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:layer";

    fn publish(layers: &mut Layers, name: &str) -> Result<Arc<LayerVersion>, LambdaError> {
        let content = Content { folder: "/layer".into(), size: 0, sha256: String::new() };
        layers.publish(Timestamp::UNIX_EPOCH, name, "", content)
    }

    #[test]
    fn each_layer_has_its_own_version_numbers_and_invalid_layers_are_refused() {
        let mut layers = Layers::default();
        for name in ["a", "b", "c", "d", "e", "f"] {
            publish(&mut layers, name).unwrap();
        }
        let second = publish(&mut layers, &format!("{ARN}:a")).unwrap();
        assert_eq!((second.layer_arn(), second.arn()), (format!("{ARN}:a"), format!("{ARN}:a:2")));
        assert_eq!(layers.version("b", 1).unwrap().version, 1);
        for version in [0, 3] {
            let error = layers.version("a", version).unwrap_err();
            assert_eq!(error.code(), "ResourceNotFoundException", "{version}");
        }
        for (asked, message) in [
            (&["a:3"][..], format!("Layer version {ARN}:a:3 does not exist.")),
            (&["a:0"], format!("Layer version {ARN}:a:0 does not exist.")),
            (&["a"], format!("Layer version {ARN}:a does not exist.")),
            (
                &["a:1", "a:2"],
                format!(
                    "Two different versions of the same layer are not allowed to be referenced in \
                     the same function. {ARN}:a:1 and {ARN}:a:2."
                ),
            ),
            (
                &["a:1", "b:1", "c:1", "d:1", "e:1", "f:1"],
                "Cannot reference more than 5 layers.".to_owned(),
            ),
        ] {
            let arns: Vec<_> = asked.iter().map(|layer| format!("{ARN}:{layer}")).collect();
            assert_eq!(layers.versions(&arns).unwrap_err(), LambdaError::invalid(message));
        }
        for name in ["", "a b", "a:1", "arn:aws:lambda:eu-west-1:000000000000:layer:a"] {
            assert_eq!(publish(&mut layers, name).unwrap_err().code(), "ValidationException");
        }
    }
}
