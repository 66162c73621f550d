//! The loop: what happened goes in, what is to be done goes out.

use std::time::Duration;

use super::port::Port;
use super::progress::Progress;
use super::{Drain, Move, Outcome, Policy};

/// How often progress is told while nothing changes.
const TOLD_EACH: Duration = Duration::from_secs(10);

/// Is told how a drain goes.
pub trait Listener {
    /// Where it stands: on each change that counts, and each ten seconds.
    fn progress(&mut self, progress: &Progress);
}

/// Drains to the end.
pub fn run(policy: Policy, port: &mut dyn Port, listener: &mut dyn Listener) -> Outcome {
    let mut drain = Drain::new(policy);
    let mut teller = Teller { listener, last: None, due: Duration::ZERO };
    loop {
        let elapsed = port.elapsed();
        let next = drain.next(elapsed);
        teller.tell(drain.progress(elapsed));
        match next {
            Move::End(outcome) => return outcome,
            Move::Send(requests) => requests.into_iter().for_each(|request| port.send(request)),
            Move::Wait(limit) => {
                let happening = port.next(limit.min(teller.due));
                let (elapsed, now) = (port.elapsed(), port.now());
                drain.take(happening, elapsed, now);
            }
        }
    }
}

/// Keeps a listener from hearing the same thing over and over.
struct Teller<'a> {
    listener: &'a mut dyn Listener,
    last: Option<Progress>,
    due: Duration,
}

impl Teller<'_> {
    fn tell(&mut self, progress: Progress) {
        let elapsed = Duration::from_secs(progress.seconds);
        let is_news = self
            .last
            .as_ref()
            .is_none_or(|last| last.gone != progress.gone || !told(last).eq(told(&progress)));
        if is_news || elapsed >= self.due {
            self.due = elapsed + TOLD_EACH;
            self.listener.progress(&progress);
            self.last = Some(progress);
        }
    }
}

/// What stands in the way. One more pod behind the same thing is no news: a budget holds dozens within a second.
fn told(progress: &Progress) -> impl Iterator<Item = (&str, &str)> {
    progress.blocked.iter().map(|blocked| (blocked.by.as_str(), blocked.detail.as_str()))
}
