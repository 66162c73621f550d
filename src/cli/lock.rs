//! `lock`: the slots that a fleet shares, for people.

use std::cell::RefCell;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use nix::unistd::{Uid, User, gethostname, getuid};
use serde_json::json;

use super::Exit;
use super::args::Choices;
use super::kubernetes::Cluster;
use super::output::{print, print_json, tell};
use super::session::Session;
use crate::config::fleet::{Fleet, Mode};
use crate::migration::service::Kubernetes as _;
use crate::node::ApiError;
use crate::node::lock::lease::{Forced, Holder, LeaseLock, Me, PoolStatus, Resumed, Settings};

/// Look at the lock that a fleet shares, free a slot, end a halt
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 done, or nothing to do · 2 no such slot, or no lock of slots is set · \
                        75 the lock is busy, does not answer, or was changed meanwhile: look at it again."
)]
pub(super) struct Lock {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say who holds which slot, what failed, and whether the fleet is halted
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Free a slot whose holder will not come back; who had it goes no further
    Release {
        /// Number of the slot, as `lock status` has it
        #[arg(long, value_name = "N")]
        slot: u32,
        /// Why; it is kept at the slot
        #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
        reason: String,
        #[command(flatten)]
        pool: Pool,
    },
    /// End a halt and forget the failures: nodes may start again
    Resume {
        #[command(flatten)]
        pool: Pool,
    },
}

/// Which pool.
#[derive(Debug, Args)]
struct Pool {
    /// The pool of the control-plane nodes, which go one at a time
    #[arg(long)]
    control_plane: bool,
}

/// Number of the shape of `lock status --json`.
const SCHEMA: u32 = 1;

pub(super) fn run(arguments: &Lock, config: Option<&Path>) -> Result<Exit> {
    let session = Session::new(None)?;
    let settings = session.settings(config, &Choices::default())?;
    if settings.fleet.mode != Mode::Lease {
        tell("lock.mode is not \"lease\": there are no slots to look at");
        return Ok(Exit::Usage);
    }
    let cluster = Cluster::new(&session, &settings);
    let slots = Slots { session: &session, cluster: &cluster, fleet: &settings.fleet };
    let done = match &arguments.what {
        What::Status { json } => slots.status(*json),
        What::Release { slot, reason, pool } => slots.release(*slot, reason, pool.control_plane),
        What::Resume { pool } => slots.resume(pool.control_plane),
    };
    match done {
        Err(error) if error.downcast_ref::<ApiError>().is_some_and(ApiError::may_pass) => {
            tell(&format!("{error:#}"));
            Ok(Exit::TryLater)
        }
        done => done,
    }
}

struct Slots<'a> {
    session: &'a Session,
    cluster: &'a Cluster<'a>,
    fleet: &'a Fleet,
}

impl Slots<'_> {
    fn status(&self, json: bool) -> Result<Exit> {
        let pools = [self.look(false)?, self.look(true)?];
        if json {
            print_json(&json!({"schema": SCHEMA, "pools": pools}))?;
        } else {
            print(&pools.map(|pool| pool.to_string()).concat())?;
        }
        Ok(Exit::Done)
    }

    fn look(&self, control_plane: bool) -> Result<PoolStatus> {
        self.ask(control_plane, |lock| lock.status())
    }

    fn release(&self, slot: u32, reason: &str, control_plane: bool) -> Result<Exit> {
        let pool = self.look(control_plane)?;
        let found = pool.slots.iter().find(|found| found.slot == slot);
        if let Some(found) = found {
            print(&format!("slot {slot} of pool {}: {}\n", pool.pool, found.words))?;
        }
        let seen = found.and_then(|found| found.holder.clone()).unwrap_or_default();
        let forced = self.ask(control_plane, |lock| lock.force(slot, &seen, &who(), reason))?;
        print(&format!("{forced}\n"))?;
        Ok(match forced {
            Forced::Freed | Forced::WasFree => Exit::Done,
            Forced::Changed(_) => Exit::TryLater,
            Forced::NoSuchSlot { .. } => Exit::Usage,
        })
    }

    fn resume(&self, control_plane: bool) -> Result<Exit> {
        match self.ask(control_plane, |lock| lock.resume(&who()))? {
            Resumed::WasNotHalted => print("nothing was halted, and no failure was counted\n")?,
            Resumed::Done(failures) => {
                let told: Vec<String> = failures.iter().map(|failure| format!("  {failure}\n")).collect();
                print(&format!("nodes may start again; these failures are forgotten:\n{}", told.concat()))?;
            }
        }
        Ok(Exit::Done)
    }

    fn ask<T>(
        &self,
        control_plane: bool,
        question: impl Fn(&LeaseLock<'_>) -> Result<T, ApiError>,
    ) -> Result<T> {
        let settings = &self.fleet.lease.for_node(control_plane);
        let (clock, me) = (self.session.host().clock, &nobody());
        let outcome = RefCell::new(None);
        self.cluster.connect_lock(self.fleet.kubeconfig.as_deref(), &mut |api| {
            outcome.replace(Some(question(&LeaseLock { api, clock, settings, me })));
        })?;
        let answer = outcome.take().ok_or_else(|| anyhow!("no client was made"))?;
        answer.with_context(|| context(settings))
    }
}

fn context(settings: &Settings) -> String {
    format!("the lock of pool {} in namespace {}", settings.pool, settings.namespace)
}

/// A person holds no slot.
fn nobody() -> Me {
    let holder = Holder { node_uid: String::new(), run: String::new(), boot: String::new() };
    Me { node: String::new(), holder }
}

/// Who does this, as it is kept at the slot.
fn who() -> String {
    let sudo = std::env::var("SUDO_USER").ok().filter(|user| !user.is_empty());
    let user = sudo.unwrap_or_else(|| name_of(getuid()));
    let host = gethostname().map(|host| host.to_string_lossy().into_owned());
    format!("{user} on {}", host.unwrap_or_else(|_| "an unknown host".to_owned()))
}

fn name_of(uid: Uid) -> String {
    let known = User::from_uid(uid).ok().flatten();
    known.map_or_else(|| format!("uid {uid}"), |user| user.name)
}
