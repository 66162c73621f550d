//! Unified diffs.

use similar::TextDiff;

use crate::boot::FileEdit;

/// The change of one file, as `diff -u` would show it. Bytes that are no text are shown as U+FFFD.
pub(super) fn unified(edit: &FileEdit) -> String {
    let path = edit.path.display().to_string();
    let before = edit.before.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let after = String::from_utf8_lossy(&edit.after);
    let old_name = if edit.before.is_some() { format!("a{path}") } else { "/dev/null".to_owned() };
    TextDiff::from_lines(before.as_ref(), after.as_ref())
        .unified_diff()
        .context_radius(3)
        .header(&old_name, &format!("b{path}"))
        .to_string()
}
