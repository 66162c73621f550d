//! What a migration remembers: one JSON file, replaced as a whole.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::phase::{Phase, PhaseName};
use crate::boot::hierarchy::Hierarchy;
use crate::host::Attributes;
use crate::node::cordon;
use crate::node::drain::OnBlocked;
use crate::node::lock::{fleetlock, lease};

/// Number of the journal's shape. Journals of other programs or later versions are refused, never guessed.
pub const SCHEMA: u32 = 1;

/// The whole memory of one migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Identifier of this migration.
    pub txn: String,
    /// Version of the program that began it.
    pub version: String,
    /// Where it stands.
    pub state: Phase,
    /// What was asked for.
    pub options: Options,
    /// How the host was before.
    pub before: Before,
    /// Every file that is touched, in the order in which they are written.
    pub files: Vec<TouchedFile>,
    /// The node of the cluster that this host is; absent where it is none, or where somebody else drains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodePart>,
    /// Its turn in the fleet; absent where neither a lock nor a gate is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetPart>,
    /// What became of the kubelet's own refusal of cgroup v1; absent until v2 is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletPart>,
    /// True once content and attributes of all originals lie beside the journal.
    pub originals_saved: bool,
    /// Reboots asked for: at most one for each purpose.
    pub reboots: Vec<RebootRequest>,
    /// What it waits for, if it does.
    pub waiting: Option<String>,
    /// Every phase it has been in.
    pub history: Vec<Entry>,
}

/// What the person asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Leave the reboot to the person.
    pub no_reboot: bool,
    /// Stop when this phase is reached.
    pub until: Option<PhaseName>,
    /// Blockers accepted by id.
    pub accepted: Vec<String>,
    /// The node needs no drain, or someone else drained it.
    #[serde(default)]
    pub no_drain: bool,
    /// How it is drained.
    #[serde(default)]
    pub drain: DrainOptions,
}

/// How a node is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainOptions {
    /// For the whole drain.
    pub time_limit_seconds: u64,
    /// What is done about pods that do not go in that time.
    pub on_blocked: OnBlocked,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self { time_limit_seconds: 1800, on_blocked: OnBlocked::Abort }
    }
}

/// What was done to the Node object, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePart {
    /// The Node object as it was.
    pub before: cordon::Before,
    /// True from right before our first patch on.
    pub cordon_begun: bool,
    /// True once it is cordoned.
    pub cordoned: bool,
    /// True once no pod is left that had to go.
    pub drained: bool,
    /// True once our cordon is off, or was found to be somebody else's.
    pub released: bool,
    /// Why the cordon was left on, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_cordoned: Option<String>,
}

/// A run's turn in its fleet. The lock is that of the settings when the run began: what was taken there is given back
/// there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetPart {
    /// Which lock.
    pub lock: FleetLock,
    /// Whose credential asks for it, if that is another one than the node's.
    pub kubeconfig: Option<PathBuf>,
    /// The node of the cluster that this host is; absent where it is none.
    pub node: Option<FleetNode>,
    /// What is ours of the lock.
    pub turn: Turn,
    /// The boot after the migration's reboot in which the slot got a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_in: Option<String>,
    /// True once the fleet knows that this run needs a person.
    #[serde(default)]
    pub counted: bool,
}

/// Which lock a run asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetLock {
    /// None: gates alone.
    GatesAlone,
    /// Slots that are Lease objects, in the pool that this node belongs to.
    Lease(lease::Settings),
    /// A FleetLock server.
    Fleetlock(fleetlock::Settings),
}

/// The Node object, as the lock needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetNode {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// What is ours of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// Nothing: not asked yet, lost, or told to wait.
    Waiting,
    /// It was about to be asked for, and the answer is not known: something may be ours.
    Asked,
    /// It is our turn, with this slot where the lock has slots.
    Ours(Option<lease::Hold>),
    /// Given back.
    Over,
}

/// What is done about the kubelet's own refusal of cgroup v1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeletPart {
    /// The unit of systemd that runs it; absent where nothing has to change.
    pub unit: Option<String>,
    /// What is left as it is, why, and which way is left to a person.
    pub notes: Vec<String>,
    /// The restart with the new files, from right before it on.
    pub restart: Option<KubeletRestart>,
    /// True once it was seen to be up after that.
    pub proven: bool,
    /// Why the new files are put back, if they are.
    pub given_up: Option<String>,
    /// True once it was restarted with the old files.
    pub put_back: bool,
}

/// A restart of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeletRestart {
    /// The boot it happened in.
    pub boot_id: String,
    /// When it was asked for.
    pub at: jiff::Timestamp,
    /// True once systemd had done it.
    pub done: bool,
    /// Containers that ran before it.
    pub containers: Vec<RunningContainer>,
}

/// A container that ran, and is to run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningContainer {
    /// `namespace/name` of its pod.
    pub pod: String,
    /// UID of that.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// The runtime's id.
    pub id: String,
}

/// The host before the first change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Hierarchy by statfs.
    pub hierarchy: Hierarchy,
    /// Controllers that could be used.
    pub controllers: Vec<String>,
    /// Kernel command line of that boot.
    pub cmdline: String,
}

/// How a touched file comes to its new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Edited by us: its new content is known beforehand.
    Edited,
    /// Written by the boot loader's own tool from the edited ones.
    Generated,
    /// The kubelet's, edited by us once v2 is proven.
    Kubelet,
}

/// One file, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TouchedFile {
    /// Host path.
    pub path: PathBuf,
    /// Edited or generated.
    pub kind: Kind,
    /// SHA-256 of the original; absent if there was no such file.
    pub before: Option<String>,
    /// SHA-256 of our content; absent until a generated file was generated.
    pub after: Option<String>,
    /// Attributes of the original.
    pub attributes: Option<Attributes>,
    /// Text of the symbolic link, if the path is one.
    pub link_target: Option<PathBuf>,
    /// True from right before our first write on. What we never touched is never put back.
    pub touched: bool,
    /// True if its directory was not there and we make it: then it goes again with the file, if it is empty.
    #[serde(default)]
    pub made_directory: bool,
    /// SHA-256 of what the tool generated from the restored files, where the original could not be put back
    /// because someone else had generated the file anew in between.
    pub regenerated: Option<String>,
    /// True once somebody else was seen to have generated the file since its original was saved (a kernel update):
    /// the original lacks what they added. On the way back the file is generated anew instead.
    #[serde(default)]
    pub original_outdated: bool,
}

/// Why a reboot was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Into cgroup v2.
    Migrate,
    /// Back to where the host was.
    Rollback,
}

/// One reboot that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebootRequest {
    /// What for.
    pub purpose: Purpose,
    /// The boot it was asked in.
    pub boot_id: String,
    /// When.
    pub at: jiff::Timestamp,
}

/// One line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When.
    pub at: jiff::Timestamp,
    /// In which boot.
    pub boot_id: String,
    /// The phase that began.
    pub phase: PhaseName,
    /// Its reason, if it has one.
    pub why: Option<String>,
}

/// A way that [`super::phase::TRANSITIONS`] does not have.
#[derive(Debug, thiserror::Error)]
#[error(
    "change phase from {from} to {to}: there is no such way (a fault in the program; nothing was changed)"
)]
pub struct IllegalTransition {
    /// Where it stands.
    pub from: PhaseName,
    /// Where it was to go.
    pub to: PhaseName,
}

impl Journal {
    /// Moves to another phase and writes it into the history.
    ///
    /// # Errors
    /// [`IllegalTransition`] if the table has no such way; the journal is unchanged then.
    pub fn advance(
        &mut self,
        to: Phase,
        at: jiff::Timestamp,
        boot_id: &str,
    ) -> Result<(), IllegalTransition> {
        let (from, name) = (self.state.name(), to.name());
        if !from.leads_to(name) {
            return Err(IllegalTransition { from, to: name });
        }
        let why = to.why().map(str::to_owned);
        self.history.push(Entry { at, boot_id: boot_id.to_owned(), phase: name, why });
        self.state = to;
        self.waiting = None;
        Ok(())
    }

    /// Writes down that a reboot is about to be asked for; asking again in the same boot replaces the line.
    pub fn note_reboot(&mut self, purpose: Purpose, boot_id: &str, at: jiff::Timestamp) {
        self.reboots.retain(|request| request.purpose != purpose);
        self.reboots.push(RebootRequest { purpose, boot_id: boot_id.to_owned(), at });
    }

    /// Takes the line back: the reboot was refused.
    pub fn forget_reboot(&mut self, purpose: Purpose) {
        self.reboots.retain(|request| request.purpose != purpose);
    }

    /// The reboot asked for with this purpose, if there was one.
    #[must_use]
    pub fn reboot(&self, purpose: Purpose) -> Option<&RebootRequest> {
        self.reboots.iter().find(|request| request.purpose == purpose)
    }

    /// The node, if a cordon of ours may be on it.
    #[must_use]
    pub fn cordoned_node(&self) -> Option<&NodePart> {
        self.node.as_ref().filter(|node| node.cordon_begun && !node.released)
    }

    /// True if a turn is wanted, and it is not ours.
    #[must_use]
    pub fn waits_for_turn(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| !matches!(fleet.turn, Turn::Ours(_)))
    }

    /// The turn, if something of the lock may be ours.
    #[must_use]
    pub fn turn_to_end(&self) -> Option<&FleetPart> {
        self.fleet.as_ref().filter(|fleet| matches!(fleet.turn, Turn::Asked | Turn::Ours(_)))
    }

    /// True if the slot that we hold has had no sign of life in this boot, which is a later one than the first.
    #[must_use]
    pub fn is_silent_in(&self, boot_id: &str) -> bool {
        let is_silent = |fleet: &FleetPart| {
            matches!(fleet.turn, Turn::Ours(Some(_))) && fleet.back_in.as_deref() != Some(boot_id)
        };
        boot_id != self.before.boot_id && self.fleet.as_ref().is_some_and(is_silent)
    }

    /// True if the run has changed something that the fleet could feel.
    #[must_use]
    pub fn has_touched(&self) -> bool {
        let is_cordoned = self.node.as_ref().is_some_and(|node| node.cordon_begun);
        is_cordoned || !self.reboots.is_empty() || self.files.iter().any(|file| file.touched)
    }

    /// Place of an original or a new content beside the journal.
    #[must_use]
    pub fn saved_path(&self, index: usize, what: &str) -> PathBuf {
        super::state_path(&self.txn).join(format!("{index:02}.{what}"))
    }
}
