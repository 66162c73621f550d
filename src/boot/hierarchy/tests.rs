use super::Hierarchy::{Hybrid, Legacy, Unified, Unknown};
use super::*;

const U: &str = "systemd.unified_cgroup_hierarchy";
const L: &str = "systemd.legacy_systemd_cgroup_controller";

fn spell(words: &str) -> String {
    words.replace("U", U).replace("LC", L).replace("FORCE", LEGACY_FORCE)
}

/// facts/cmdline-measured.md: each line was booted on Debian 12.
#[test]
fn measured_on_systemd_252() {
    for (line, expected) in [
        ("systemd.unified_cgroup_hierarchy=0", Hybrid),
        ("systemd.unified_cgroup_hierarchy=1 systemd.unified_cgroup_hierarchy=0", Hybrid),
        ("systemd.unified-cgroup-hierarchy=0", Hybrid),
        ("systemd.unified_cgroup_hierarchy=OFF", Hybrid),
        ("\"systemd.unified_cgroup_hierarchy=0\"", Hybrid),
        ("systemd.unified_cgroup_hierarchy=0 cgroup_no_v1=all", Hybrid),
        ("systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1", Legacy),
        ("-- systemd.unified_cgroup_hierarchy=0", Hybrid),
        ("SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 systemd.unified_cgroup_hierarchy=0", Hybrid),
        ("cgroup_disable=memory", Unified),
    ] {
        assert_eq!(decide(line, 252, Unified).hierarchy, expected, "{line}");
    }
}

/// From the source of v252: U and LC stand for the two names.
#[test]
fn derived_from_the_source_of_252() {
    for (words, expected) in [
        ("", Unified),
        ("U", Unified),
        ("U=0 U", Hybrid),
        ("U U=0", Hybrid),
        ("U=0 U=1", Unified),
        ("U=0 U=2", Unified),
        ("U=2 U=0", Hybrid),
        ("U=0 U=", Unified),
        ("U=", Unified),
        ("U=0\tquiet", Hybrid),
        ("quiet\tU=no\n", Hybrid),
        ("U=\"0\"", Hybrid),
        ("U='0'", Hybrid),
        ("'U=0'", Hybrid),
        ("\"U\"=0", Hybrid),
        ("U=\"0 \"", Unified),
        ("\" U=0\"", Unified),
        ("U=f", Hybrid),
        ("U=F", Hybrid),
        ("U=N", Hybrid),
        ("U=yes", Unified),
        ("U=00", Unified),
        ("U=-0", Unified),
        ("U =0", Unified),
        ("U= 0", Unified),
        ("U==0", Unified),
        ("U=\\0", Unified),
        ("\\U=0", Unified),
        ("#U=0", Unified),
        ("# U=0", Hybrid),
        ("rd.U=0", Unified),
        ("x='U=0", Unified),
        ("it's U=0", Unified),
        ("x=\"a U=0", Unified),
        ("x=\"a b\" U=0", Hybrid),
        ("U=0 'open", Hybrid),
        ("Systemd.unified_cgroup_hierarchy=0", Unified),
        ("U=1 -- x", Unified),
        ("U=0 -- U=1", Unified),
        ("LC", Unified),
        ("U=0 LC", Legacy),
        ("U=0 LC=0", Hybrid),
        ("U=0 LC=0 LC", Hybrid),
        ("U=0 LC=maybe", Hybrid),
        ("U=1 LC", Unified),
        ("cgroup_no_v1=all", Unified),
        ("U=0 cgroup_no_v1=\"all\" LC", Legacy),
    ] {
        let line = spell(words);
        assert_eq!(decide(&line, 252, Unified).hierarchy, expected, "{line}");
    }
}

#[test]
fn other_defaults() {
    for (words, default, expected) in [
        ("", Hybrid, Hybrid),
        ("", Legacy, Legacy),
        ("U=0", Legacy, Legacy),
        ("U=0", Hybrid, Hybrid),
        ("LC", Hybrid, Legacy),
        ("LC=0", Legacy, Hybrid),
        ("LC=1", Unified, Unified),
        ("cgroup_no_v1=all", Hybrid, Unified),
        ("cgroup-no-v1=all", Legacy, Unified),
        ("cgroup_no_v1=\"all\"", Legacy, Unified),
        ("cgroup_no_v1=all cgroup_no_v1", Legacy, Unified),
        ("cgroup_no_v1=all cgroup_no_v1=memory", Legacy, Legacy),
        ("cgroup_no_v1=memory,all", Legacy, Legacy),
        ("cgroup_no_v1=ALL", Legacy, Legacy),
        ("cgroup_no_v1", Legacy, Legacy),
        ("U=2 cgroup_no_v1=all", Legacy, Unified),
        ("U=2", Legacy, Legacy),
        ("-- cgroup_no_v1=all", Legacy, Unified),
        ("", Unknown, Unknown),
        ("U=0", Unknown, Unknown),
        ("U=0 LC", Unknown, Legacy),
        ("U", Unknown, Unified),
    ] {
        let line = spell(words);
        assert_eq!(decide(&line, 252, default).hierarchy, expected, "{line} {default:?}");
    }
}

#[test]
fn by_version() {
    use Outcome::{Boots, BootsAfterDelay, RefusesToBoot};
    for (words, systemd, expected, outcome) in [
        ("U", 219, Legacy, Boots),
        ("U=1", 230, Unified, Boots),
        ("", 230, Legacy, Boots),
        ("U=0 U", 231, Unified, Boots),
        ("U=1 U=0", 231, Legacy, Boots),
        ("U=1 U=2", 231, Legacy, Boots),
        ("systemd.unified-cgroup-hierarchy=1", 231, Legacy, Boots),
        ("", 232, Hybrid, Boots),
        ("LC", 232, Legacy, Boots),
        ("LC=0", 232, Hybrid, Boots),
        ("U LC", 232, Unified, Boots),
        ("", 233, Hybrid, Boots),
        ("U=0 U", 233, Hybrid, Boots),
        ("cgroup_no_v1=all", 239, Hybrid, Boots),
        ("cgroup_no_v1=all", 240, Unified, Boots),
        ("", 242, Hybrid, Boots),
        ("", 243, Unified, Boots),
        ("U=0", 255, Hybrid, Boots),
        ("U=0", 256, Hybrid, RefusesToBoot),
        ("U=0 LC FORCE=0", 256, Legacy, RefusesToBoot),
        ("U=0 FORCE=1", 256, Hybrid, BootsAfterDelay),
        ("FORCE=1", 256, Unified, Boots),
        ("U=0", 257, Unified, BootsAfterDelay),
        ("U=0 FORCE=yes", 257, Hybrid, BootsAfterDelay),
        ("U=0 LC -- FORCE=1", 257, Legacy, BootsAfterDelay),
        ("U=0 FORCE=2", 257, Unified, BootsAfterDelay),
        ("U=0 FORCE=1", 258, Unified, Boots),
    ] {
        let line = spell(words);
        let decision = decide(&line, systemd, upstream_default(systemd));
        assert_eq!((decision.hierarchy, decision.outcome), (expected, outcome), "{systemd}: {line}");
    }
}

#[test]
fn names_the_word_and_explains_the_idle_ones() {
    let decision =
        decide("quiet systemd.unified-cgroup-hierarchy=OFF systemd.unified_cgroup_hierarchy", 252, Unified);
    assert_eq!(decision.word.as_deref(), Some("systemd.unified-cgroup-hierarchy=OFF"));
    assert!(decision.notes.iter().any(|note| note.contains("never overrides")), "{decision:?}");
    let idle =
        decide("rd.systemd.unified_cgroup_hierarchy=0 Systemd.unified_cgroup_hierarchy=0", 252, Unified);
    assert_eq!((idle.word, idle.notes.len()), (None, 2));
    assert!(decide("", 252, Unified).reason.contains("default-hierarchy=unified"));
}
