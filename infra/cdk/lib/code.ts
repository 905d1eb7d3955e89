import { existsSync } from 'node:fs';
import * as path from 'node:path';
import { aws_lambda as lambda } from 'aws-cdk-lib';

/** The folder with the code that this package ships, by architecture. */
const ASSETS = path.join(__dirname, '..', '..', 'assets');

/** The file that `scripts/package` builds for each architecture. */
const ZIP = 'bootstrap.zip';

/**
 * The code of the handler, shipped in this package or built by the `scripts/package` of a checkout. Folders are named
 * after Lambda's architectures.
 */
export function handlerCode(architecture: lambda.Architecture, source?: string): lambda.Code {
  const zip = path.join(architecture.name, ZIP);
  if (source !== undefined) {
    const build = [path.join(source, 'scripts', 'package'), '--arch', architecture.name, 'handler'];
    if (!existsSync(build[0])) {
      throw new Error(`source must be the folder of a checkout of Comeback: ${build[0]} does not exist`);
    }
    return lambda.Code.fromCustomCommand(path.join(source, 'dist', zip), build);
  }
  const shipped = path.join(ASSETS, zip);
  if (!existsSync(shipped)) {
    throw new Error(
      `${shipped} does not exist: this copy of comeback-cdk was not packed by its scripts/cdk. Use one that was, or ` +
        'set source',
    );
  }
  return lambda.Code.fromAsset(shipped);
}
