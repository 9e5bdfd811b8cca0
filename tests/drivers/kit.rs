//! The drivers, and how the program of each is made: what is fetched, where it goes, how it is started.
//!
//! Always true: a language's own tool fetches what the lock file beside the program names, into a folder below
//! `target/drivers`; what is missing on this machine is said exactly. Nothing is fetched twice.
//! Not here: what the programs do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::program::try_run;

use Language::{Go, Java, Node, Python, Rust};

/// A driver of the matrix.
#[derive(Debug)]
pub(crate) struct Driver {
    /// As its own people call it.
    pub(crate) name: &'static str,
    language: Language,
    /// The program's name in the folder of its language.
    program: &'static str,
}

/// All of them, in the order in which they are run.
pub(crate) const DRIVERS: [Driver; 9] = [
    Driver { name: "psycopg", language: Python, program: "psycopg_cases.py" },
    Driver { name: "asyncpg", language: Python, program: "asyncpg_cases.py" },
    Driver { name: "psycopg2", language: Python, program: "psycopg2_cases.py" },
    Driver { name: "pgx", language: Go, program: "pgx" },
    Driver { name: "pq", language: Go, program: "pq" },
    Driver { name: "pgjdbc", language: Java, program: "Cases" },
    Driver { name: "node-postgres", language: Node, program: "cases.js" },
    Driver { name: "tokio-postgres", language: Rust, program: "tokio-postgres" },
    Driver { name: "sqlx", language: Rust, program: "sqlx" },
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Language {
    Python,
    Go,
    Java,
    Node,
    Rust,
}

/// A driver's program, ready to be run.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) driver: &'static Driver,
    source: PathBuf,
    home: PathBuf,
}

impl Kit {
    /// Fetches and builds what is not there yet.
    ///
    /// # Errors
    /// What is missing on this machine, or what the tool that should have made it said.
    pub(crate) fn prepare(driver: &'static Driver, folder: &Path) -> Result<Self, String> {
        let (name, tools) = driver.language.needs();
        for tool in tools {
            let there = Command::new(tool).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
            there.map_err(|_| format!("there is no `{tool}` on this machine, which it needs"))?;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(name);
        let kit = Self { driver, source, home: folder.join(name) };
        fs::create_dir_all(&kit.home).map_err(|error| format!("cannot make {}: {error}", kit.home.display()))?;
        match driver.language {
            Python => kit.prepare_python(),
            Go => kit.prepare_go(),
            Java => kit.prepare_java(),
            Node => kit.prepare_node(),
            Rust => kit.prepare_rust(),
        }?;
        Ok(kit)
    }

    /// Its program; the names of the cases are its arguments.
    pub(crate) fn command(&self) -> Command {
        match self.driver.language {
            Python => {
                let mut command = Command::new(self.home.join("bin/python"));
                command.env("PYTHONDONTWRITEBYTECODE", "1").arg(self.source.join(self.driver.program));
                command
            }
            Go => Command::new(self.home.join(self.driver.program)),
            Java => {
                let mut command = Command::new("java");
                let path = format!("{0}/jars/*:{0}/classes", self.home.display());
                command.args(["-Xmx768m", "-cp", &path, self.driver.program]);
                command
            }
            Node => {
                let mut command = Command::new("node");
                command.env("NODE_PATH", self.home.join("node_modules")).arg(self.source.join(self.driver.program));
                command
            }
            Rust => Command::new(self.home.join("debug").join(self.driver.program)),
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

    /// Go looks itself whether anything has changed.
    fn prepare_go(&self) -> Result<(), String> {
        let mut go = Command::new("go");
        go.current_dir(&self.source).args(["build", "-o"]).arg(self.home.join(self.driver.program));
        go.arg(format!("./{}", self.driver.program));
        // So that what it keeps can be deleted like everything else below `target`.
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

    /// Cargo looks itself whether anything has changed.
    fn prepare_rust(&self) -> Result<(), String> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.source).args(["build", "--quiet", "--locked", "--bin", self.driver.program]);
        call(cargo.arg("--target-dir").arg(&self.home))
    }

    /// Does it unless it has been done for this very text of the file.
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
    /// Its folder, and the programs without which it cannot be.
    fn needs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Python => ("python", &["python3"]),
            Go => ("go", &["go"]),
            Java => ("java", &["java", "javac", "mvn"]),
            Node => ("node", &["node", "npm"]),
            Rust => ("rust", &["cargo"]),
        }
    }
}

/// For one call of a tool that fetches, from wherever.
const FETCH_MAX: Duration = Duration::from_secs(900);

fn sources(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let files = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = files.flatten().map(|file| file.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect())
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
