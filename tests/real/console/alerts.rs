//! The rules for Prometheus, and the metrics that they use, checked with Prometheus' own tool.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tests::runner::skip;

use crate::house::House;

fn has_promtool() -> bool {
    let found = Command::new("promtool").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip("promtool is not installed");
    }
    found
}

pub(crate) fn each_alert_fires_where_it_is_meant_to_and_nowhere_else(_: &House) {
    if !has_promtool() {
        return;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating/prometheus");
    for words in [["check", "rules", "trunkline.rules.yml"], ["test", "rules", "trunkline.rules.test.yml"]] {
        let output = Command::new("promtool").args(words).current_dir(folder).output().expect("promtool runs");
        let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{words:?}: {told}");
    }
}

pub(crate) fn promtool_can_read_the_metrics(house: &House) {
    if !has_promtool() {
        return;
    }
    let (pooler, address) = super::http::pooler(house, "alerts_metrics", &[]);
    pooler.client("u", "alerts_metrics").run("select 1");
    let (status, body) = super::http::get(address, "/metrics", "");
    assert_eq!(status, 200);
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = command.spawn().expect("promtool runs");
    promtool.stdin.take().expect("a pipe").write_all(body.as_bytes()).expect("promtool reads");
    let output = promtool.wait_with_output().expect("promtool ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    // Its remarks about names are advice, and the names of the exporter for PgBouncer are not ours to choose.
    let is_ours = |line: &&str| line.starts_with("trunkline_");
    let advice: Vec<&str> = told.lines().filter(is_ours).collect();
    assert!(!told.contains("error while linting") && advice.is_empty(), "{told}");
}
