import { aws_lambda as lambda, Stack } from 'aws-cdk-lib';
import { codeOf } from './code';
import { Faults } from './faults';
import { Target } from './target';

/** The variable that makes Lambda start a wrapper before a managed runtime. Lambda supports one wrapper. */
const WRAPPER_VARIABLE = 'AWS_LAMBDA_EXEC_WRAPPER';

/** The layer's wrapper. */
const WRAPPER = '/opt/comeback-exec';

/** Lambda's limit for one function. */
const LAYERS_MAX = 5;

/** Reports why the layer can't remove the envelopes for a function. */
export function checkLayer(target: Target, faults: Faults): void {
  const { resource } = target;
  if (resource === undefined) return;
  if (resource.packageType === 'Image') {
    faults.note(
      "layer must be off for a container image, which has no layers: use transparent, which needs a ledger, or put the layer's extensions/comeback into the image as its bootstrap",
    );
  } else if (resource.runtime?.startsWith('provided')) {
    faults.note(
      `layer must be off for the runtime ${resource.runtime}, which supports no wrapper: use transparent, which needs a ledger, or put the layer's extensions/comeback into the code as its bootstrap`,
    );
  }
  const layers = layersOf(resource);
  const existing = existingLayer(target.base);
  const isThere = existing !== undefined && hasLayer(resource, existing);
  if (!isThere && layers.length >= LAYERS_MAX)
    faults.note(
      `it already has ${layers.length} layers, and can't have another: use transparent, which needs a ledger`,
    );
  const wrapper = environmentOf(resource)[WRAPPER_VARIABLE];
  if (wrapper !== undefined && wrapper !== WRAPPER) {
    faults.note(
      `layer needs ${WRAPPER_VARIABLE}, which is ${JSON.stringify(wrapper)}: use transparent, which needs a ledger, or set it to a script of your own that runs both, with ${WRAPPER} last, and add the layer by hand`,
    );
  }
}

/**
 * Adds the layer that removes the envelope before the function's runtime sees it. Returns whether that is possible: the
 * app can't add a layer to an imported function.
 */
export function addLayer(target: Target, source?: string): boolean {
  const { base } = target;
  if (!('addLayers' in base)) return false;
  const own = base as lambda.Function;
  const layer = layerFor(own, source);
  // Another alias or version of the function may have added the layer already.
  if (target.resource === undefined || !hasLayer(target.resource, layer)) own.addLayers(layer);
  own.addEnvironment(WRAPPER_VARIABLE, WRAPPER);
  return true;
}

/**
 * The layer for a function. Each stack with functions has one for each architecture. A layer in the stack of the
 * retries would make the two stacks depend on each other.
 */
function layerFor(target: lambda.Function, source?: string): lambda.ILayerVersion {
  return (
    existingLayer(target) ??
    new lambda.LayerVersion(Stack.of(target), layerId(target), {
      description: "Takes Comeback's envelope off retried events",
      code: codeOf('layer', target.architecture, source),
      compatibleArchitectures: [target.architecture],
    })
  );
}

function existingLayer(target: lambda.IFunction): lambda.LayerVersion | undefined {
  return Stack.of(target).node.tryFindChild(layerId(target)) as lambda.LayerVersion | undefined;
}

function layerId(target: lambda.IFunction): string {
  return `ComebackEnvelopeProxy-${target.architecture.name}`;
}

function hasLayer(resource: lambda.CfnFunction, layer: lambda.ILayerVersion): boolean {
  const arn = JSON.stringify(Stack.of(resource).resolve(layer.layerVersionArn));
  return layersOf(resource).some((each) => JSON.stringify(each) === arn);
}

function layersOf(resource: lambda.CfnFunction): unknown[] {
  return Stack.of(resource).resolve(resource.layers) ?? [];
}

function environmentOf(resource: lambda.CfnFunction): { [name: string]: unknown } {
  const environment = Stack.of(resource).resolve(resource.environment);
  return environment?.variables ?? {};
}
