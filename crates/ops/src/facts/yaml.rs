//! YAML as a tree with lines, within limits.
//!
//! Always true: nothing is expanded: an alias is a reference to the node that it names, so that a small file cannot become a large one; nesting
//! and the number of nodes are bounded, and nothing here recurses on its input. All scalars are texts.
//! Not here: what a document means.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

/// The documents of a file.
#[derive(Debug, Default)]
pub(crate) struct Yaml {
    nodes: Vec<Node>,
    documents: Vec<usize>,
}

#[derive(Debug)]
struct Node {
    line: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Scalar(String),
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    /// Its end has not been reached yet.
    Open(Vec<usize>),
}

/// A node of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'y> {
    yaml: &'y Yaml,
    node: usize,
}

impl Yaml {
    /// Reads all documents of a file.
    ///
    /// # Errors
    /// The line, counted from 1, and what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, (u32, String)> {
        if text.len() > BYTES_MAX {
            return Err((1, format!("more than {BYTES_MAX} bytes of YAML")));
        }
        let mut tree = Self::default();
        let mut open: Vec<usize> = Vec::new();
        let mut anchors = BTreeMap::<usize, usize>::new();
        let mut parser = Parser::new_from_str(text);
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| (to_line(error.marker().line()), wrong(text, error.info())))?;
            let line = to_line(span.start.line());
            let (node, anchor) = match event {
                Event::Scalar(value, _, anchor, _) => (tree.add(line, Content::Scalar(value.into_owned())), anchor),
                Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                    (tree.add(line, Content::Open(Vec::new())), anchor)
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(node) = open.pop() {
                        tree.close(node, event == Event::SequenceEnd);
                    }
                    continue;
                }
                Event::Alias(anchor) => {
                    let target = anchors.get(&anchor).copied().filter(|node| !tree.is_open(*node));
                    let node = target.ok_or((line, "an alias of what does not exist, or contains it".to_owned()))?;
                    tree.attach(&open, node);
                    continue;
                }
                Event::StreamEnd => break,
                _ => continue,
            };
            if anchor > 0 {
                anchors.insert(anchor, node);
            }
            tree.attach(&open, node);
            if tree.is_open(node) {
                open.push(node);
            }
            if open.len() > DEPTH_MAX || tree.nodes.len() > NODES_MAX {
                return Err((line, format!("more than {DEPTH_MAX} levels or {NODES_MAX} values")));
            }
        }
        Ok(tree)
    }

    /// The root of each document.
    pub(crate) fn documents(&self) -> impl Iterator<Item = Value<'_>> {
        self.documents.iter().map(|&node| Value { yaml: self, node })
    }

    /// Every text of the file with its line, in the order of the file.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (u32, &str)> {
        self.nodes.iter().filter_map(|node| match &node.content {
            Content::Scalar(text) => Some((node.line, &**text)),
            _ => None,
        })
    }

    /// Every mapping of the file, in the order of the file.
    pub(crate) fn maps(&self) -> impl Iterator<Item = Value<'_>> {
        let is_map = |node: &usize| matches!(self.nodes[*node].content, Content::Map(_));
        (0..self.nodes.len()).filter(is_map).map(|node| Value { yaml: self, node })
    }

    fn add(&mut self, line: u32, content: Content) -> usize {
        self.nodes.push(Node { line, content });
        self.nodes.len() - 1
    }

    fn attach(&mut self, open: &[usize], node: usize) {
        match open.last().map(|&parent| &mut self.nodes[parent].content) {
            Some(Content::Open(children)) => children.push(node),
            _ => self.documents.push(node),
        }
    }

    fn is_open(&self, node: usize) -> bool {
        matches!(self.nodes[node].content, Content::Open(_))
    }

    fn close(&mut self, node: usize, is_list: bool) {
        let Content::Open(children) = &mut self.nodes[node].content else { return };
        let children = std::mem::take(children);
        self.nodes[node].content = match is_list {
            true => Content::List(children),
            false => Content::Map(children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
        };
    }
}

impl<'y> Value<'y> {
    /// The line, counted from 1.
    pub(crate) fn line(self) -> u32 {
        self.content().0
    }

    /// The value of a key of a mapping, or of what is merged into it by `<<`.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        let mut map = self;
        for _ in 0..MERGES_MAX {
            if let Some(value) = map.own(key) {
                return Some(value);
            }
            map = map.own("<<")?;
        }
        None
    }

    /// The value at the end of a path of keys, separated by dots.
    pub(crate) fn path(self, path: &str) -> Option<Self> {
        path.split('.').try_fold(self, Self::get)
    }

    /// The elements of a list; none of anything else.
    pub(crate) fn items(self) -> impl Iterator<Item = Self> {
        let items = match self.content().1 {
            Content::List(items) => &items[..],
            _ => &[],
        };
        items.iter().map(move |&node| Self { node, ..self })
    }

    /// The keys and values of a mapping; none of anything else.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'y str, Self)> {
        let pairs = match self.content().1 {
            Content::Map(pairs) => &pairs[..],
            _ => &[],
        };
        let key = move |node| Self { node, ..self }.text().unwrap_or_default();
        pairs.iter().map(move |&(name, node)| (key(name), Self { node, ..self }))
    }

    /// The text of a scalar.
    pub(crate) fn text(self) -> Option<&'y str> {
        match self.content().1 {
            Content::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The number of a scalar.
    pub(crate) fn number(self) -> Option<f64> {
        self.text()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// Whether it is empty, or a word for nothing.
    pub(crate) fn is_nothing(self) -> bool {
        match self.content().1 {
            Content::Scalar(text) => ["", "~", "null", "false", "no", "off"].contains(&&**text),
            Content::List(items) => items.is_empty(),
            Content::Map(pairs) => pairs.is_empty(),
            Content::Open(_) => true,
        }
    }

    fn own(self, key: &str) -> Option<Self> {
        self.entries().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn content(self) -> (u32, &'y Content) {
        let node = &self.yaml.nodes[self.node];
        (node.line, &node.content)
    }
}

/// The text of an error; templates are the usual reason.
fn wrong(text: &str, error: &str) -> String {
    let is_template = text.contains("{{");
    let advice = if is_template { "; it looks like a template: render it first (helm template)" } else { "" };
    format!("no valid YAML: {error}{advice}")
}

fn to_line(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

const BYTES_MAX: usize = 8 << 20;
const DEPTH_MAX: usize = 64;
const NODES_MAX: usize = 200_000;
const MERGES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Yaml {
        Yaml::parse(text).expect("YAML")
    }

    #[test]
    fn a_value_is_found_by_its_path_and_has_its_line() {
        let yaml = of("---\na: 1\n---\nb:\n  - x\n  - c: {d: \"two\"}\n");
        let documents: Vec<_> = yaml.documents().collect();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].get("a").and_then(Value::number), Some(1.0));
        let list = documents[1].get("b").expect("b");
        let second = list.items().nth(1).expect("an item");
        assert_eq!(second.path("c.d").map(|value| (value.text(), value.line())), Some((Some("two"), 6)));
        assert!(second.get("c").is_some_and(|value| !value.is_nothing()) && second.path("c.e.f").is_none());
    }

    #[test]
    fn an_alias_refers_and_a_merge_fills_up() {
        let yaml = of("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nsame: *b\n");
        let root = yaml.documents().next().expect("a document");
        let number = |path: &str| root.path(path).and_then(Value::number);
        assert_eq!((number("use.x"), number("use.y"), number("same.y")), (Some(1.0), Some(3.0), Some(2.0)));
    }

    #[test]
    fn aliases_of_aliases_stay_as_small_as_their_file() {
        let mut text = "a0: &a0 [x, x]\n".to_owned();
        for level in 1..60 {
            text += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", "));
        }
        let yaml = of(&text);
        assert!(yaml.nodes.len() < 300 && yaml.texts().count() < 100);
    }

    #[test]
    fn deep_large_broken_and_templated_files_are_refused_with_a_line() {
        for (text, part) in [
            ("[".repeat(100_000), ""),
            ("{a: ".repeat(100_000), ""),
            ((0..100).map(|n| format!("{}a:\n", " ".repeat(n))).collect(), "64 levels"),
            ("- a\n".repeat(300_000), "200000 values"),
            ("a: &a [*a]".to_owned(), "contains it"),
            ("a: *b".to_owned(), ""),
            ("a: [1\nb: }".to_owned(), "no valid YAML"),
            ("a: {{ .Values.a }}\n{{- if .x }}\n".to_owned(), "helm template"),
        ] {
            let (line, why) = Yaml::parse(&text).expect_err("refused");
            assert!(line >= 1 && why.contains(part), "{line}: {why}");
        }
    }
}
