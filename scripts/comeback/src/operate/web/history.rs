//! The page of the orders that operators have given. It is read when it is opened.

use maud::{Markup, html};

use super::{html::Untrusted, live::Live};

use crate::{
    account::handlers::only,
    aws::reads::functions,
    failure::Failure,
    operate::{
        history::{HEADER, History, SINCE, read, row, rules::State},
        web::live::Cloud,
    },
    text::counted,
};

/// The most orders on the page.
const SHOWN_MAX: usize = 200;

pub async fn list(live: &Live) -> Result<Markup, Failure> {
    let Cloud { aws, handler, .. } = live.cloud()?;
    let handler = only(&functions(aws).await?, handler.as_deref())?;
    let history = read(aws, &handler, SINCE, || !live.is_ending()).await?;
    Ok(shown(&history))
}

fn shown(history: &History) -> Markup {
    let History { handler, missing, is_whole, orders, .. } = history;
    let shown = orders.len().min(SHOWN_MAX);
    html! {
        @if let Some(missing) = missing {
            p.notice { (missing) }
        } @else {
            p {
                (counted(orders.len() as u64, "order")) " to " (handler) " in the last seven days."
            }
            @if shown > 0 {
                div.wide {
                    table.groups {
                        thead { tr { @for name in HEADER { th scope="col" { (name) } } } }
                        tbody {
                            @for past in orders.iter().take(SHOWN_MAX) {
                                tr {
                                    @for cell in row(past).iter().take(HEADER.len() - 1) {
                                        td { (Untrusted(cell)) }
                                    }
                                    td { span class=(class(past.state)) { (Untrusted(&past.ending())) } }
                                }
                            }
                        }
                    }
                }
            }
            @if shown < orders.len() || !is_whole {
                p.faint { "Older orders are left out: " code { "comeback history --limit N" } " has them." }
            }
        }
    }
}

fn class(state: State) -> &'static str {
    match state {
        State::Done => "state good",
        State::Running => "state busy",
        State::Stopped | State::Incomplete => "state waits",
        State::Failed | State::Interrupted | State::Unreadable => "state bad",
    }
}
