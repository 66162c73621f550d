//! In which order things were done, by the effects of the run.

use serde_json::Value;

/// What of an effect's words says that it is this one.
const STEPS: [(&str, &[&[&str]]); 9] = [
    ("cordon", &[&["patch node"]]),
    ("drain", &[&["eviction"]]),
    ("write boot files", &[&["etc/default/grub"]]),
    ("reboot", &[&["reboot"]]),
    ("flip config", &[&["kubelet", "config.yaml"], &["failCgroupV1"], &["kubeadm-flags.env"]]),
    ("restart kubelet", &[&["restart", "kubelet"]]),
    // Looking is no effect: what it found is written down.
    ("check", &[&["journal.json"]]),
    ("uncordon", &[&["patch node"]]),
    ("release lock", &[&["lease"]]),
];

/// Each step must have happened after the one before. One that is said not to happen at all (`uncordoned: false`) may be
/// missing at the end.
pub(crate) fn judge(wanted: &Value, effects: &[String]) -> Result<(), String> {
    let steps: Option<Vec<&str>> =
        wanted.as_array().map(|all| all.iter().filter_map(Value::as_str).collect());
    let steps =
        steps.filter(|steps| Some(steps.len()) == wanted.as_array().map(Vec::len) && !steps.is_empty());
    let steps = steps.ok_or_else(|| format!("`order`: {wanted} is no list of steps"))?;
    let mut rest = effects;
    for step in steps {
        let (_, marks) = STEPS
            .iter()
            .find(|(name, _)| *name == step)
            .ok_or_else(|| format!("`order`: nobody knows `{step}`"))?;
        let is_it =
            |effect: &String| marks.iter().any(|words| words.iter().all(|word| effect.contains(word)));
        let place = rest.iter().position(is_it);
        let place =
            place.ok_or_else(|| format!("`order`: `{step}` is not where it is expected: {effects:?}"))?;
        rest = &rest[place + 1..];
    }
    Ok(())
}
