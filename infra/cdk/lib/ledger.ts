import { aws_dynamodb as dynamodb, RemovalPolicy } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import type { RetryHandler } from './handler';
import type { AsyncRetryProps } from './props';
import { tagPart } from './tags';

/** Lists waiting events by their function and due time. It is empty while nothing waits. */
export const WAITING_INDEX = 'waiting';

/** Creates the table of handled failures, and grants the handler its permissions on the table. */
export function createLedger(scope: Construct, handler: RetryHandler, props: AsyncRetryProps): dynamodb.ITable {
  const { encryptionKey, register, probe } = props;
  const table = new dynamodb.Table(scope, 'Ledger', {
    partitionKey: { name: 'id', type: dynamodb.AttributeType.STRING },
    timeToLiveAttribute: 'expires_at',
    billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
    encryptionKey,
    // Its items expire within days, and no event is lost with them.
    removalPolicy: RemovalPolicy.DESTROY,
  });
  tagPart(scope, table, 'ledger');
  if (register) {
    table.addGlobalSecondaryIndex({
      indexName: WAITING_INDEX,
      partitionKey: { name: 'target', type: dynamodb.AttributeType.STRING },
      sortKey: { name: 'due_at', type: dynamodb.AttributeType.NUMBER },
    });
  }
  const actions = ['dynamodb:PutItem', 'dynamodb:DeleteItem'];
  if (register || probe) actions.push('dynamodb:BatchGetItem');
  if (probe) actions.push('dynamodb:UpdateItem');
  handler.allow(actions, table.tableArn);
  if (register && probe) handler.allow(['dynamodb:Query'], `${table.tableArn}/index/${WAITING_INDEX}`);
  // CloudWatch doesn't support resource-level permissions.
  if (probe) handler.allow(['cloudwatch:GetMetricData'], '*');
  handler.addEnvironment('LEDGER_TABLE', table.tableName);
  return table;
}
