//! What joins S3 and SQS: a bucket sends its notifications to queues.

use comeback_core::Timestamp;

use super::{
    Cloud,
    s3::{Notice, NotificationConfiguration, Object, Put, RequestIds, S3Error},
    sqs::Outgoing,
};

impl Cloud {
    /// Puts an object, and notifies the queues that the bucket names.
    pub fn put_object(
        &mut self,
        now: Timestamp,
        put: &Put<'_>,
        ids: &RequestIds,
    ) -> Result<Object, S3Error> {
        let (object, notices) = self.s3.put(now, put, ids)?;
        self.notify(now, notices, put.trace_header);
        Ok(object)
    }

    /// Replaces a bucket's notifications, and sends a test event to their queues.
    pub fn set_notifications(
        &mut self,
        now: Timestamp,
        bucket: &str,
        notifications: NotificationConfiguration,
        ids: &RequestIds,
    ) -> Result<(), S3Error> {
        let is_queue = |arn: &str| self.sqs.queue_by_arn(arn).is_some();
        let notices = self.s3.set_notifications(now, bucket, notifications, ids, is_queue)?;
        self.notify(now, notices, None);
        Ok(())
    }

    fn notify(&mut self, now: Timestamp, notices: Vec<Notice>, trace_header: Option<&str>) {
        for Notice { queue, body } in notices {
            let message = Outgoing {
                body: body.into(),
                trace_header: trace_header.map(str::to_owned),
                ..Outgoing::default()
            };
            // As on AWS, a notification is lost if its queue is gone, and nobody is told.
            let _ = self.sqs.send(now, &queue, message);
        }
    }
}
