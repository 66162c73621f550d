//! What people hold against a node: a label, pods that must not be disturbed, a program that says no.

use std::time::Duration;

use super::{Gate, HOLD, Known, PoolNode};
use crate::host::{Finished, Invocation, Runner};
use crate::node::NodePod;
use crate::node::drain::Selector;

/// A program of the user's that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments; no shell.
    pub argv: Vec<String>,
    /// How long it may take.
    pub limit: Duration,
}

/// Runs the program. Missing or too slow is neither yes nor no.
///
/// # Errors
/// Why there is no answer.
pub fn run_command(runner: &dyn Runner, command: &Command) -> Known<Finished> {
    let Command { argv, limit } = command.clone();
    runner
        .run(&Invocation { argv, time_limit: limit, changes_host: false })
        .map_err(|error| format!("ask gates.command: {:#}", anyhow::Error::from(error)))
}

pub(super) fn hold(own: &PoolNode) -> Gate {
    own.labels.get(HOLD).map_or(Gate::Open, |value| {
        Gate::closed(format!("node {} has the label {HOLD}={value}; who put it there takes it off", own.name))
    })
}

pub(super) fn pods(selectors: &[Selector], pods: &Known<Vec<NodePod>>) -> Gate {
    if selectors.is_empty() {
        return Gate::Open;
    }
    Gate::of(pods, |pods| {
        let is_in_the_way =
            |pod: &&NodePod| !pod.finished && selectors.iter().any(|selector| selector.matches(pod));
        let names: Vec<String> = pods.iter().filter(is_in_the_way).map(|pod| pod.key.to_string()).collect();
        if names.is_empty() {
            return Gate::Open;
        }
        Gate::closed(format!("pods that gates.pods names run here: {}", names.join(", ")))
    })
}

pub(super) fn command(ended: &Finished) -> Gate {
    let words = [&ended.stdout, &ended.stderr].into_iter().find_map(|output| first_line(output));
    let words = words.map(|words| format!(": {words}")).unwrap_or_default();
    match ended.code {
        Some(0) => Gate::Open,
        Some(code) => Gate::closed(format!("gates.command ended with exit code {code}{words}")),
        None => Gate::unknown(format!("a signal ended gates.command{words}")),
    }
}

fn first_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeRunner;

    fn asked(runner: &FakeRunner<'_>) -> Gate {
        let command = Command { argv: vec!["may-i".into(), "$(id)".into()], limit: Duration::from_secs(5) };
        Gate::of(&run_command(runner, &command), super::command)
    }

    #[test]
    fn zero_is_yes_and_anything_else_is_no_in_its_own_words() {
        let runner = FakeRunner::new().ends("may-i", 0, "", "");
        assert_eq!(asked(&runner), Gate::Open);
        assert_eq!(runner.calls()[0].argv, ["may-i", "$(id)"]);
        let gate = asked(&FakeRunner::new().ends("may-i", 2, "\n", "an alert is firing\nx\n"));
        let why = "gates.command ended with exit code 2: an alert is firing";
        assert!(matches!(&gate, Gate::Closed { why: found, .. } if found == why), "{gate:?}");
    }

    #[test]
    fn no_answer_is_neither() {
        let killed = Finished { code: None, stdout: Vec::new(), stderr: Vec::new() };
        let runners = [
            FakeRunner::new(),
            FakeRunner::new().hangs("may-i"),
            FakeRunner::new().on("may-i", move |_| Ok(killed.clone())),
        ];
        for runner in runners {
            assert!(matches!(asked(&runner), Gate::Unknown { .. }), "{:?}", asked(&runner));
        }
    }

    #[test]
    fn the_label_holds_whatever_its_value_is() {
        let labels = |value: &str| [(HOLD.to_owned(), value.to_owned())].into();
        let held = PoolNode { name: "n".into(), labels: labels("db-restore"), ..PoolNode::default() };
        assert!(matches!(hold(&held), Gate::Closed { why, .. } if why.contains("hold=db-restore")));
        assert!(matches!(hold(&PoolNode { labels: labels(""), ..held }), Gate::Closed { .. }));
        assert_eq!(hold(&PoolNode::default()), Gate::Open);
    }
}
