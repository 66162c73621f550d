//! The kubelet is told to refuse cgroup v1 once v2 is proven: before the node goes back into service, and only for as
//! long as it comes up with it.
#![allow(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::Clock as _;
use cgroup2_migrate::host::fake::{FakeClock, Fault, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::migration::status::status;
use cgroup2_migrate::node::{NodePod, Owner, Running};
use serde_json::json;
use sim::cluster::{Cluster, pod};
use sim::{NODE, Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";
const CONFIG: &str = "var/lib/kubelet/config.yaml";
const FLAGS: &str = "etc/default/kubelet";
const UNIT: &str = "usr/lib/systemd/system/kubelet.service";

const TAKES_V1: &str = "apiVersion: kubelet.config.k8s.io/v1beta1 # ours\nkind: KubeletConfiguration\n\
                        failCgroupV1: false  # for now\ncgroupDriver: systemd\n";
const EXTRA: &str = "KUBELET_EXTRA_ARGS=\"--node-ip=192.0.2.10 --fail-cgroupv1=false\"\n";
const STARTS: &str = "[Service]\nEnvironmentFile=-/etc/default/kubelet\n\
                      ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml $KUBELET_EXTRA_ARGS\n";

fn refuses_v1() -> String {
    TAKES_V1.replace("failCgroupV1: false", "failCgroupV1: true")
}

/// A node with a pod of a DaemonSet, whose kubelet takes v1.
fn node() -> Sim {
    let cluster = Cluster::new(&[NODE]);
    let owner = Owner { api_version: "apps/v1".into(), kind: "DaemonSet".into(), name: "cni".into() };
    let running = vec![Running {
        name: "agent".into(),
        id: "containerd://1".into(),
        started: FakeClock::default().now(),
    }];
    cluster.add(NodePod { owner: Some(owner), running, ..pod(NODE, "kube-system", "cni-x1") });
    let mut sim = Sim::new(PINNED);
    sim.is_node_of(cluster);
    sim.put(CONFIG, TAKES_V1);
    sim.put(UNIT, STARTS);
    sim
}

fn cluster(sim: &Sim) -> &Cluster {
    sim.cluster.as_ref().unwrap()
}

fn phases(sim: &Sim) -> Vec<PhaseName> {
    sim.journal().history.iter().map(|entry| entry.phase).collect()
}

fn notes(sim: &Sim) -> Vec<String> {
    sim.journal().kubelet.unwrap().notes
}

/// By their paths in the machine, which is another one in each try.
fn boot_files(sim: &Sim) -> Vec<(String, String)> {
    let root = sim.path("").display().to_string();
    sim.boot_files().into_iter().map(|(path, text)| (path.replace(&root, "/"), text)).collect()
}

/// As a node is that nothing happened to.
fn is_as_before(sim: &Sim, before: &[(String, String)]) {
    assert_eq!((sim.text(CONFIG).as_str(), sim.hierarchy()), (TAKES_V1, Hierarchy::Hybrid));
    assert_eq!(boot_files(sim), before);
    assert!(sim.kubelet_is_up.get() && !cluster(sim).cordoned(NODE));
}

#[test]
fn flipped_restarted_ready_and_only_then_back_in_service() {
    let sim = node();
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.text(CONFIG), TAKES_V1, "nothing of it changes before v2 is proven");
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.text(CONFIG), sim.restarts.take()), (refuses_v1(), vec!["kubelet.service".to_owned()]));
    let phases = phases(&sim);
    use PhaseName as P;
    assert_eq!(phases[phases.len() - 4..], [P::Verified, P::KubeletFinal, P::Uncordoned, P::Done]);
    let effects = sim.effects.borrow().clone();
    let at = |words: &str| effects.iter().position(|effect| effect == words).unwrap();
    assert!(at("replace /var/lib/kubelet/config.yaml") < at("restart kubelet.service"));
    assert!(at("restart kubelet.service") < at("patch node n-alder"));
    assert!(!cluster(&sim).cordoned(NODE));
    assert!(notes(&sim).is_empty(), "{:?}", notes(&sim));
}

#[test]
fn two_files_that_say_it_are_both_changed_and_both_come_back() {
    let sim = node();
    sim.put(FLAGS, EXTRA);
    let before = boot_files(&sim);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(sim.text(CONFIG), refuses_v1());
    assert_eq!(sim.text(FLAGS), EXTRA.replace("v1=false", "v1=true"));
    assert_eq!(sim.restarts.take(), ["kubelet.service"]);
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    is_as_before(&sim, &before);
    assert!(sim.restarts.take().is_empty(), "the reboot starts it anew");
}

#[test]
fn a_kubelet_that_does_not_come_up_gets_its_files_back_and_the_node_its_v1() {
    let sim = node();
    let before = boot_files(&sim);
    sim.kubelet_is_broken.set(true);
    sim.run_well(Verb::Migrate);
    let Ending::RolledBack(why) = sim.settle() else { panic!("not rolled back") };
    assert!(why.contains("kubelet.service") && why.contains("activating"), "{why}");
    assert_eq!(sim.restarts.take(), ["kubelet.service", "kubelet.service"]);
    is_as_before(&sim, &before);
}

/// What the API server knows of the node is the last word of the kubelet before its restart, for a while.
#[test]
fn a_kubelet_that_runs_and_says_nothing_is_not_up() {
    let sim = node();
    let before = boot_files(&sim);
    sim.kubelet_is_mute.set(true);
    sim.run_well(Verb::Migrate);
    let Ending::RolledBack(why) = sim.settle() else { panic!("not rolled back") };
    assert!(why.contains("not reported the node yet"), "{why}");
    is_as_before(&sim, &before);
}

#[test]
fn a_kubelet_that_would_not_start_on_v1_is_told_before() {
    let sim = node();
    let found = |sim: &Sim| sim.plan().1.findings.iter().any(|finding| finding.id == "kubelet-refuses-v1");
    assert!(!found(&sim));
    sim.put(CONFIG, "kind: KubeletConfiguration\n");
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(sim.warning(), None);
    sim.put(CONFIG, &refuses_v1());
    assert!(sim.warning().unwrap().contains("/var/lib/kubelet/config.yaml:3"), "{:?}", sim.warning());
    assert!(!found(&sim), "on v2 it is as it should be");
    let sim = node();
    sim.put(CONFIG, &refuses_v1());
    assert!(found(&sim));
}

#[test]
fn without_a_way_back_the_kubelet_still_gets_its_files_back() {
    let sim = node();
    sim.kubelet_is_broken.set(true);
    sim.run_well(Verb::Migrate);
    std::fs::remove_file(sim.path("usr/lib/systemd/libsystemd-shared-252.so")).unwrap();
    sim.put("usr/lib/systemd/libsystemd-shared-258.so", "default-hierarchy=unified\0");
    let Ending::NeedsPerson(why) = sim.settle() else { panic!("not a person") };
    assert!(why.contains("no way back") && why.contains("kubelet.service"), "{why}");
    assert_eq!((sim.text(CONFIG).as_str(), sim.hierarchy()), (TAKES_V1, Hierarchy::Unified));
    assert!(sim.kubelet_is_up.get() && !cluster(&sim).cordoned(NODE));
}

#[test]
fn containers_that_the_restart_took_along_mean_not_ready() {
    let sim = node();
    let before = boot_files(&sim);
    sim.restart_takes_pods_along.set(true);
    sim.run_well(Verb::Migrate);
    let Ending::RolledBack(why) = sim.settle() else { panic!("not rolled back") };
    assert!(why.contains("agent of kube-system/cni-x1"), "{why}");
    is_as_before(&sim, &before);
}

/// The API server is slow to hear of them: they are no reason for anything.
#[test]
fn containers_of_the_boot_before_do_not_count() {
    let sim = node();
    sim.pods_start_late.set(true);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert!(sim.journal().kubelet.unwrap().restart.unwrap().containers.is_empty());
}

#[test]
fn a_configuration_that_is_not_clear_is_told_and_left() {
    let sim = node();
    let twice = format!("{TAKES_V1}failCgroupV1: false\n");
    sim.put(CONFIG, &twice);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.text(CONFIG), sim.restarts.take().len()), (twice, 0));
    assert!(!phases(&sim).contains(&PhaseName::KubeletFinal));
    assert!(notes(&sim)[0].contains("/var/lib/kubelet/config.yaml"), "{:?}", notes(&sim));
}

#[test]
fn what_belongs_to_others_is_told_with_their_own_way() {
    let sim = node();
    sim.put("etc/kubernetes/azure.json", "{}");
    sim.put(UNIT, &STARTS.replace("$KUBELET_EXTRA_ARGS", "--fail-cgroupv1=false"));
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.text(CONFIG).as_str(), sim.restarts.take().len()), (TAKES_V1, 0));
    let told = status(Some(&sim.journal()), sim.hierarchy()).notes;
    assert!(told[0].contains("AKS node pool"), "{told:?}");
}

/// What k3s writes anew at every start is not edited: a drop-in behind it wins, and goes again on the way back.
#[test]
fn a_drop_in_of_our_own_comes_and_goes() {
    const DIRECTORY: &str = "var/lib/rancher/k3s/agent/etc/kubelet.conf.d";
    let sim = node();
    std::fs::remove_file(sim.path(UNIT)).unwrap();
    std::fs::remove_file(sim.path(CONFIG)).unwrap();
    sim.put("etc/systemd/system/k3s-agent.service", "[Service]\nExecStart=/usr/local/bin/k3s agent\n");
    sim.put(&format!("{DIRECTORY}/00-k3s-defaults.conf"), TAKES_V1);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    let ours = format!("{DIRECTORY}/90-cgroup2-migrate.conf");
    assert!(sim.text(&ours).contains("failCgroupV1: true"));
    assert_eq!(sim.restarts.take(), ["k3s-agent.service"]);
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert!(!sim.path(&ours).exists());
}

#[test]
fn systemd_reads_a_changed_unit_file_before_the_restart() {
    let sim = node();
    sim.put("etc/systemd/system/kubelet.service.d/10.conf", &format!("[Service]\nEnvironment={EXTRA}"));
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    let effects = sim.effects.borrow().clone();
    let restart = effects.iter().position(|effect| effect == "restart kubelet.service").unwrap();
    assert_eq!(effects[restart - 1], "reload units");
}

#[test]
fn the_plan_shows_it_as_a_later_step() {
    let plan = node().plan().1;
    assert!(plan.later_files.is_empty() && !plan.blockers(&[]).is_empty(), "somebody has to drain");
    let mut sim = node();
    sim.accepted.push("node-not-drained".to_owned());
    let plan = sim.plan().1;
    let last = plan.steps.last().unwrap();
    assert!(last.id == "kubelet-final" && last.title.contains("/var/lib/kubelet/config.yaml"), "{last:?}");
    assert!(plan.later_files[0].diff.contains("+failCgroupV1: true  # for now"), "{:?}", plan.later_files);
    assert!(plan.files.iter().all(|file| file.path != plan.later_files[0].path));
}

#[test]
fn nobody_at_the_api_server_is_asked_where_somebody_else_drains() {
    let sim = node();
    sim.options.replace(Options { no_drain: true, ..Options::default() });
    sim.run_well(Verb::Migrate);
    let asked = cluster(&sim).requests().len();
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.text(CONFIG), cluster(&sim).requests().len()), (refuses_v1(), asked));
    assert_eq!(sim.restarts.take(), ["kubelet.service"]);
}

#[test]
fn a_kubelet_that_says_otherwise_itself_is_told() {
    for (said, is_noted) in [(Some(true), false), (Some(false), true), (None, false)] {
        let sim = node();
        let configz = json!({"kubeletconfig": {"failCgroupV1": said}});
        cluster(&sim).with(|world| world.configz = Some(configz));
        sim.run_well(Verb::Migrate);
        assert_eq!(sim.settle(), Ending::Done);
        assert_eq!(!notes(&sim).is_empty(), is_noted, "{said:?}: {:?}", notes(&sim));
    }
}

#[test]
fn a_restart_that_systemd_refuses_disturbs_nothing() {
    let sim = node();
    sim.restart_refused.set(true);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.text(CONFIG).as_str(), sim.hierarchy()), (TAKES_V1, Hierarchy::Unified));
    assert!(sim.journal().kubelet.unwrap().given_up.unwrap().contains("Refused by the test"));
    assert!(!cluster(&sim).cordoned(NODE));
}

#[test]
fn a_full_disk_before_the_restart_disturbs_nothing() {
    let effects = after_the_reboot(node).1;
    let write = effects.iter().position(|effect| effect == "replace /var/lib/kubelet/config.yaml").unwrap();
    let sim = node();
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.run(Verb::ResumeAtBoot, &Fuse::at(write + 1, Fault::DiskFull)).unwrap(), Ending::Done);
    assert_eq!((sim.text(CONFIG).as_str(), sim.hierarchy()), (TAKES_V1, Hierarchy::Unified));
    assert!(sim.restarts.take().is_empty() && !cluster(&sim).cordoned(NODE));
}

/// One run after the reboot, and what it did.
fn after_the_reboot(node: impl Fn() -> Sim) -> (Sim, Vec<String>) {
    let sim = node();
    sim.run_well(Verb::Migrate);
    let fuse = Fuse::counting();
    sim.run(Verb::ResumeAtBoot, &fuse).unwrap();
    let log = fuse.log();
    (sim, log)
}

fn with_two_files() -> Sim {
    let sim = node();
    sim.put(FLAGS, EXTRA);
    sim
}

/// Dies at this effect after the reboot, by a lost power or alone, and goes on.
fn dies(node: impl Fn() -> Sim, k: usize, fault: Fault, power_is_cut: bool) -> (Sim, Ending) {
    let sim = node();
    sim.run_well(Verb::Migrate);
    let boots = sim.boots();
    let _ = sim.run(Verb::ResumeAtBoot, &Fuse::at(k, fault));
    if power_is_cut && sim.boots() == boots {
        sim.boot();
    }
    let ending = sim.settle();
    (sim, ending)
}

fn every_death(effects: usize, mut visit: impl FnMut(usize, Fault, bool)) {
    // With the power cut before an effect is as after the one before it.
    let ways =
        [(Fault::PowerLostBefore, false), (Fault::PowerLostAfter, false), (Fault::PowerLostAfter, true)];
    for ((fault, power_is_cut), k) in ways.into_iter().flat_map(|way| (1..=effects).map(move |k| (way, k))) {
        visit(k, fault, power_is_cut);
    }
}

#[test]
fn death_at_any_effect_still_ends_flipped_ready_and_in_service() {
    let effects = after_the_reboot(with_two_files).1.len();
    every_death(effects, |k, fault, power_is_cut| {
        let (sim, ending) = dies(with_two_files, k, fault, power_is_cut);
        assert_eq!(ending, Ending::Done, "{fault:?} at {k}, {power_is_cut}");
        assert_eq!(
            (sim.text(CONFIG), sim.hierarchy()),
            (refuses_v1(), Hierarchy::Unified),
            "{fault:?} at {k}"
        );
        assert_eq!(sim.text(FLAGS), EXTRA.replace("v1=false", "v1=true"));
        assert!(sim.kubelet_is_up.get() && !cluster(&sim).cordoned(NODE), "{fault:?} at {k}");
    });
}

/// The same where it does not come up: every way ends where it began.
#[test]
fn death_at_any_effect_of_a_flip_that_fails_ends_as_it_was() {
    let broken = || {
        let sim = with_two_files();
        sim.kubelet_is_broken.set(true);
        sim
    };
    let (sim, effects) = after_the_reboot(broken);
    let before = boot_files(&with_two_files());
    assert!(effects.len() > 20 && matches!(sim.settle(), Ending::RolledBack(_)));
    every_death(effects.len(), |k, fault, power_is_cut| {
        let (sim, ending) = dies(broken, k, fault, power_is_cut);
        assert!(matches!(ending, Ending::RolledBack(_)), "{fault:?} at {k}, {power_is_cut}: {ending:?}");
        is_as_before(&sim, &before);
    });
}

/// And on the way back from a finished migration: the kubelet never meets v1 with files that refuse it.
#[test]
fn death_at_any_effect_of_the_way_back_ends_as_it_was() {
    let done = || {
        let sim = with_two_files();
        sim.run_well(Verb::Migrate);
        assert_eq!(sim.settle(), Ending::Done);
        sim
    };
    let before = boot_files(&with_two_files());
    let fuse = Fuse::counting();
    done().run(Verb::Rollback, &fuse).unwrap();
    every_death(fuse.effects(), |k, fault, power_is_cut| {
        let sim = done();
        let boots = sim.boots();
        let _ = sim.run(Verb::Rollback, &Fuse::at(k, fault));
        if power_is_cut && sim.boots() == boots {
            sim.boot();
        }
        assert!(sim.hierarchy() == Hierarchy::Unified || sim.kubelet_is_up.get(), "{fault:?} at {k}");
        let ending = if sim.journal().state.name() == PhaseName::Done {
            sim.run_well(Verb::Rollback);
            sim.settle()
        } else {
            sim.settle()
        };
        assert!(matches!(ending, Ending::RolledBack(_)), "{fault:?} at {k}: {ending:?}");
        is_as_before(&sim, &before);
    });
}
