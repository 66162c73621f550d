//! A Debian machine in a temp directory: real files, a made-up `grub-mkconfig`, and a boot that follows the
//! generated menu as GRUB and systemd would.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

#[path = "cluster.rs"]
pub(crate) mod cluster;
#[path = "tree.rs"]
mod tree;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::config::fleet::{Fleet, Mode};
use cgroup2_migrate::config::{self, Settings};
use cgroup2_migrate::facts::{self, Facts, Scan, grub, systemd};
use cgroup2_migrate::host::fake::{FakeClock, FakeInit, FakeRunner, FaultyFs, Fuse};
use cgroup2_migrate::host::fake_mounts::FakeMounts;
use cgroup2_migrate::host::{
    Clock, Finished, Host, Inhibitor, Init, InitError, Invocation, RootedFs, RunError, Space,
};
use cgroup2_migrate::migration::begin::{begin, hindrance, reopen, take_up, turn_back, warning};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::drive::Drive;
use cgroup2_migrate::migration::effects::Effects;
use cgroup2_migrate::migration::journal::{Journal, Options};
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::migration::service::Kubernetes;
use cgroup2_migrate::migration::store::Store;
use cgroup2_migrate::node::drain::Progress;
use cgroup2_migrate::node::lock;
use cgroup2_migrate::node::preflight::{self, Preflight};
use cgroup2_migrate::node::{ApiError, NodeApi};
use cgroup2_migrate::plan::{self, Plan};
use cgroup2_migrate::report::Finding;
use cluster::Cluster;
use tree::{collect, copy, menu, scratch};

const HYBRID: &str = "/sys/fs/cgroup tmpfs 0x01021994\n/sys/fs/cgroup/unified cgroup2 0x63677270\n";
const LEGACY: &str = "/sys/fs/cgroup tmpfs 0x01021994\n/sys/fs/cgroup/systemd cgroup 0x0027e0eb\n";
const UNIFIED: &str = "/sys/fs/cgroup cgroup2 0x63677270\n";
const V1_MOUNTS: &str = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
    33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
    34 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
    35 30 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
    36 30 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

const RESUME_UNIT: &str = include_str!("../../systemd/cgroup2-migrate-resume.service");

/// Name of the Node object.
pub(crate) const NODE: &str = "n-alder";

/// One way to run the program over the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Migrate,
    Resume,
    ResumeAtBoot,
    Rollback,
}

pub(crate) struct Sim {
    root: tempfile::TempDir,
    boots: Cell<u32>,
    hierarchy: Cell<Hierarchy>,
    /// Every boot ends here, whatever the kernel line says: an initramfs mounted it.
    pub(crate) stuck_at: Cell<Option<Hierarchy>>,
    /// What a broken `grub-mkconfig` writes instead.
    pub(crate) mkconfig_writes: RefCell<Option<String>>,
    /// So many times a new kernel is installed, and its script writes the menu, while `grub-mkconfig` runs.
    pub(crate) kernel_updates: Cell<u32>,
    /// Shared by all attempts, so that a test can set locks and refusals.
    pub(crate) init_refuses: RefCell<Option<String>>,
    /// Locks on shutdown.
    pub(crate) locks: RefCell<Vec<Inhibitor>>,
    /// Locks that someone takes right before logind refuses.
    pub(crate) late_locks: RefCell<Vec<Inhibitor>>,
    /// Locks that someone takes while the host is judged once more, after the program saw none.
    pub(crate) locks_meanwhile: RefCell<Vec<Inhibitor>>,
    /// While the program waits, the locks go and their holder writes this file with this text.
    pub(crate) while_waiting: RefCell<Option<(String, String)>>,
    /// Lines of the mount table beside those of the hierarchy.
    pub(crate) more_mounts: RefCell<String>,
    /// Room on every file system, if it is not as it is.
    pub(crate) space: Cell<Option<Space>>,
    /// A signal comes with the effect of this number.
    pub(crate) signal_at: Cell<usize>,
    /// A signal comes while the program sleeps.
    pub(crate) signal_in_sleep: Cell<bool>,
    /// A signal comes while `grub-mkconfig` runs, which is killed.
    pub(crate) signal_kills_tool: Cell<bool>,
    /// Paths at which PID 1 has something else: the program runs in another mount namespace.
    pub(crate) elsewhere: RefCell<BTreeSet<PathBuf>>,
    /// The API server, where the machine is a node.
    pub(crate) cluster: Option<Cluster>,
    /// Name of its Node object, or why none was found to be this machine.
    pub(crate) node: RefCell<Result<String, String>>,
    /// What else happens in the cluster when the node has booted.
    pub(crate) on_boot: RefCell<Option<OnBoot>>,
    /// What forbade the last migration.
    pub(crate) blockers: RefCell<Vec<Finding>>,
    /// How the fleet takes turns.
    pub(crate) fleet: RefCell<Fleet>,
    /// So much time has passed since the machine was made: each run's clock begins where the last one ended.
    pub(crate) passed: Cell<Duration>,
    /// The kubelet does not start once it is told to refuse cgroup v1, on v2 neither.
    pub(crate) kubelet_is_broken: Cell<bool>,
    /// Once it is told to refuse cgroup v1 it runs, and reports no node.
    pub(crate) kubelet_is_mute: Cell<bool>,
    /// A restart of the kubelet restarts what runs.
    pub(crate) restart_takes_pods_along: Cell<bool>,
    /// After a boot the API server knows containers of the boot before for a while.
    pub(crate) pods_start_late: Cell<bool>,
    /// The kubelet runs.
    pub(crate) kubelet_is_up: Cell<bool>,
    /// What `plan` accepts.
    pub(crate) accepted: Vec<String>,
    /// systemd restarts nothing.
    pub(crate) restart_refused: Cell<bool>,
    /// Units that were restarted, over all attempts.
    pub(crate) restarts: RefCell<Vec<String>>,
    /// What the drain told.
    pub(crate) told: RefCell<Vec<String>>,
    /// When the API server's clock stood at the reboots.
    pub(crate) rebooted_at: RefCell<Vec<Duration>>,
    /// A reboot is under way.
    pub(crate) going_down: Cell<bool>,
    /// Boot ids of the first boots; later ones are numbered.
    boot_ids: RefCell<Vec<String>>,
    pub(crate) options: RefCell<Options>,
    /// What systemd says of the unit that resumes.
    pub(crate) resume_unit_state: RefCell<String>,
    /// What systemd says of `reboot.target`.
    pub(crate) reboot_target_state: RefCell<String>,
    /// No tool of GRUB is installed.
    pub(crate) tools_missing: Cell<bool>,
    /// Reboots that logind accepted, over all attempts.
    pub(crate) reboots: Cell<usize>,
    /// Effects of the last attempt.
    pub(crate) effects: RefCell<Vec<String>>,
    /// Effects of all attempts.
    pub(crate) all_effects: RefCell<Vec<String>>,
}

type OnBoot = Box<dyn Fn(&Cluster)>;

impl Sim {
    /// A machine whose settings file has this text, booted from the menu made of it.
    pub(crate) fn new(defaults: &str) -> Self {
        let sim = Self::empty();
        sim.put("etc/default/grub", defaults);
        sim.power_on(Hierarchy::Unified);
        sim
    }

    /// A machine made of a tree, and what that lacks. Its systemd does `default` without any argument.
    pub(crate) fn over(tree: &Path, default: Hierarchy, boot_ids: Vec<String>) -> Self {
        let sim = Self::empty();
        copy(tree, sim.root.path());
        sim.boot_ids.replace(boot_ids);
        sim.power_on(default);
        sim
    }

    fn empty() -> Self {
        Self {
            root: scratch(),
            boots: Cell::new(0),
            hierarchy: Cell::new(Hierarchy::Unknown),
            stuck_at: Cell::new(None),
            mkconfig_writes: RefCell::new(None),
            kernel_updates: Cell::new(0),
            init_refuses: RefCell::new(None),
            locks: RefCell::default(),
            late_locks: RefCell::default(),
            locks_meanwhile: RefCell::default(),
            while_waiting: RefCell::default(),
            more_mounts: RefCell::default(),
            space: Cell::new(None),
            signal_at: Cell::new(usize::MAX),
            signal_in_sleep: Cell::new(false),
            signal_kills_tool: Cell::new(false),
            elsewhere: RefCell::default(),
            cluster: None,
            node: RefCell::new(Ok(NODE.to_owned())),
            on_boot: RefCell::default(),
            blockers: RefCell::default(),
            fleet: RefCell::default(),
            passed: Cell::default(),
            kubelet_is_broken: Cell::new(false),
            kubelet_is_mute: Cell::new(false),
            restart_takes_pods_along: Cell::new(false),
            pods_start_late: Cell::new(false),
            kubelet_is_up: Cell::new(true),
            accepted: Vec::new(),
            restart_refused: Cell::new(false),
            restarts: RefCell::default(),
            told: RefCell::default(),
            rebooted_at: RefCell::default(),
            going_down: Cell::new(false),
            boot_ids: RefCell::default(),
            options: RefCell::new(Options::default()),
            resume_unit_state: RefCell::new("static".to_owned()),
            reboot_target_state: RefCell::default(),
            tools_missing: Cell::new(false),
            reboots: Cell::new(0),
            effects: RefCell::new(Vec::new()),
            all_effects: RefCell::new(Vec::new()),
        }
    }

    fn power_on(&self, default: Hierarchy) {
        let library = format!("default-hierarchy={default}\0");
        for (path, text) in [
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n"),
            ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
            ("usr/lib/systemd/libsystemd-shared-252.so", &library),
            ("proc/1/comm", "systemd\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-32-amd64\n"),
            ("boot/grub/custom-note", ""),
            ("usr/bin/cgroup2-migrate", ""),
            ("usr/lib/systemd/system/cgroup2-migrate-resume.service", RESUME_UNIT),
            ("usr/lib/systemd/system/multi-user.target.wants/cgroup2-migrate-resume.service", RESUME_UNIT),
        ] {
            self.put_if_absent(path, text);
        }
        self.install_kernel("6.1.0-32-amd64");
        if !self.path("boot/grub/grub.cfg").exists() {
            self.put("boot/grub/grub.cfg", &self.menu());
        }
        self.complete_menu();
        self.boot();
    }

    /// A menu of a case is often cut down to what it is about: it gets a timeout, and the files it names.
    fn complete_menu(&self) {
        let text = self.text("boot/grub/grub.cfg");
        if !text.contains("timeout") {
            self.put("boot/grub/grub.cfg", &format!("set timeout=5\n{text}"));
        }
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        for line in lines.filter(|line| matches!(line.first(), Some(&"linux" | &"initrd"))) {
            self.put_if_absent(line[1], "");
        }
    }

    pub(crate) fn install_kernel(&self, release: &str) {
        self.put(&format!("boot/vmlinuz-{release}"), "");
        self.put(&format!("boot/initrd.img-{release}"), "");
    }

    /// What a working `grub-mkconfig` makes of settings and kernels.
    pub(crate) fn menu(&self) -> String {
        let names = std::fs::read_dir(self.path("boot")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut kernels: Vec<String> =
            names.filter_map(|name| Some(name.to_str()?.strip_prefix("vmlinuz-")?.to_owned())).collect();
        kernels.sort_by(|one, other| other.cmp(one));
        menu(&self.settings_line(), &kernels)
            .replace("root=UUID=1 ", &format!("root={} ", self.running_root()))
    }

    /// What `grub-mkconfig` finds mounted on `/`.
    fn running_root(&self) -> String {
        let line = std::fs::read_to_string(self.path("proc/cmdline")).unwrap_or_default();
        let root = line.split_whitespace().find_map(|word| word.strip_prefix("root="));
        root.unwrap_or("UUID=1").to_owned()
    }

    fn put_if_absent(&self, path: &str, text: &str) {
        if !self.path(path).exists() {
            self.put(path, text);
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test's own tree")]
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// What is compared before and after: every file and directory that boots the machine.
    pub(crate) fn boot_files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        collect(&self.path("etc"), &mut files);
        collect(&self.path("boot"), &mut files);
        files.sort();
        files
    }

    pub(crate) fn hierarchy(&self) -> Hierarchy {
        self.hierarchy.get()
    }

    pub(crate) fn boots(&self) -> u32 {
        self.boots.get()
    }

    /// What the shell makes of the settings, as `grub-mkconfig` has it read them.
    fn settings_line(&self) -> String {
        const SCRIPT: &str = r#". ./grub; for file in ./grub.d/*.cfg; do if [ -e "$file" ]; then . "$file"; fi; done
            printf '%s %s' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT""#;
        #[expect(clippy::disallowed_methods, reason = "the test's own shell")]
        let shell = std::process::Command::new("sh")
            .args(["-c", SCRIPT])
            .current_dir(self.path("etc/default"))
            .output();
        String::from_utf8(shell.unwrap().stdout).unwrap()
    }

    /// Power on: GRUB's menu decides the kernel line, systemd the hierarchy.
    pub(crate) fn boot(&self) {
        let fs = RootedFs::new(self.root.path());
        let systemd = systemd::scan(&fs);
        let entry = grub::scan(&fs).next.unwrap();
        let line = entry.linux.unwrap().arguments;
        let decided = systemd.decide(&line).hierarchy;
        self.hierarchy.set(self.stuck_at.get().unwrap_or(decided));
        self.boots.set(self.boots.get() + 1);
        self.put("proc/cmdline", &format!("{line}\n"));
        self.put("proc/sys/kernel/random/boot_id", &self.boot_id());
        let began = FakeClock::default().now() + Duration::from_secs(u64::from(self.boots.get()) * 1000);
        self.put("proc/stat", &format!("cpu 1\nbtime {}\n", began.as_second()));
        self.kubelet_is_up.set(self.kubelet_would_start());
        if let Some(cluster) = &self.cluster {
            self.passed.set(self.passed.get() + Duration::from_secs(60));
            cluster.passes(Duration::from_secs(60));
            let said = if self.kubelet_is_up.get() { self.boot_id() } else { "an earlier boot".to_owned() };
            cluster.booted(self.node.borrow().as_deref().unwrap_or(NODE), &said);
            self.on_boot.borrow().iter().for_each(|happens| happens(cluster));
            if self.pods_start_late.get() {
                // The API server still knows those of the boot before; their own follow.
                cluster.at(cluster.elapsed() + Duration::from_secs(5), move |world| {
                    world.containers_are_new(began)
                });
            } else {
                cluster.with(|world| world.containers_are_new(began));
            }
        }
        if self.hierarchy() == Hierarchy::Unified {
            self.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
        }
    }

    fn kubelet_refuses_v1(&self) -> bool {
        let files = ["var/lib/kubelet/config.yaml", "etc/default/kubelet"];
        let texts = files.map(|path| std::fs::read_to_string(self.path(path)).unwrap_or_default());
        let refuses =
            |text: &String| text.contains("\nfailCgroupV1: true") || text.contains("--fail-cgroupv1=true");
        texts.iter().any(refuses)
    }

    /// As its validation has it.
    fn kubelet_would_start(&self) -> bool {
        let is_on_v2 = self.hierarchy() == Hierarchy::Unified;
        !self.kubelet_refuses_v1() || is_on_v2 && !self.kubelet_is_broken.get()
    }

    fn kubelet_restarted(&self, unit: &str, now: jiff::Timestamp) {
        self.restarts.borrow_mut().push(unit.to_owned());
        self.kubelet_is_up.set(self.kubelet_would_start());
        let Some(cluster) = self.cluster.as_ref().filter(|_| self.kubelet_is_up.get()) else { return };
        if !(self.kubelet_is_mute.get() && self.kubelet_refuses_v1()) {
            cluster.reported(NODE, &self.boot_id(), now);
        }
        if self.restart_takes_pods_along.get() {
            cluster.with(|world| world.containers_are_new(now));
        }
    }

    fn boot_id(&self) -> String {
        let boots = self.boots.get();
        let given = self.boot_ids.borrow().get(boots as usize - 1).cloned();
        given.unwrap_or_else(|| format!("boot-{boots}\n"))
    }

    fn mounts(&self) -> FakeMounts {
        let (magics, table) = match self.hierarchy() {
            Hierarchy::Unified => (UNIFIED, V2_MOUNT),
            Hierarchy::Hybrid => (HYBRID, V1_MOUNTS),
            Hierarchy::Legacy => (LEGACY, V1_MOUNTS),
            Hierarchy::Unknown => ("/sys/fs/cgroup sysfs 0x62656572\n", ""),
        };
        let table = format!("{table}{}", self.more_mounts.borrow());
        let elsewhere = self.elsewhere.borrow().clone();
        FakeMounts { elsewhere, ..FakeMounts::from_text(magics, &table).unwrap() }
    }

    /// Runs the program once. A reboot it asked for is carried out afterwards, if the power held.
    pub(crate) fn run(&self, verb: Verb, fuse: &Fuse) -> Result<Ending> {
        let plain = RootedFs::new(self.root.path());
        let fs = FaultyFs::new(&plain, fuse.clone()).with_space(self.space.get());
        let runner = self.tools().with_fuse(fuse.clone());
        let init = self.init(fuse.clone());
        let time = FakeClock::default();
        time.advance(self.passed.get());
        let late = LateInit { init: &init, sim: self, clock: &time };
        let clock = BusyClock { clock: &time, init: &init, sim: self };
        let mounts = self.mounts();
        let host = Host { fs: &fs, runner: &runner, clock: &clock, mounts: &mounts, init: &late };
        let stop_asked = || fuse.effects() >= self.signal_at.get();
        if let Some(cluster) = &self.cluster {
            cluster.fuse.replace(fuse.clone());
        }
        let ending = program(host, self, verb, &stop_asked);
        self.effects.replace(fuse.log());
        self.all_effects.borrow_mut().extend(fuse.log());
        self.reboots.set(self.reboots.get() + init.reboots());
        if init.reboots() > 0 {
            self.rebooted_at.borrow_mut().extend(self.cluster.iter().map(Cluster::elapsed));
            self.boot();
        }
        ending
    }

    fn init(&self, fuse: Fuse) -> FakeInit {
        let init = FakeInit::new().with_fuse(fuse);
        init.refusal.replace(self.init_refuses.borrow().clone());
        init.inhibitors.replace(self.locks.borrow().clone());
        init.going_down.set(self.going_down.get());
        let state = self.resume_unit_state.borrow().clone();
        init.unit_states.borrow_mut().insert("cgroup2-migrate-resume.service".to_owned(), state);
        let state = self.reboot_target_state.borrow().clone();
        init.unit_states.borrow_mut().insert("reboot.target".to_owned(), state);
        init
    }

    /// As `run`, without faults.
    pub(crate) fn run_well(&self, verb: Verb) -> Ending {
        self.run(verb, &Fuse::counting()).unwrap()
    }

    /// What the unit does after each boot, until nothing changes any more.
    pub(crate) fn settle(&self) -> Ending {
        for _ in 0..6 {
            let boots = self.boots();
            let ending = self.run_well(Verb::ResumeAtBoot);
            if self.boots() == boots {
                return ending;
            }
        }
        panic!("no end of reboots: {} so far", self.boots());
    }

    pub(crate) fn plan(&self) -> (Facts, Plan) {
        let plain = RootedFs::new(self.root.path());
        let runner = self.tools();
        let init = self.init(Fuse::counting());
        let (clock, mounts) = (FakeClock::default(), self.mounts());
        let host = Host { fs: &plain, runner: &runner, clock: &clock, mounts: &mounts, init: &init };
        let facts = facts::scan(host, &Scan::running());
        let plan = plan::make(&facts, &Settings { accept: self.accepted.clone(), ..Settings::default() });
        (facts, plan)
    }

    /// What `rollback` says before it writes anything.
    /// Writes another journal.
    pub(crate) fn keep(&self, journal: &Journal) {
        let fs = RootedFs::new(self.root.path());
        Store::new(&fs).save(journal).unwrap();
    }

    pub(crate) fn hindrance(&self) -> Result<Option<Ending>> {
        let plain = RootedFs::new(self.root.path());
        let fs = FaultyFs::new(&plain, Fuse::counting()).with_space(self.space.get());
        let (runner, init) = (self.tools(), self.init(Fuse::counting()));
        let (clock, mounts) = (FakeClock::default(), self.mounts());
        let host = Host { fs: &fs, runner: &runner, clock: &clock, mounts: &mounts, init: &init };
        hindrance(host, &systemd::scan(&fs), &self.journal())
    }

    /// What `rollback` warns of.
    pub(crate) fn warning(&self) -> Option<String> {
        let plain = RootedFs::new(self.root.path());
        let (runner, init) = (self.tools(), self.init(Fuse::counting()));
        let (clock, mounts) = (FakeClock::default(), self.mounts());
        let host = Host { fs: &plain, runner: &runner, clock: &clock, mounts: &mounts, init: &init };
        warning(host, &self.journal())
    }

    fn preflight(&self, host: Host<'_>) -> Option<Result<Preflight, String>> {
        let cluster = self.cluster.as_ref()?;
        let look = |node: String| preflight::look(cluster, &node, Vec::new(), host.clock.now());
        let node = self.node.borrow().clone();
        Some(node.and_then(|node| look(node).map_err(|error| error.to_string())))
    }

    fn fleet_preflight(
        &self,
        host: Host<'_>,
        fleet: &Fleet,
    ) -> Option<Result<lock::preflight::Preflight, String>> {
        let cluster = self.cluster.as_ref().filter(|_| fleet.is_wanted())?;
        let leases_in = (fleet.mode == Mode::Lease).then_some(fleet.lease.namespace.as_str());
        let looked = lock::preflight::look(cluster, host.fs, NODE, &fleet.rules(), leases_in);
        Some(looked.map_err(|error| error.to_string()))
    }

    /// Settings as a person writes them.
    pub(crate) fn has_settings(&self, text: &str) {
        self.put("etc/cgroup2-migrate/config.d/10-fleet.toml", text);
        self.fleet.replace(config::load(&RootedFs::new(self.root.path())).unwrap().fleet);
    }

    /// Makes the machine a node whose API server this is.
    pub(crate) fn is_node_of(&mut self, cluster: Cluster) {
        cluster.booted(NODE, &self.text("proc/sys/kernel/random/boot_id"));
        self.put("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
        self.cluster = Some(cluster);
    }

    pub(crate) fn journal(&self) -> Journal {
        let fs = RootedFs::new(self.root.path());
        Store::new(&fs).load().unwrap().unwrap()
    }

    fn tools(&self) -> FakeRunner<'_> {
        if self.tools_missing.get() {
            return FakeRunner::new();
        }
        FakeRunner::new().on("grub-mkconfig", |invocation| self.mkconfig(invocation)).ends(
            "grub-script-check",
            0,
            "",
            "",
        )
    }

    /// As if nothing was mounted on `/sys/fs/cgroup`.
    pub(crate) fn unmount_cgroup(&self) {
        self.hierarchy.set(Hierarchy::Unknown);
    }

    fn mkconfig(&self, invocation: &Invocation) -> std::result::Result<Finished, RunError> {
        let output = invocation.argv.last().unwrap();
        if self.signal_kills_tool.take() {
            self.signal_at.set(0);
            self.put(&format!("{output}.new"), "half a menu");
            return Err(RunError::Interrupted { argv: invocation.argv.join(" ") });
        }
        let text = self.mkconfig_writes.borrow().clone().unwrap_or_else(|| self.menu());
        if let Some(left) = self.kernel_updates.get().checked_sub(1) {
            self.kernel_updates.set(left);
            self.install_kernel(&format!("6.{}.0-1-amd64", 9 - left));
            self.put("boot/grub/grub.cfg", &self.menu());
        }
        self.put(output, &text);
        Ok(Finished { code: Some(0), stdout: Vec::new(), stderr: Vec::new() })
    }
}

/// A logind on which someone is quicker than we: the locks are there once it has refused, or once it was asked for a
/// scheduled shutdown.
/// Its systemd has a kubelet.
struct LateInit<'a> {
    init: &'a FakeInit,
    sim: &'a Sim,
    clock: &'a FakeClock,
}

impl Init for LateInit<'_> {
    fn inhibitors(&self) -> Result<Vec<Inhibitor>, InitError> {
        self.init.inhibitors()
    }

    fn can_reboot(&self) -> Result<String, InitError> {
        self.init.can_reboot()
    }

    fn unit_file_state(&self, unit: &str) -> Result<String, InitError> {
        self.init.unit_file_state(unit)
    }

    fn is_going_down(&self) -> Result<bool, InitError> {
        self.init.is_going_down()
    }

    fn scheduled_shutdown(&self) -> Result<Option<String>, InitError> {
        let answer = self.init.scheduled_shutdown();
        self.init.inhibitors.borrow_mut().append(&mut self.sim.locks_meanwhile.borrow_mut());
        answer
    }

    fn reboot(&self) -> Result<(), InitError> {
        let answer = self.init.reboot();
        self.init.inhibitors.borrow_mut().extend(self.sim.late_locks.borrow().iter().cloned());
        answer
    }

    fn reload_units(&self) -> Result<(), InitError> {
        self.init.reload_units()
    }

    fn restart_unit(&self, unit: &str) -> Result<String, InitError> {
        if self.sim.restart_refused.get() {
            let (action, service) = ("restart a unit", "org.freedesktop.systemd1");
            return Err(InitError::Refused { action, service, reason: "Refused by the test".to_owned() });
        }
        let before = self.init.restarts().len();
        let answer = self.init.restart_unit(unit);
        if self.init.restarts().len() > before {
            self.sim.kubelet_restarted(unit, self.clock.now());
        }
        answer
    }

    fn active_state(&self, unit: &str) -> Result<String, InitError> {
        let state = if self.sim.kubelet_is_up.get() { "active" } else { "activating" };
        self.init.active_state(unit).map(|_| state.to_owned())
    }
}

/// A clock during whose sleeps the holder of a lock does its work and lets go.
struct BusyClock<'a> {
    clock: &'a FakeClock,
    init: &'a FakeInit,
    sim: &'a Sim,
}

impl Clock for BusyClock<'_> {
    fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) {
        if let Some((path, text)) = self.sim.while_waiting.take() {
            self.sim.put(&path, &text);
            self.init.inhibitors.borrow_mut().clear();
        }
        if self.sim.signal_in_sleep.get() {
            self.sim.signal_at.set(0);
        }
        if let Some(cluster) = &self.sim.cluster {
            cluster.passes(duration);
        }
        self.sim.passed.set(self.sim.passed.get() + duration);
        self.clock.sleep(duration);
    }
}

impl Kubernetes for Sim {
    fn connect(&self, with: &mut dyn FnMut(&dyn NodeApi)) -> Result<(), ApiError> {
        let cluster = self.cluster.as_ref();
        let cluster = cluster.ok_or_else(|| ApiError::Unusable("this machine is no node".to_owned()))?;
        with(cluster);
        Ok(())
    }

    fn connect_lock(
        &self,
        _kubeconfig: Option<&Path>,
        with: &mut dyn FnMut(&dyn NodeApi),
    ) -> Result<(), ApiError> {
        self.connect(with)
    }

    fn tell(&self, progress: &Progress) {
        self.told.borrow_mut().push(progress.to_string());
    }
}

/// The verbs as the command line has them, without questions.
fn program(host: Host<'_>, sim: &Sim, verb: Verb, stop_asked: &dyn Fn() -> bool) -> Result<Ending> {
    let options = &sim.options.borrow().clone();
    let store = Store::new(host.fs);
    let systemd = systemd::scan(host.fs);
    let fleet = sim.fleet.borrow().clone();
    let rules = fleet.rules();
    let drive = Drive {
        effects: Effects { host, store, systemd: &systemd },
        kubernetes: sim,
        rules: &rules,
        patience: Cell::new(Duration::from_secs(5)),
        at_boot: verb == Verb::ResumeAtBoot,
        stop_asked,
        tell: &|_| {},
    };
    let found = store.load()?;
    let mut journal = match (verb, found) {
        (Verb::Migrate, Some(mut journal)) if !journal.state.is_final() => {
            take_up(host, &mut journal, options.clone())?;
            journal
        }
        (Verb::Migrate, _) => {
            let mut facts = facts::scan(host, &Scan::running());
            facts.node = sim.preflight(host);
            facts.fleet = sim.fleet_preflight(host, &fleet);
            let accept = options.accepted.clone();
            let settings = Settings { accept, no_drain: options.no_drain, ..Settings::default() };
            let plan = plan::make(&facts, &settings);
            sim.blockers.replace(plan.blockers(&settings.accept).into_iter().cloned().collect());
            anyhow::ensure!(sim.blockers.borrow().is_empty(), "blocked: {:?}", plan.findings);
            anyhow::ensure!(!plan.nothing_to_do, "nothing to do");
            begin(host, &facts, &plan, options.clone(), &fleet)?
        }
        (Verb::Resume | Verb::ResumeAtBoot | Verb::Rollback, None) => anyhow::bail!("no journal"),
        (Verb::Resume, Some(mut journal)) => {
            reopen(host, &mut journal)?;
            journal
        }
        (Verb::ResumeAtBoot, Some(journal)) => journal,
        (Verb::Rollback, Some(mut journal)) => {
            if journal.state.name() != PhaseName::RollingBack {
                turn_back(host, &mut journal, "asked for by a person")?;
            }
            journal
        }
    };
    drive.run(&mut journal)
}
