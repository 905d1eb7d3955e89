import { aws_dynamodb as dynamodb, aws_iam as iam, RemovalPolicy } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { TABLE } from './contract';
import type { RetryHandler } from './handler';
import type { AsyncRetryProps } from './props';
import { tagPart } from './tags';

/**
 * What the handler does with the table. One that keeps only claims would need no reads, but `transparent`, which may be
 * set for one function at any time, must not wait for permissions.
 */
const LEDGER_ACTIONS = ['dynamodb:UpdateItem', 'dynamodb:DeleteItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'];

/** Denies to change or delete the records of operators' orders, whatever else is allowed. Only DynamoDB removes them. */
export function keepHistory(table: dynamodb.ITable): iam.PolicyStatement {
  return new iam.PolicyStatement({
    effect: iam.Effect.DENY,
    actions: [
      'dynamodb:UpdateItem',
      'dynamodb:DeleteItem',
      'dynamodb:BatchWriteItem',
      'dynamodb:PartiQLUpdate',
      'dynamodb:PartiQLDelete',
    ],
    resources: [table.tableArn],
    conditions: { 'ForAnyValue:StringLike': { 'dynamodb:LeadingKeys': [`${TABLE.history}*`] } },
  });
}

/** Creates the table of handled failures, and grants the handler its permissions on the table. */
export function createLedger(scope: Construct, handler: RetryHandler, props: AsyncRetryProps): dynamodb.ITable {
  const { encryptionKey, register, probe } = props;
  const table = new dynamodb.Table(scope, 'Ledger', {
    partitionKey: { name: TABLE.key, type: dynamodb.AttributeType.STRING },
    sortKey: { name: TABLE.sort_key, type: dynamodb.AttributeType.STRING },
    timeToLiveAttribute: TABLE.expiry,
    billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
    encryptionKey,
    // Its items expire within days, and no event is lost with them.
    removalPolicy: RemovalPolicy.DESTROY,
  });
  tagPart(scope, table, 'ledger');
  if (register) {
    // Lists waiting events by their function and due time. It is empty while nothing waits.
    table.addGlobalSecondaryIndex({
      indexName: TABLE.index,
      partitionKey: { name: TABLE.index_key, type: dynamodb.AttributeType.STRING },
      sortKey: { name: TABLE.index_sort_key, type: dynamodb.AttributeType.NUMBER },
    });
  }
  handler.allow(LEDGER_ACTIONS, table.tableArn);
  handler.addToRolePolicy(keepHistory(table));
  if (register && probe) handler.allow(['dynamodb:Query'], `${table.tableArn}/index/${TABLE.index}`);
  // CloudWatch doesn't support resource-level permissions.
  if (probe) handler.allow(['cloudwatch:GetMetricData'], '*');
  handler.addEnvironment('LEDGER_TABLE', table.tableName);
  return table;
}
