//! Transcripts of pools: events, a line of dashes, and the commands that follow.
//!
//! Always true: the commands that follow a block of events are compared line by line; after them the idle servers are
//! named, whenever they have changed and there are any.
//! Not here: random events (`properties`).
//!
//! `cargo test -p pool --test transcripts -- --ignored` rewrites the expected commands with the present ones; review the
//! difference.

mod stage;

use std::fs;
use std::path::PathBuf;

use stage::Stage;

#[test]
fn every_story_ends_as_it_is_told() {
    let mut wrong = Vec::new();
    for path in stories() {
        let told = fs::read_to_string(&path).expect("a story can be read");
        let played = play(&told);
        if let Some((line, (expected, came))) =
            told.lines().zip(played.lines()).enumerate().find(|(_, (expected, came))| expected != came)
        {
            wrong.push(format!("{}:{}: told {expected:?}, came {came:?}", path.display(), line + 1));
        } else if told != played {
            wrong.push(format!("{}: one is longer than the other; played:\n{played}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
#[ignore = "writes the stories anew"]
fn write_the_stories_as_they_are_played() {
    for path in stories() {
        let told = fs::read_to_string(&path).expect("a story can be read");
        fs::write(&path, play(&told)).expect("a story can be written");
    }
}

/// The paths of all transcripts, in the order of their names.
fn stories() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let entries = fs::read_dir(folder).expect("there are stories");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    assert!(paths.len() >= 25, "the stories were found");
    paths
}

/// Plays a transcript, and returns it with the actual commands in place of the expected ones.
fn play(story: &str) -> String {
    let mut stage = Stage::new();
    let mut played = String::new();
    let mut is_told = false;
    for line in story.lines() {
        match line.trim() {
            "----" => {
                is_told = true;
                played += "----\n";
                stage.outcome().iter().for_each(|line| played += &format!("{line}\n"));
            }
            "" => {
                is_told = false;
                played += "\n";
            }
            _ if is_told => {}
            comment if comment.starts_with('#') => played += &format!("{line}\n"),
            event => {
                stage.play(event);
                played += &format!("{line}\n");
            }
        }
    }
    assert!(stage.outcome().is_empty(), "a story ends with an outcome:\n{story}");
    played
}
