//! The operations on code: those that change a function's processes, and those on layers.
//!
//! They prepare the function's code ([`crate::host::code`]) and layers, change the model, and then end the idle
//! processes of the old version.

use std::{fmt::Display, sync::Arc};

use axum::{body::Bytes, extract::State, http::StatusCode, response::IntoResponse as _};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{
    Answer, Function, Params, answer, parse,
    shapes::{
        CodeRequest, FunctionRequest, ImageConfig, LayerRequest, function_configuration,
        image_config, layer_version,
    },
};
use crate::{
    host::{
        code,
        program::program,
        unpacked::{UnpackError, Unpacked},
    },
    inherited::Inherited,
    model::lambda::{
        error::LambdaError,
        function::{Code, Configuration, Program, Settings},
        layer::{Content, Layered},
        name::resolve,
    },
    shared::Shared,
};

/// In place of an S3 bucket, means a folder on this machine.
const LOCAL_FOLDER: &str = "local-folder";

/// In place of an image, means a command on this machine.
const LOCAL_COMMAND: &str = "local-command";

pub(super) async fn create(State(shared): State<Shared>, body: Bytes) -> Answer {
    let request: FunctionRequest = parse(&body)?;
    let name = resolve(request.function_name.as_deref().unwrap_or_default(), None)?;
    let mut settings = request.settings;
    let code =
        prepare(&shared, request.code, request.image_config, settings.runtime.clone()).await?;
    if matches!(code.program, Program::Handler(..)) && settings.handler.is_none() {
        return Err(LambdaError::invalid(
            "Runtime and Handler are mandatory parameters for functions created with deployment \
             packages.",
        )
        .into());
    }
    settings.layers = merge_layers(&shared, request.layers.as_deref()).await?;
    // A copy, so that if the code is refused, its folder is not removed within the step.
    let created = shared
        .step(|cloud, now| cloud.lambda.create_function(now, &name, code.clone(), settings))?;
    Ok(answer(StatusCode::CREATED, &function_configuration(&created)))
}

pub(super) async fn delete(Function { shared, name, .. }: Function) -> Answer {
    let _old = configuration(&shared, &name)?;
    shared.step(|cloud, _| cloud.lambda.delete_function(&name))?;
    shared.0.host.retire(&name);
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn update_configuration(
    Function { shared, name, .. }: Function,
    body: Bytes,
) -> Answer {
    let old = configuration(&shared, &name)?;
    let request: FunctionRequest = parse(&body)?;
    let mut settings = request.settings;
    let code = match (request.image_config, settings.runtime.clone()) {
        (Some(config), _) => Some(command_code(&shared, config)?),
        (None, Some(runtime)) => other_runtime(&shared, &old.code, runtime).await?,
        (None, None) => None,
    };
    settings.layers = merge_layers(&shared, request.layers.as_deref()).await?;
    update(&shared, &name, settings, code)
}

pub(super) async fn update_code(Function { shared, name, .. }: Function, body: Bytes) -> Answer {
    let old = configuration(&shared, &name)?;
    let code = prepare(&shared, parse(&body)?, image_config(&old), old.runtime.clone()).await?;
    update(&shared, &name, Settings::default(), Some(code))
}

/// The configuration before a change. The caller must keep it until after the step, because the folder of the code is
/// removed with the last copy.
fn configuration(shared: &Shared, name: &str) -> Result<Arc<Configuration>, LambdaError> {
    shared.look(|cloud, _| cloud.lambda.configuration(name).cloned())
}

fn update(shared: &Shared, name: &str, settings: Settings, code: Option<Code>) -> Answer {
    let updated = shared.step(|cloud, now| cloud.lambda.update(now, name, settings, code))?;
    shared.0.host.retire(name);
    Ok(answer(StatusCode::OK, &function_configuration(&updated)))
}

async fn prepare(
    shared: &Shared,
    code: CodeRequest,
    image_config: Option<ImageConfig>,
    runtime: Option<String>,
) -> Result<Code, LambdaError> {
    match code {
        CodeRequest { zip_file: Some(zip), .. } => {
            let bytes = decode(zip)?;
            unpack(shared, move |unpacked, inherited| {
                code::zip(unpacked, &bytes, inherited, runtime.as_deref())
            })
            .await
        }
        CodeRequest { s3_bucket: Some(bucket), s3_key, .. } if bucket == LOCAL_FOLDER => {
            unpack(shared, move |_, inherited| {
                code::folder(s3_key.as_deref().unwrap_or_default(), inherited, runtime.as_deref())
            })
            .await
        }
        CodeRequest { image_uri: Some(image), .. } if image == LOCAL_COMMAND => {
            command_code(shared, image_config.unwrap_or_default())
        }
        _ => Err(LambdaError::invalid(format_args!(
            "code must be a ZipFile, a folder (S3Bucket={LOCAL_FOLDER}, S3Key=the folder) or a \
             command (ImageUri={LOCAL_COMMAND}, with the command in ImageConfig)"
        ))),
    }
}

async fn merge_layers(
    shared: &Shared,
    arns: Option<&[String]>,
) -> Result<Option<Layered>, LambdaError> {
    let Some(arns) = arns else {
        return Ok(None);
    };
    let versions = shared.look(|cloud, _| cloud.lambda.layers.versions(arns))?;
    if versions.is_empty() {
        return Ok(Some(Layered::default()));
    }
    let layers = versions.clone();
    let opt = unpack(shared, move |unpacked, _| {
        let folders: Vec<_> = layers.iter().map(|layer| layer.content.folder.path()).collect();
        unpacked.merge(&folders)
    });
    Ok(Some(Layered { opt: Some(opt.await?), versions }))
}

fn decode(zip: String) -> Result<Vec<u8>, LambdaError> {
    BASE64
        .decode(zip)
        .map_err(|error| LambdaError::Serialization(format!("ZipFile must be base64: {error}")))
}

async fn other_runtime(
    shared: &Shared,
    code: &Code,
    runtime: String,
) -> Result<Option<Code>, LambdaError> {
    let Some(folder) = code.program.folder().cloned() else { return Ok(None) };
    let named = folder.path().display().to_string();
    let unpacked =
        unpack(shared, move |_, inherited| program(inherited, Some(&runtime), folder, named));
    Ok(Some(Code { program: unpacked.await?, ..code.clone() }))
}

async fn unpack<T: Send + 'static, E: Display + Send + 'static>(
    shared: &Shared,
    unpack: impl FnOnce(&Unpacked, &Inherited) -> Result<T, E> + Send + 'static,
) -> Result<T, LambdaError> {
    let shared = shared.clone();
    let unpacking =
        tokio::task::spawn_blocking(move || unpack(&shared.0.unpacked, &shared.0.host.inherited));
    unpacking.await.map_err(LambdaError::invalid)?.map_err(LambdaError::invalid)
}

fn command_code(shared: &Shared, config: ImageConfig) -> Result<Code, LambdaError> {
    let mut command = config.entry_point.unwrap_or_default();
    command.extend(config.command.unwrap_or_default());
    code::command(command, config.working_directory.as_deref(), &shared.0.host.inherited)
        .map_err(LambdaError::invalid)
}

pub(super) async fn publish_layer(
    State(shared): State<Shared>,
    Params(name): Params<String>,
    body: Bytes,
) -> Answer {
    let request: LayerRequest = parse(&body)?;
    let content = prepare_layer(&shared, request.content).await?;
    // A copy, so that if the layer is refused, its folder is not removed within the step.
    let published = shared.step(|cloud, now| {
        cloud.lambda.layers.publish(now, &name, &request.description, content.clone())
    })?;
    Ok(answer(StatusCode::CREATED, &layer_version(&published)))
}

pub(super) async fn get_layer(
    State(shared): State<Shared>,
    Params((name, version)): Params<(String, usize)>,
) -> Answer {
    shared.look(|cloud, _| {
        let version = cloud.lambda.layers.version(&name, version)?;
        Ok(answer(StatusCode::OK, &layer_version(version)))
    })
}

/// A layer's content. A folder on this machine is copied, because a published version never changes.
async fn prepare_layer(shared: &Shared, content: CodeRequest) -> Result<Content, LambdaError> {
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
