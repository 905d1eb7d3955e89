//! Lambda and CloudWatch, as a port asks for them.

use std::borrow::Cow;

use comeback_core::{
    Timestamp,
    circuit::Minute,
    fault::{InvokeFault, classify, may_be_accepted},
};
use comeback_flow::ports::{CallFault, Functions, Invocation, Invoked};
use comeback_local_model::sqs::Outgoing;

use crate::{
    port::Port,
    reply::{Answer, Found, Reply},
    request::{Invoke, Origin, Request},
};

impl Functions for Port {
    async fn invoke(&self, invocation: Invocation<'_>) -> Invoked {
        let invoke = Invoke {
            target: invocation.function.to_owned(),
            message: Outgoing {
                body: invocation.payload.into(),
                trace_header: invocation.trace_header.map(str::to_owned),
                ..Outgoing::default()
            },
            tenant_id: invocation.tenant_id.map(Cow::into_owned),
            execution_name: invocation.execution_name,
            origin: Origin::of(invocation.trace_header),
        };
        let Reply { entries, found } = self.ask(Request::Invoke(invoke)).await;
        let answer = entries.into_iter().collect::<Answer>();
        let status = answer.as_ref().err().and_then(|refusal| refusal.status);
        let answer = answer.map_err(|refusal| InvokeFault {
            kind: classify(refusal.code, refusal.status, refusal.message(), refusal.retry_after),
            code: refusal.code.map(str::to_owned),
            message: refusal.message().to_owned(),
        });
        match (answer, found) {
            (Ok(()), Found::Accepted { request_id, unanswered }) => {
                Invoked { answer: Ok(Some(request_id)), unanswered }
            }
            (Ok(()), _) => Invoked { answer: Ok(None), unanswered: 0 },
            (Err(fault), found) => {
                let earlier = if let Found::Unanswered(earlier) = found { earlier } else { 0 };
                let unanswered =
                    earlier + u32::from(may_be_accepted(fault.code.as_deref(), status));
                Invoked { answer: Err(fault), unanswered }
            }
        }
    }

    async fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        _until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        let found = self.read(Request::Minutes { function: function.to_owned(), from }).await?;
        Ok(if let Found::Minutes(minutes) = found { minutes } else { Vec::new() })
    }
}
