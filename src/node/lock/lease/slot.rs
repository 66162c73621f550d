//! One slot: a Lease object, read and written.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::holder::Holder;
use super::{Me, Settings};

/// On a held slot: the name of the holder's node. Its UID, which counts, is in the holder's identity.
pub const NODE: &str = "cgroup2-migrate.io/node";
/// On a held slot: `held` or `rebooting`.
pub const SLOT_PHASE: &str = "cgroup2-migrate.io/phase";
/// On a slot whose holder is silent on purpose: when it means to be back. Nothing is freed by it.
pub const EXPECTED_BACK_BY: &str = "cgroup2-migrate.io/expected-back-by";
/// On a slot that a person freed: who, when and why.
pub const RELEASED: &str = "cgroup2-migrate.io/released";

/// One slot, as it was read.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) lease: Lease,
}

/// Who is in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Occupant {
    Nobody,
    Run(Holder),
    /// Text that we did not write.
    Foreign(String),
}

impl Slot {
    /// The slot as one of these objects, or as it is before it was ever taken.
    pub(super) fn find(settings: &Settings, index: u32, leases: &[Lease]) -> Self {
        let name = settings.lease_name(index);
        let found = leases.iter().find(|lease| lease.metadata.name.as_ref() == Some(&name)).cloned();
        let lease = found.unwrap_or_else(|| {
            let mut lease = Lease::default();
            lease.metadata.name = Some(name);
            lease.metadata.namespace = Some(settings.namespace.clone());
            lease
        });
        Self { index, lease }
    }

    pub(super) fn name(&self) -> &str {
        self.lease.metadata.name.as_deref().unwrap_or_default()
    }

    fn spec(&self) -> Option<&LeaseSpec> {
        self.lease.spec.as_ref()
    }

    /// The holder's identity as it stands there; empty if there is none.
    pub(super) fn identity(&self) -> &str {
        self.spec().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    pub(super) fn occupant(&self) -> Occupant {
        match self.identity() {
            "" => Occupant::Nobody,
            text => Holder::parse(text).map_or_else(|| Occupant::Foreign(text.to_owned()), Occupant::Run),
        }
    }

    pub(super) fn holder(&self) -> Option<Holder> {
        Holder::parse(self.identity())
    }

    /// One more with each that takes the slot: whoever has an older number has lost it.
    pub(super) fn fencing(&self) -> i32 {
        self.spec().and_then(|spec| spec.lease_transitions).unwrap_or_default()
    }

    pub(super) fn since(&self) -> Option<jiff::Timestamp> {
        self.spec()?.acquire_time.as_ref().map(|time| time.0)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.lease.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<String>) {
        let annotations = self.lease.metadata.annotations.get_or_insert_default();
        match value {
            Some(value) => annotations.insert(key.to_owned(), value),
            None => annotations.remove(key),
        };
    }

    /// Makes it ours, with the next fencing number.
    pub(super) fn take(&mut self, me: &Me, settings: &Settings, now: jiff::Timestamp) {
        let fencing = self.fencing().saturating_add(1);
        let spec = self.lease.spec.get_or_insert_default();
        spec.holder_identity = Some(me.holder.to_string());
        spec.lease_transitions = Some(fencing);
        spec.acquire_time = Some(MicroTime(now));
        spec.renew_time = Some(MicroTime(now));
        spec.lease_duration_seconds = i32::try_from(settings.duration.as_secs()).ok();
        self.annotate(NODE, Some(me.node.clone()));
        self.annotate(SLOT_PHASE, Some("held".to_owned()));
        self.annotate(EXPECTED_BACK_BY, None);
        self.annotate(RELEASED, None);
    }

    /// A sign of life, with what comes next.
    pub(super) fn renew(
        &mut self,
        me: &Me,
        phase: &str,
        back_by: Option<jiff::Timestamp>,
        now: jiff::Timestamp,
    ) {
        let spec = self.lease.spec.get_or_insert_default();
        spec.holder_identity = Some(me.holder.to_string());
        spec.renew_time = Some(MicroTime(now));
        self.annotate(SLOT_PHASE, Some(phase.to_owned()));
        self.annotate(EXPECTED_BACK_BY, back_by.map(|time| time.to_string()));
    }

    /// Frees it. The fencing number stays, so that the next one is higher.
    pub(super) fn free(&mut self) {
        if let Some(spec) = self.lease.spec.as_mut() {
            spec.holder_identity = None;
            spec.acquire_time = None;
            spec.renew_time = None;
        }
        [NODE, SLOT_PHASE, EXPECTED_BACK_BY].into_iter().for_each(|key| self.annotate(key, None));
    }
}
