//! cgroup2-migrate: takes a node from cgroup v1 to cgroup v2, proves it, or leaves the node as it was.
//!
//! # The map
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | one file a verb; no logic |
//! | [`migration`] | the only writer: journal, phases, `decide` (pure), `drive` (one step at a time), `effects` |
//! | [`plan`] | facts and findings → steps and diffs; data, no effects |
//! | [`verify`] | what runs: proofs about the running node, and the answer of `detect` |
//! | [`checks`] | one rule a file: facts → findings; no reading |
//! | [`facts`] | what is so: read through the seams, judged nowhere there |
//! | [`config`] | fragments → merged → validated settings |
//! | [`node`] | the Kubernetes API: cordon, drain, uncordon, lock; the seam to the API server |
//! | [`kubelet`] | the kubelet's configuration: layers, owner, the smallest edit |
//! | [`boot`] | boot configuration as text: kernel arguments, what systemd makes of them, GRUB |
//! | [`report`] | findings |
//! | [`host`] | the seams to the machine: files, programs, time, mounts, systemd; real ones and fakes |
//!
//! Each imports only from those below it.
//!
//! # The life of one run
//! `migrate` scans the [`facts`], lets the [`checks`] judge them and makes a [`plan`]. With a blocker it ends
//! there. Otherwise it writes a journal and drives: look at the host, decide the next step from what is
//! remembered and what is seen, write the intent down, act, look again; until the host goes down for its one
//! reboot. After the boot the unit `cgroup2-migrate-resume.service` runs `resume`, which reads the journal,
//! looks at the host, and goes on in the same loop: proof, done; or the way back.

pub mod boot;
pub mod checks;
pub mod cli;
pub mod config;
pub mod facts;
pub mod host;
pub mod kubelet;
pub mod migration;
pub mod node;
pub mod plan;
pub mod report;
pub mod verify;
