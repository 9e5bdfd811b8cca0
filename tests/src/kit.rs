//! Programs in other languages, and how each is built: its dependencies, its folders, its command.
//!
//! Always true: a language's own tool fetches what the lock file beside the program names, into a separate folder; a missing
//! tool is named in the error. Nothing is fetched twice.
//! Not here: what the programs do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use Language::{Go, Java, Node, Python, Ruby, Rust};

use crate::program::try_run;

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Language {
    /// With packages from pip in a virtual environment.
    Python,
    /// One module with a folder for each program.
    Go,
    /// With jars from Maven.
    Java,
    /// With packages from npm.
    Node,
    /// With the distribution's packages; each of these libraries is required by the program.
    Ruby(&'static [&'static str]),
    /// One package with a binary for each program.
    Rust,
}

/// A program that is ready to run.
#[derive(Debug)]
pub struct Kit {
    language: Language,
    /// Its name in the folder of its language.
    program: &'static str,
    source: PathBuf,
    home: PathBuf,
}

impl Kit {
    /// Fetches and builds what is not there yet. A language's programs are in a folder of its name in `sources`; their
    /// dependencies go to one of the same name in `homes`.
    ///
    /// # Errors
    /// What is missing on this machine, or the output of the tool that failed.
    pub fn prepare(language: Language, program: &'static str, sources: &Path, homes: &Path) -> Result<Self, String> {
        let (name, tools) = language.needs();
        for tool in tools {
            let there = Command::new(tool).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
            there.map_err(|_| format!("there is no `{tool}` on this machine, which it needs"))?;
        }
        let kit = Self { language, program, source: sources.join(name), home: homes.join(name) };
        fs::create_dir_all(&kit.home).map_err(|error| format!("cannot make {}: {error}", kit.home.display()))?;
        match language {
            Python => kit.prepare_python(),
            Go => kit.prepare_go(),
            Java => kit.prepare_java(),
            Node => kit.prepare_node(),
            Ruby(libraries) => has_ruby(libraries),
            Rust => kit.prepare_rust(),
        }?;
        Ok(kit)
    }

    /// The command of its program, without arguments.
    pub fn command(&self) -> Command {
        match self.language {
            Python => {
                let mut command = Command::new(self.home.join("bin/python"));
                command.env("PYTHONDONTWRITEBYTECODE", "1").arg(self.source.join(self.program));
                command
            }
            Go => Command::new(self.home.join(self.program)),
            Java => {
                let mut command = Command::new("java");
                let path = format!("{0}/jars/*:{0}/classes", self.home.display());
                command.args(["-Xmx768m", "-cp", &path, self.program]);
                command
            }
            Node => {
                let mut command = Command::new("node");
                command.env("NODE_PATH", self.home.join("node_modules")).arg(self.source.join(self.program));
                command
            }
            Ruby(_) => {
                let mut command = Command::new("ruby");
                command.arg(self.source.join(self.program));
                command
            }
            Rust => Command::new(self.home.join("debug").join(self.program)),
        }
    }

    fn prepare_python(&self) -> Result<(), String> {
        self.once("requirements.txt", || {
            call(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&self.home))?;
            let mut pip = Command::new(self.home.join("bin/python"));
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
                "-r",
            ]);
            call(pip.arg(self.source.join("requirements.txt")))
        })
    }

    /// Go itself checks whether anything has changed.
    fn prepare_go(&self) -> Result<(), String> {
        let mut go = Command::new("go");
        go.current_dir(&self.source).args(["build", "-o"]).arg(self.home.join(self.program));
        go.arg(format!("./{}", self.program));
        // So that its cache can be deleted like everything else below `target`.
        go.env("GOFLAGS", "-modcacherw -buildvcs=false").env("GOPATH", self.home.join("path"));
        go.env("GOCACHE", self.home.join("cache"));
        call(&mut go)
    }

    fn prepare_java(&self) -> Result<(), String> {
        self.once("pom.xml", || {
            let mut maven = Command::new("mvn");
            maven.args(["--batch-mode", "--quiet", "-f"]).arg(self.source.join("pom.xml"));
            maven.arg("dependency:copy-dependencies");
            maven.arg(format!("-DoutputDirectory={}", self.home.join("jars").display()));
            maven.arg(format!("-Dmaven.repo.local={}", self.home.join("repository").display()));
            call(&mut maven)
        })?;
        let mut javac = Command::new("javac");
        javac.arg("-d").arg(self.home.join("classes")).arg("-cp").arg(format!("{}/jars/*", self.home.display()));
        call(javac.args(sources(&self.source, "java")?))
    }

    fn prepare_node(&self) -> Result<(), String> {
        self.once("package-lock.json", || {
            for name in ["package.json", "package-lock.json"] {
                fs::copy(self.source.join(name), self.home.join(name)).map_err(|error| format!("{name}: {error}"))?;
            }
            call(Command::new("npm").current_dir(&self.home).args(["ci", "--silent", "--ignore-scripts"]))
        })
    }

    /// Cargo itself checks whether anything has changed.
    fn prepare_rust(&self) -> Result<(), String> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.source).args(["build", "--quiet", "--locked", "--bin", self.program]);
        call(cargo.arg("--target-dir").arg(&self.home))
    }

    /// Does the work unless it was done for this content of the file.
    fn once(&self, file: &str, work: impl Fn() -> Result<(), String>) -> Result<(), String> {
        let wanted = fs::read_to_string(self.source.join(file)).map_err(|error| format!("{file}: {error}"))?;
        let done = self.home.join("done-for");
        if fs::read_to_string(&done).is_ok_and(|text| text == wanted) {
            return Ok(());
        }
        work()?;
        fs::write(&done, wanted).map_err(|error| format!("cannot write {}: {error}", done.display()))
    }
}

impl Language {
    /// The folder of the language, and the tools that it needs.
    fn needs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Python => ("python", &["python3"]),
            Go => ("go", &["go"]),
            Java => ("java", &["java", "javac", "mvn"]),
            Node => ("node", &["node", "npm"]),
            Ruby(_) => ("ruby", &["ruby"]),
            Rust => ("rust", &["cargo"]),
        }
    }
}

/// For one call of a tool that fetches something.
const FETCH_MAX: Duration = Duration::from_secs(900);

fn sources(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let files = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = files.flatten().map(|file| file.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect())
}

/// Ruby's libraries come from the distribution, as native code that fits its Ruby.
fn has_ruby(libraries: &[&str]) -> Result<(), String> {
    let is_missing = |library: &&&str| {
        let (ended, _) = try_run(Command::new("ruby").args(["-r", library, "-e", ""]), FETCH_MAX);
        ended.is_none_or(|status| !status.success())
    };
    match libraries.iter().find(is_missing) {
        None => Ok(()),
        Some(library) => Err(format!("ruby on this machine has no `{library}`, which it needs")),
    }
}

fn call(command: &mut Command) -> Result<(), String> {
    eprintln!("{command:?}");
    let (ended, said) = try_run(command, FETCH_MAX);
    let words = format!("{}{}", said.out, said.err);
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(format!("{:?} failed: {}", command.get_program(), words.trim())),
        None => Err(format!("{:?} did not end within {FETCH_MAX:?}: {}", command.get_program(), words.trim())),
    }
}
