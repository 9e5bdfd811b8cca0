//! Stories of loans: what clients and servers send, dashes, and what comes out.
//!
//! Always true: what comes out of each block is compared with the story line by line; however the input is cut into
//! parts, the same bytes come out on each side, and the same is known of each session.
//! Not here: which client gets which server (crate `pool`), and real sockets (`tests/talk`).
//!
//! `cargo test -p protocol --test loans -- --ignored` rewrites the stories with what comes out now; read the difference
//! before you trust it.

mod pair;

use std::fs;
use std::path::PathBuf;

use pair::{Outcome, Stage};

#[test]
fn every_story_ends_as_it_is_told() {
    let mut wrong = Vec::new();
    for (path, told) in stories() {
        let played = play(&told, 0).0;
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

/// A story that depends on whole messages has the line `# whole`.
#[test]
fn however_it_is_cut_the_same_comes_out() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (path, told) in stories() {
        for story in told.split("\n## ").skip(1).filter(|story| !story.contains("\n# whole\n")) {
            let story = format!("## {story}");
            let whole = play(&story, 0).1;
            let differs = |cut: &usize| play(&story, *cut).1 != whole;
            let title = story.lines().next().unwrap_or_default();
            if let Some(cut) = (1..=40).find(differs) {
                wrong.push(format!("{}: {title} In parts of {cut} bytes.", path.display()));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count >= 120, "most stories are cut: {count}");
}

#[test]
#[ignore = "writes the stories anew"]
fn write_the_stories_as_they_are_played() {
    for (path, told) in stories() {
        fs::write(&path, play(&told, 0).0).expect("a story can be written");
    }
}

/// All stories, ordered by file name; a file has several, each below its title.
fn stories() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/loans");
    let entries = fs::read_dir(folder).expect("there are stories");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let told = fs::read_to_string(&path).expect("a story can be read");
        (path, told)
    };
    let stories: Vec<_> = paths.into_iter().map(read).collect();
    let count: usize =
        stories.iter().map(|(_, told)| told.lines().filter(|line| line.starts_with("## ")).count()).sum();
    assert!(count >= 150, "the stories were found: {count}");
    stories
}

/// Plays the stories of a file. Returns the file with the present output in place of the recorded one, and the outcome of
/// each story.
fn play(told: &str, cut: usize) -> (String, Vec<Outcome>) {
    let mut stage = Stage::new(cut);
    let (mut played, mut outcomes, mut is_told) = (String::new(), Vec::new(), false);
    for line in told.lines() {
        match line.trim() {
            "----" => {
                played += "----\n";
                for line in stage.lines() {
                    played += &format!("{line}\n");
                }
                is_told = true;
                continue;
            }
            "" => is_told = false,
            _ if is_told => continue,
            title if title.starts_with("## ") => {
                outcomes.push(stage.outcome());
                stage = Stage::new(cut);
            }
            comment if comment.starts_with('#') => {}
            line => stage.play(line),
        }
        played += line;
        played.push('\n');
    }
    outcomes.push(stage.outcome());
    (played, outcomes)
}
