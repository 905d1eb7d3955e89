import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  aws_dynamodb as dynamodb,
  aws_iam as iam,
  aws_kinesis as kinesis,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_lambda_destinations as destinations,
  aws_lambda_event_sources as sources,
  aws_s3 as s3,
  aws_sqs as sqs,
  Duration,
} from 'aws-cdk-lib';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { aliasOf, errorOf, functionIn, idOf, TestStack, twoStacks } from './app';

/** A stack with a function, which is attached, and a stream. */
class StreamStack extends TestStack {
  public readonly clicks = new kinesis.Stream(this, 'Clicks');
  public readonly orders: lambda.Function;

  constructor(props: AsyncRetryProps = { records: true }, ofOrders: Partial<lambda.FunctionProps> = {}) {
    super(props);
    this.orders = this.function('Orders', ofOrders);
    this.retry.attach(this.orders);
  }

  /** Maps the stream to the function. */
  public mapped(props: Partial<sources.KinesisEventSourceProps> = {}): this {
    const startingPosition = lambda.StartingPosition.LATEST;
    this.orders.addEventSource(new sources.KinesisEventSource(this.clicks, { startingPosition, ...props }));
    return this;
  }

  public attached(): this {
    this.retry.attachStream(this.orders, this.clicks.streamArn);
    return this;
  }

  public get mapping(): any {
    return this.only('AWS::Lambda::EventSourceMapping', /^Orders/);
  }

  public get config(): any {
    return this.only('AWS::Lambda::EventInvokeConfig', /^Orders/);
  }
}

test('a batch goes to the bucket, and its notice to the retry queue of the function only', () => {
  const stack = new StreamStack().mapped().attached();
  stack.retry.attach(stack.function('Others'));
  assert.equal(idOf(stack.mapping.DestinationConfig.OnFailure.Destination), 'RetryRecordsBucket');
  const { EventPattern, Targets, Name } = stack.only('AWS::Events::Rule');
  const [{ prefix }] = EventPattern.detail.object.key;
  const { 'Fn::Join': parts } = prefix;
  assert.deepEqual([parts[1][0], parts[1][2]], ['aws/lambda/', '/']);
  assert.match(parts[1][1].Ref, /^OrdersKinesisEventSource/);
  assert.equal(idOf(Targets[0].Arn), 'RetryRetryQueueOrders');
  assert.match(JSON.stringify(Name), /"comeback-[0-9a-f]{8}"/);

  const { NotificationConfiguration, LifecycleConfiguration } = stack.only('AWS::S3::Bucket');
  // Notices of S3 itself are about functions' own failures, so no batch has two.
  const prefixes = NotificationConfiguration.QueueConfigurations.map(({ Filter }: any) =>
    JSON.stringify(Filter.S3Key.Rules[0].Value),
  );
  assert.ok(prefixes.every((each: string) => each.includes('aws/lambda/async/')));
  assert.deepEqual(NotificationConfiguration.EventBridgeConfiguration, { EventBridgeEnabled: true });
  assert.equal(LifecycleConfiguration.Rules[0].Prefix, 'aws/lambda/');
  assert.match(JSON.stringify(stack.statementsOf(/HandlerRole/)), /"s3:GetObject"[^}]+}[^}]+"\/aws\/lambda\/\*"/);
  assert.deepEqual(stack.actionsOf(/OrdersServiceRole/, /Bucket/), [['s3:PutObject', 's3:ListBucket']]);
  // Its own failures still go to its queue, and no success goes anywhere.
  assert.deepEqual(Object.keys(stack.config.DestinationConfig), ['OnFailure']);
  assert.equal(idOf(stack.config.DestinationConfig.OnFailure.Destination), 'RetryRetryQueueOrders');
  assert.deepEqual(stack.warnings, []);
});

test('without streams, nothing else is read, kept or sent', () => {
  const stack = new StreamStack();
  const { NotificationConfiguration, LifecycleConfiguration } = stack.only('AWS::S3::Bucket');
  assert.equal(NotificationConfiguration.EventBridgeConfiguration, undefined);
  assert.equal(LifecycleConfiguration.Rules[0].Prefix, 'aws/lambda/async/');
  assert.match(JSON.stringify(stack.statementsOf(/HandlerRole/)), /"\/aws\/lambda\/async\/\*"/);
});

test('a batch is halved and tried three times, unless the mapping says otherwise', () => {
  for (const [props, expected] of [
    [{}, [true, 2]],
    [{ bisectBatchOnError: false, retryAttempts: 0 }, [false, 0]],
    [{ maxRecordAge: Duration.minutes(5) }, [true, undefined]],
  ] as const) {
    const { mapping } = new StreamStack().mapped(props).attached();
    assert.deepEqual([mapping.BisectBatchOnFunctionError, mapping.MaximumRetryAttempts], expected);
  }
});

test('a function that says which records have failed sends its successes, too', () => {
  const stack = new StreamStack().mapped({ reportBatchItemFailures: true }).attached();
  assert.equal(idOf(stack.config.DestinationConfig.OnSuccess.Destination), 'RetryRetryQueueOrders');
});

test('a stream of DynamoDB and each topic of a Kafka cluster come back, too', () => {
  const stack = new StreamStack();
  const table = new dynamodb.Table(stack, 'Table', {
    partitionKey: { name: 'id', type: dynamodb.AttributeType.STRING },
    stream: dynamodb.StreamViewType.NEW_IMAGE,
  });
  const startingPosition = lambda.StartingPosition.TRIM_HORIZON;
  stack.orders.addEventSource(new sources.DynamoEventSource(table, { startingPosition }));
  const clusterArn = 'arn:aws:kafka:us-east-1:111111111111:cluster/shop/1';
  for (const topic of ['placed', 'paid'])
    stack.orders.addEventSource(new sources.ManagedKafkaEventSource({ clusterArn, topic, startingPosition }));
  stack.retry.attachStream(stack.orders, table.tableStreamArn ?? '');
  stack.retry.attachStream(stack.orders, clusterArn);
  const mappings = stack.all('AWS::Lambda::EventSourceMapping').filter(({ StartingPosition }) => StartingPosition);
  assert.deepEqual(
    mappings.map(({ Topics, DestinationConfig, MaximumRetryAttempts }) => [
      Topics?.[0],
      idOf(DestinationConfig.OnFailure.Destination),
      MaximumRetryAttempts,
    ]),
    [
      [undefined, 'RetryRecordsBucket', 2],
      // Lambda limits the attempts of these itself.
      ['placed', 'RetryRecordsBucket', undefined],
      ['paid', 'RetryRecordsBucket', undefined],
    ],
  );
  stack.template.resourceCountIs('AWS::Events::Rule', 3);
});

test('the bucket and the keys may be the user’s', () => {
  const stack = new TestStack();
  const key = new kms.Key(stack, 'Key');
  const recordBucket = new s3.Bucket(stack, 'Mine', { eventBridgeEnabled: true, encryptionKey: key });
  const retry = new AsyncRetry(stack, 'Own', { recordBucket, encryptionKey: key });
  const orders = stack.function('Orders');
  const clicks = new kinesis.Stream(stack, 'Clicks');
  const startingPosition = lambda.StartingPosition.LATEST;
  orders.addEventSource(new sources.KinesisEventSource(clicks, { startingPosition }));
  retry.attach(orders);
  retry.attachStream(orders, clicks.streamArn);
  assert.equal(
    idOf(stack.only('AWS::Lambda::EventSourceMapping', /^Orders/).DestinationConfig.OnFailure.Destination),
    'Mine',
  );
  const { KeyPolicy } = stack.only('AWS::KMS::Key');
  const services = KeyPolicy.Statement.map(({ Principal }: any) => Principal.Service).filter(Boolean);
  assert.deepEqual(services, ['events.amazonaws.com']);
});

test('warnings say what can’t be set or known', () => {
  const stack = new TestStack({ records: true });
  const role = iam.Role.fromRoleArn(stack, 'Role', 'arn:aws:iam::111111111111:role/orders', { mutable: false });
  const live = aliasOf(stack.function('Orders', { role }));
  const clicks = new kinesis.Stream(stack, 'Clicks');
  new lambda.EventSourceMapping(stack, 'Mapping', {
    target: live,
    eventSourceArn: clicks.streamArn,
    startingPosition: lambda.StartingPosition.LATEST,
  });
  stack.retry.attach(live);
  stack.retry.attachStream(live, clicks.streamArn);
  assert.match(stack.warnings.join(), /Test\/Mapping\/Resource: its role can't be changed here, and Lambda puts/);
  assert.match(stack.warnings.join(), /names its function without alias or version, so the retry may run \$LATEST/);
});

test('a stream that can’t come back is refused with all reasons', () => {
  const mine = (stack: StreamStack) => new sources.S3OnFailureDestination(new s3.Bucket(stack, 'Other'));
  const onSuccess = (queue: sqs.IQueue) => new destinations.SqsDestination(queue);
  const refusals: [() => StreamStack, RegExp][] = [
    [() => new StreamStack(), /the function must have a mapping of it, got none/],
    [() => new StreamStack({}).mapped(), /set records to true, or recordBucket: no other destination/],
    [
      () => {
        const stack = new StreamStack();
        return stack.mapped({ onFailure: mine(stack) });
      },
      /KinesisEventSource.* has an on-failure destination already/,
    ],
    [() => new StreamStack().mapped({ retryAttempts: -1 }), /must limit its retryAttempts or its maxRecordAge/],
    [
      () => {
        const other = sqs.Queue.fromQueueArn(new TestStack(), 'Q', 'arn:aws:sqs:us-east-1:111111111111:done');
        const stack = new StreamStack({ records: true }, { onSuccess: onSuccess(other) });
        return stack.mapped({ reportBatchItemFailures: true });
      },
      /it must have no on-success destination: its retry queue takes its place/,
    ],
  ];
  for (const [made, expected] of refusals)
    assert.match(
      errorOf(() => made().attached()),
      expected,
    );

  const stack = new StreamStack().mapped();
  const queue = new sqs.Queue(stack, 'Queue');
  stack.orders.addEventSource(new sources.SqsEventSource(queue));
  assert.match(
    errorOf(() => stack.retry.attachStream(stack.orders, queue.queueArn)),
    /must be of a Kinesis stream, a DynamoDB stream or a Kafka topic: attachQueue is for queues/,
  );
  const other = stack.function('Other');
  other.addEventSource(
    new sources.KinesisEventSource(stack.clicks, { startingPosition: lambda.StartingPosition.LATEST }),
  );
  assert.match(
    errorOf(() => stack.retry.attachStream(other, stack.clicks.streamArn)),
    /attach the function first, because its batches come back as its events/,
  );

  const { functions, retries } = twoStacks();
  const far = functionIn(functions, 'Orders');
  const clicks = new kinesis.Stream(functions, 'Clicks');
  far.addEventSource(new sources.KinesisEventSource(clicks, { startingPosition: lambda.StartingPosition.LATEST }));
  const retry = new AsyncRetry(retries, 'Retry', { records: true });
  retry.attach(far);
  assert.match(
    errorOf(() => retry.attachStream(far, clicks.streamArn)),
    /it must be in the stack of its retries, Retries, and is in Functions/,
  );
});
