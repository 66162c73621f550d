//! `resume`: goes on where a reboot or an interruption left off. It never begins a migration.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::args::{Choices, NoTree, wait};
use super::kubernetes::Cluster;
use super::output::{print, tell};
use super::session::{Session, require_root};
use super::{Exit, text};
use crate::config::Settings;
use crate::facts::systemd::{self, SystemdFacts};
use crate::host::notify::Notifier;
use crate::host::{Host, Interrupt, STATE_DIRECTORY};
use crate::migration::begin::{hindrance, reopen};
use crate::migration::decide::Ending;
use crate::migration::drive::Drive;
use crate::migration::effects::Effects;
use crate::migration::journal::Journal;
use crate::migration::lock::Lock;
use crate::migration::store::Store;
use crate::node::lock::gates::Rules;

/// Arguments of `resume`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    _no_tree: NoTree,
    /// Run by the unit at boot: stops asked for by a person stay
    #[arg(long, hide = true)]
    at_boot: bool,
    /// Wait this long for a lock on shutdown to go away (at most an hour)
    #[arg(long, value_name = "SECONDS", value_parser = wait)]
    reboot_wait: Option<Duration>,
}

pub(super) fn run(arguments: &Arguments, config: Option<&Path>) -> Result<Exit> {
    require_root("resume")?;
    let session = Session::new(None)?;
    let settings = session.settings(config, &Choices::default())?;
    let wait = arguments.reboot_wait.unwrap_or(settings.reboot_wait);
    // Looked at without the lock: a host without a migration is not touched, not even by a lock file.
    if Store::new(session.host().fs).load()?.is_none() {
        print("nothing to resume: there is no migration on this host\n")?;
        return Ok(Exit::Done);
    }
    let mut going = Going::prepare(&session, &settings, "resume", wait)?;
    let mut journal = going.journal()?;
    if !arguments.at_boot {
        reopen(session.host(), &mut journal)?;
    }
    going.at_boot = arguments.at_boot;
    going.run(journal)
}

/// A run over the journal with the lock held.
pub(super) struct Going<'a> {
    host: Host<'a>,
    pub(super) store: Store<'a>,
    systemd: SystemdFacts,
    reboot_wait: Duration,
    interrupt: &'a Interrupt,
    kubernetes: Cluster<'a>,
    rules: Rules,
    at_boot: bool,
    _lock: Lock,
}

impl<'a> Going<'a> {
    /// Takes the lock; the journal is read after it.
    pub(super) fn prepare(
        session: &'a Session,
        settings: &Settings,
        verb: &str,
        reboot_wait: Duration,
    ) -> Result<Self> {
        let kubernetes = Cluster::new(session, settings);
        let host = session.host();
        host.fs.create_directory(STATE_DIRECTORY.as_ref(), 0o700)?;
        let lock = Lock::take(host.fs, verb)?;
        let systemd = systemd::scan(host.fs);
        let (store, interrupt) = (Store::new(host.fs), session.interrupt());
        let rules = settings.fleet.rules();
        Ok(Self {
            host,
            store,
            systemd,
            reboot_wait,
            interrupt,
            kubernetes,
            rules,
            at_boot: false,
            _lock: lock,
        })
    }

    /// The journal, read with the lock held.
    pub(super) fn journal(&self) -> Result<Journal> {
        self.store.load()?.context("read the journal: it was there a moment ago, and someone removed it")
    }

    /// What forbids a way back from here, if anything does: asked before a word of it is written.
    pub(super) fn hindrance(&self, journal: &Journal) -> Result<Option<Ending>> {
        hindrance(self.host, &self.systemd, journal)
    }

    /// Drives on to the next stop. Only from here on a signal has to wait: a question before it can be left at once.
    pub(super) fn run(&self, mut journal: Journal) -> Result<Exit> {
        let effects = Effects { host: self.host, store: self.store, systemd: &self.systemd };
        let patience = Cell::new(self.reboot_wait);
        self.interrupt.listen().context("listen for SIGINT, SIGTERM and SIGHUP")?;
        let stop_asked = || self.interrupt.came();
        let drive = Drive {
            effects,
            kubernetes: &self.kubernetes,
            rules: &self.rules,
            patience,
            at_boot: self.at_boot,
            stop_asked: &stop_asked,
            tell: &tell_phase,
        };
        let ending = drive.run(&mut journal)?;
        notify(&text::ending(&ending));
        // What was done is done, whether anybody can read of it or not.
        if let Err(error) = print(&format!("{}\n", text::ending(&ending))) {
            log::warn!("{error:#}");
        }
        Ok(Exit::from(&ending))
    }
}

fn tell_phase(journal: &Journal) {
    let line = text::phase_line(journal);
    tell(&line);
    notify(&line);
    log::info!("{line}");
}

/// Tells systemd, if it listens. That it does not hear is no reason to stop.
fn notify(line: &str) {
    if let Ok(notifier) = Notifier::from_environment() {
        let _ = notifier.status(line);
    }
}
