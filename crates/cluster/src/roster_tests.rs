//! Transcripts: which members a cluster has when its agents answer this way.

use super::*;
use crate::agents::AgentAnswer;

/// Agents that are asked once a second, and the list that follows from their answers.
struct Play {
    roster: Roster,
    agents: Agents,
    now: Time,
    answers: Vec<Result<AgentAnswer, Arc<str>>>,
    primary: Option<&'static str>,
    news: Vec<String>,
}

const LASTS: Duration = Duration::from_secs(3);

fn knows(members: &[&str]) -> Result<AgentAnswer, Arc<str>> {
    let member = |name: &&str| AgentMember {
        name: format!("node-{name}").into(),
        place: format!("{name}:5432"),
        agent: Some(format!("http://{name}:8008")),
        ..AgentMember::default()
    };
    Ok(AgentAnswer { members: members.iter().map(member).collect(), ..AgentAnswer::default() })
}

fn silent() -> Result<AgentAnswer, Arc<str>> {
    Err("connection refused".into())
}

impl Play {
    fn new(answers: Vec<Result<AgentAnswer, Arc<str>>>) -> Self {
        let now = Time::from_secs(1000);
        let places = (0..answers.len()).map(|place| format!("agent{place}:8008").into()).collect();
        Self {
            roster: Roster::default(),
            agents: Agents::new(places, now),
            now,
            answers,
            primary: None,
            news: Vec::new(),
        }
    }

    fn passes(&mut self, secs: u64) -> String {
        for _ in 0..secs {
            while let Some(place) = self.agents.start(self.now) {
                self.agents.told(place, self.now, Duration::from_secs(1), self.answers[place].clone());
                self.look();
            }
            self.now = self.now + Duration::from_secs(1);
            self.look();
        }
        self.members()
    }

    fn look(&mut self) {
        let mut news = Vec::new();
        self.roster.look(self.now, &self.agents, LASTS, self.primary, &mut news);
        self.news.extend(news.into_iter().map(|news| news.text));
    }

    fn members(&self) -> String {
        let places = self.roster.members.iter().map(|listed| listed.member.place.trim_end_matches(":5432"));
        places.collect::<Vec<_>>().join(",")
    }
}

#[test]
fn members_come_by_the_word_of_most_agents() {
    let mut play = Play::new(vec![knows(&["b", "a"]), knows(&["a", "b"]), knows(&["a", "b", "x"])]);
    assert_eq!(play.passes(1), "a,b");
    play.answers = vec![knows(&["c", "b", "a"]); 3];
    assert_eq!(play.passes(2), "a,b,c", "those that were there keep their places");
    play.answers[0] = silent();
    play.answers[1] = silent();
    assert_eq!(play.passes(300), "a,b,c");
}

#[test]
fn one_agent_alone_says_nothing_before_the_others_were_asked() {
    let mut play = Play::new(vec![knows(&["x"]), silent(), knows(&["a", "b"])]);
    let place = play.agents.start(play.now).expect("an agent");
    play.agents.told(place, play.now, Duration::from_secs(1), knows(&["x"]));
    play.look();
    assert_eq!(play.members(), "", "most of three are two");
    play.answers[0] = knows(&["a", "b"]);
    assert_eq!(play.passes(2), "a,b");
    let mut play = Play::new(vec![silent(), silent(), knows(&["a"])]);
    assert_eq!(play.passes(1), "a", "the others have been asked");
}

#[test]
fn a_member_goes_when_no_agent_has_known_it_for_a_minute() {
    let mut play = Play::new(vec![knows(&["a", "b", "c"]); 2]);
    assert_eq!(play.passes(1), "a,b,c");
    play.answers = vec![knows(&["a", "b"]), knows(&["a", "b", "c"])];
    assert_eq!(play.passes(300), "a,b,c", "one agent knows it");
    play.answers = vec![knows(&["a", "b"]); 2];
    assert_eq!(play.passes(59), "a,b,c");
    play.answers = vec![knows(&["a", "b", "c"]); 2];
    play.passes(1);
    play.answers = vec![knows(&["a", "b"]); 2];
    assert_eq!(play.passes(59), "a,b,c", "it was there a minute ago");
    assert_eq!(play.passes(4), "a,b");
}

#[test]
fn silence_takes_nobody_away_and_neither_does_a_list_without_the_primary() {
    let mut play = Play::new(vec![knows(&["a", "b"]); 2]);
    play.passes(1);
    play.answers = vec![silent(); 2];
    assert_eq!(play.passes(1000), "a,b");
    play.answers = vec![knows(&["c"]); 2];
    assert_eq!(play.passes(50), "a,b,c");
    play.answers = vec![silent(); 2];
    play.passes(1000);
    play.answers = vec![knows(&["c"]); 2];
    play.primary = Some("a:5432");
    assert_eq!(play.passes(50), "a,b,c", "the minute begins again after the silence");
    assert_eq!(play.passes(100), "a,c");
    play.primary = None;
    assert_eq!(play.passes(1), "c");
    play.answers = vec![knows(&[]); 2];
    assert_eq!(play.passes(1000), "c", "an empty list is no answer");
}

#[test]
fn there_is_an_end_to_members() {
    let names: Vec<String> = (0..500).map(|number| format!("h{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut play = Play::new(vec![knows(&names[..100])]);
    play.passes(5);
    play.answers = vec![knows(&names[100..])];
    play.passes(10);
    assert_eq!((play.roster.members.len(), &*play.roster.members[31].member.place), (32, "h031:5432"));
    assert_eq!(play.news, ["Patroni names more than 32 members: the others are not used"]);
}
