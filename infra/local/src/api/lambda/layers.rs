//! The operations on layers.

use axum::{body::Bytes, extract::State, http::StatusCode};

use super::{
    Answer, Params, answer,
    deployment::{LOCAL_FOLDER, decode, unpack},
    parse,
    shapes::{CodeRequest, LayerRequest, layer_version},
};
use crate::{
    host::{code, unpacked::UnpackError},
    model::lambda::{error::LambdaError, layer::Content},
    shared::Shared,
};

pub(super) async fn publish(
    State(shared): State<Shared>,
    Params(name): Params<String>,
    body: Bytes,
) -> Answer {
    let request: LayerRequest = parse(&body)?;
    let content = prepare(&shared, request.content).await?;
    // A copy, so that if the layer is refused, its folder is not removed within the step.
    let published = shared.step(|cloud, now| {
        cloud.lambda.layers.publish(now, &name, &request.description, content.clone())
    })?;
    Ok(answer(StatusCode::CREATED, &layer_version(&published)))
}

pub(super) async fn get(
    State(shared): State<Shared>,
    Params((name, version)): Params<(String, usize)>,
) -> Answer {
    shared.look(|cloud, _| {
        let version = cloud.lambda.layers.version(&name, version)?;
        Ok(answer(StatusCode::OK, &layer_version(version)))
    })
}

/// A layer's content. A folder on this machine is copied, because a published version never changes.
async fn prepare(shared: &Shared, content: CodeRequest) -> Result<Content, LambdaError> {
    match content {
        CodeRequest { zip_file: Some(zip), .. } => {
            let bytes = decode(zip)?;
            unpack(shared, move |unpacked, _| {
                Ok::<_, UnpackError>(Content {
                    folder: unpacked.zip(&bytes)?.folder,
                    size: bytes.len() as u64,
                    sha256: code::sha256(&bytes),
                })
            })
            .await
        }
        CodeRequest { s3_bucket: Some(bucket), s3_key, .. } if bucket == LOCAL_FOLDER => {
            let folder =
                code::absolute(&s3_key.unwrap_or_default()).map_err(LambdaError::invalid)?;
            let folder = unpack(shared, move |unpacked, _| unpacked.merge(&[&folder])).await?;
            Ok(Content { folder, size: 0, sha256: String::new() })
        }
        _ => Err(LambdaError::invalid(format_args!(
            "content must be a ZipFile or a folder (S3Bucket={LOCAL_FOLDER}, S3Key=the folder)"
        ))),
    }
}
