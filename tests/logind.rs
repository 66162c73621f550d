//! What we ask of logind and systemd, over a real bus, with made-up services behind it.

use std::time::Duration;

use cgroup2_migrate::host::logind::SystemBus;
use cgroup2_migrate::host::{Inhibitor, Init, InitError};

#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/private_bus.rs"]
mod private_bus;
use private_bus::PrivateBus;

const HEALTHY: &str = r#"{"CanReboot": "yes", "ListInhibitors": [], "Reboot": null,
    "PreparingForShutdown": false, "ScheduledShutdown": ["", 0]}"#;

#[test]
fn locks_are_listed_with_their_holders() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(
        r#"{"CanReboot": "yes", "ListInhibitors":
            [["shutdown", "Unattended Upgrades", "dpkg is running", "block", 0, 911]]}"#,
    );
    let expected = Inhibitor {
        what: "shutdown".into(),
        who: "Unattended Upgrades".into(),
        why: "dpkg is running".into(),
        mode: "block".into(),
        uid: 0,
        pid: 911,
    };
    assert_eq!(bus.client().inhibitors().unwrap(), [expected]);
}

#[test]
fn a_healthy_logind_is_asked_once_for_a_plain_reboot() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(HEALTHY);
    let client = bus.client();
    assert_eq!(client.inhibitors().unwrap(), []);
    assert_eq!(client.can_reboot().unwrap(), "yes");
    assert!(!client.is_going_down().unwrap());
    assert_eq!(client.scheduled_shutdown().unwrap(), None);
    client.reboot().unwrap();
    assert_eq!(bus.calls_of_logind(), ["ListInhibitors", "Reboot False"]);
}

#[test]
fn a_newer_logind_gets_no_flags() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(r#"{"CanReboot": "yes", "Reboot": null, "RebootWithFlags": null}"#);
    bus.client().reboot().unwrap();
    assert_eq!(bus.calls_of_logind(), ["RebootWithFlags 0"]);
}

#[test]
fn a_shutdown_of_others_is_seen() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(
        r#"{"CanReboot": "yes", "PreparingForShutdown": true, "ScheduledShutdown": ["reboot", 1796083200000000]}"#,
    );
    assert!(bus.client().is_going_down().unwrap());
    assert_eq!(bus.client().scheduled_shutdown().unwrap().as_deref(), Some("reboot"));
}

#[test]
fn a_refusal_carries_its_name_and_is_not_tried_another_way() {
    for method in ["Reboot", "RebootWithFlags"] {
        for name in
            ["DBus.Error.InteractiveAuthorizationRequired", "DBus.Error.AccessDenied", "systemd1.UnitMasked"]
        {
            let Some(bus) = PrivateBus::start() else { return };
            let answers =
                format!(r#"{{"CanReboot": "no", "{method}": {{"error": "org.freedesktop.{name}"}}}}"#);
            let bus = bus.with_logind(&answers);
            let error = bus.client().reboot().unwrap_err();
            assert!(matches!(&error, InitError::Refused { reason, .. } if reason.contains(name)), "{error}");
            assert_eq!(bus.calls_of_logind().len(), 1);
        }
    }
}

#[test]
fn unit_files_have_states() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_systemd(
        r#"{"GetUnitFileState": {"reboot.target": "masked", "systemd-reboot.service": "static"}}"#,
    );
    let state = |unit| bus.client().unit_file_state(unit).unwrap();
    assert_eq!(state("reboot.target"), "masked");
    assert_eq!(state("systemd-reboot.service"), "static");
    assert_eq!(state("no-such.service"), "");
}

#[test]
fn a_restart_ends_with_the_result_of_its_own_job() {
    for result in ["done", "failed"] {
        let Some(bus) = PrivateBus::start() else { return };
        let answers = format!(
            r#"{{"GetUnitFileState": {{}}, "Subscribe": null, "Reload": null, "RestartUnit": "{result}"}}"#
        );
        let bus = bus.with_systemd(&answers);
        bus.client().reload_units().unwrap();
        assert_eq!(bus.client().restart_unit("kubelet.service").unwrap(), result);
        let calls = bus.calls_of_systemd();
        assert_eq!(calls, ["Reload", "Subscribe", r#"RestartUnit "kubelet.service" "replace""#]);
    }
}

#[test]
fn a_unit_that_is_not_there_is_not_restarted() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_systemd(
        r#"{"GetUnitFileState": {}, "Subscribe": null, "RestartUnit": {"error": "org.freedesktop.systemd1.NoSuchUnit"}}"#,
    );
    let error = bus.client().restart_unit("kubelet.service").unwrap_err();
    assert!(matches!(&error, InitError::Refused { reason, .. } if reason.contains("NoSuchUnit")), "{error}");
}

#[test]
fn units_have_states() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_systemd(
        r#"{"GetUnitFileState": {}, "UnitStates": {"kubelet.service": "active", "k3s.service": "failed"}}"#,
    );
    assert_eq!(bus.client().active_state("kubelet.service").unwrap(), "active");
    assert_eq!(bus.client().active_state("k3s.service").unwrap(), "failed");
}

#[test]
fn nobody_on_the_bus_and_no_bus_are_told_apart_from_a_refusal() {
    let Some(bus) = PrivateBus::start() else { return };
    let nowhere = SystemBus::at(&format!("unix:path={}/none", bus.directory().display()));
    for client in [bus.client(), nowhere] {
        for error in [client.can_reboot().unwrap_err(), client.reboot().unwrap_err()] {
            assert!(matches!(error, InitError::Unreachable { .. }), "{error}");
        }
    }
}

#[test]
fn silence_ends_at_the_limit() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(r#"{"CanReboot": "yes", "ListInhibitors": {"silent": 60}}"#);
    let error = bus.client().with_limit(Duration::from_millis(300)).inhibitors().unwrap_err();
    assert!(matches!(error, InitError::TimedOut { .. }), "{error}");
    let expected = "list shutdown inhibitors: no answer from org.freedesktop.login1 within 300ms";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_logind_that_dies_over_a_call_may_have_done_it() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(r#"{"CanReboot": "yes", "Reboot": {"dies": true}}"#);
    let error = bus.client().reboot().unwrap_err();
    assert!(matches!(error, InitError::Lost { .. }), "{error}");
}

/// The part of the next test that needs other environment variables than ours.
#[test]
fn in_a_child() {
    match std::env::var("C2M_CHILD").as_deref() {
        Ok("honours the address") => SystemBus::new().reboot().unwrap(),
        Ok("refuses") => {
            let bus = SystemBus::new();
            let restart = bus.restart_unit("kubelet.service").map(drop);
            for refused in [bus.reboot(), restart, bus.reload_units()] {
                let error = refused.unwrap_err();
                assert!(matches!(error, InitError::TestHost { .. }), "{error}");
            }
        }
        Ok(_) | Err(_) => {}
    }
}

#[test]
fn on_a_test_host_only_a_private_bus_is_asked_to_reboot() {
    let Some(bus) = PrivateBus::start() else { return };
    let bus = bus.with_logind(HEALTHY);
    assert!(private_bus::child("honours the address", &bus.address));
    assert_eq!(bus.calls_of_logind(), ["Reboot False"]);
    let like_the_real_one = format!("unix:path={}/system_bus_socket", bus.directory().display());
    assert!(private_bus::child("refuses", &like_the_real_one));
    assert!(private_bus::child("refuses", ""));
}
