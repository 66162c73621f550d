//! What the running kubelet itself says of its configuration (`/configz`).

use serde_json::Value;

use super::FAIL_CGROUP_V1;

/// The value of `failCgroupV1` in an answer; `None` where it says nothing of it, as before 1.31.
#[must_use]
pub fn fail_cgroup_v1(answer: &Value) -> Option<bool> {
    answer.get("kubeletconfig")?.get(FAIL_CGROUP_V1)?.as_bool()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_said_is_known() {
        let said = |config: Value| fail_cgroup_v1(&json!({"kubeletconfig": config}));
        assert_eq!(said(json!({"kind": "KubeletConfiguration", "failCgroupV1": true})), Some(true));
        assert_eq!(said(json!({"failCgroupV1": false})), Some(false));
        assert_eq!(said(json!({"cgroupDriver": "systemd"})), None);
        assert_eq!(fail_cgroup_v1(&Value::Null), None);
    }
}
