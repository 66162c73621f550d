//! Hardware virtualisation where it works, emulation elsewhere.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::emulator::emulator;
use crate::image::Image;
use crate::limits;
use crate::progress::step;

/// QEMU's arguments for the quickest accelerator that really boots a guest, found out once a run.
pub(crate) fn arguments(image: &Image) -> &'static [&'static str] {
    static CHOSEN: OnceLock<&[&str]> = OnceLock::new();
    CHOSEN.get_or_init(|| if kvm_boots(image) { &["-accel", "kvm", "-cpu", "host"] } else { EMULATION })
}

const EMULATION: &[&str] = &["-accel", "tcg,thread=multi", "-cpu", "max"];

/// `/dev/kvm` may be there and yet run no guest (a container, a nested machine): only a guest's first words prove it.
fn kvm_boots(image: &Image) -> bool {
    if !Path::new("/dev/kvm").exists() {
        step("no /dev/kvm: guests are emulated, which is slower");
        return false;
    }
    let boots = speaks_under_kvm(image).unwrap_or(false);
    step(if boots {
        "KVM boots a guest: using it"
    } else {
        "KVM does not boot a guest here: guests are emulated"
    });
    boots
}

fn speaks_under_kvm(image: &Image) -> Result<bool> {
    let directory = tempfile::tempdir()?;
    let console = directory.path().join("console");
    let mut qemu = emulator()?
        .args([
            "-accel",
            "kvm",
            "-cpu",
            "host",
            "-m",
            "256",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
        ])
        .args(["-no-reboot", "-append", "console=ttyS0 panic=-1", "-kernel"])
        .arg(&image.kernel)
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let spoke = wait_for_words(&mut qemu, &console);
    qemu.kill()?;
    qemu.wait()?;
    Ok(spoke)
}

fn wait_for_words(qemu: &mut Child, console: &Path) -> bool {
    let deadline = Instant::now() + limits::kvm_probe();
    while Instant::now() < deadline {
        let said = std::fs::read(console).unwrap_or_default();
        if said.windows(LINUX.len()).any(|window| window == LINUX) {
            return true;
        }
        if !matches!(qemu.try_wait(), Ok(None)) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

const LINUX: &[u8] = b"Linux version";
