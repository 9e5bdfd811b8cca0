//! Rules about memory, pages, processors and disks of the server's machine.
//!
//! Always true: what the machine does not show is not guessed; processors and memory may be given by options instead.
//! Not here: reading `/proc` (`facts/host`).

use crate::facts::{Host, Observed, Postgres, pages_needed};
use crate::findings::{Severity, Verdicts};

use super::{Case, at, judged, percent, plain, size, time};

/// D01: more connections than processors can serve.
pub(super) fn too_many_for_cores(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let most = case.server()?.number("max_connections")?;
        let cores = case.cores()?;
        if most > CONNECTIONS_A_CORE * cores {
            let evidence = format!(
                "max_connections {} > {} x {} processors",
                plain(most),
                plain(CONNECTIONS_A_CORE),
                plain(cores)
            );
            verdicts.fires(&at("server"), "max_connections", evidence);
        }
        let active = case.waits()?.active_mean();
        if active > ACTIVE_A_CORE * cores {
            let evidence = format!(
                "{} sessions were running statements on average, with {} processors",
                plain(active),
                plain(cores)
            );
            verdicts.fires(&at("server"), "", evidence);
        }
        Ok(())
    });
}

/// Shared memory: as the server says, else its buffers, which are most of it.
fn shared_memory(server: &Postgres) -> Observed<f64> {
    server.number("shared_memory_size").or_else(|_| server.number("shared_buffers"))
}

/// Whether shared memory is in huge pages; `None` if that cannot be told.
fn uses_huge_pages(server: &Postgres, host: &Host) -> Observed<bool> {
    if let Ok(status) = server.setting("huge_pages_status") {
        return Ok(status == "on");
    }
    match server.setting("huge_pages")? {
        "on" => Ok(true),
        "off" => Ok(false),
        // With `try` they are used if there were enough at the start: pages that are taken or promised show it.
        _ => {
            let taken = host.of_memory("HugePages_Total")? - host.of_memory("HugePages_Free")?
                + host.of_memory("HugePages_Rsvd")?;
            Ok(taken * host.of_memory("Hugepagesize")? >= shared_memory(server)? * 0.9)
        }
    }
}

/// D08: page tables may take much memory.
pub(super) fn page_tables_expected(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let (memory, shared, most) = (case.memory()?, shared_memory(server)?, server.number("max_connections")?);
        let tables = most * shared / PTE_RATIO;
        if tables > PAGE_TABLES_SHARE_EXPECTED * memory && !uses_huge_pages(server, case.host()?)? {
            let evidence = format!(
                "{} connections x {} / 512 = {}, {} of {}",
                plain(most),
                size(shared),
                size(tables),
                percent(tables / memory),
                size(memory)
            );
            verdicts.fires(&at("host"), "huge_pages", evidence);
        }
        Ok(())
    });
}

/// D09: transparent huge pages are always on.
pub(super) fn transparent(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let word = case.host()?.transparent.clone()?;
        if word == "always" {
            verdicts.fires(&at("host"), "", "transparent_hugepage/enabled = always");
        }
        Ok(())
    });
}

/// D10: too few huge pages are reserved.
pub(super) fn huge_pages(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (server, host) = (case.server()?, case.host()?);
        if server.setting("huge_pages")? == "off" {
            return Ok(());
        }
        let page = host.of_memory("Hugepagesize")?;
        match server.number("huge_page_size") {
            // /proc/meminfo counts pages of the kernel's usual size only.
            Ok(other) if other > 0.0 && (other - page).abs() > 1.0 => {
                return Err(format!("the number of huge pages of {} (/sys/kernel/mm/hugepages)", size(other)));
            }
            _ => {}
        }
        let (pages, how) = pages(server, host, page)?;
        let there = host.of_memory("HugePages_Total")?;
        if there < pages {
            let evidence =
                format!("vm.nr_hugepages = {}, and {how} need {} pages of {}", plain(there), plain(pages), size(page));
            verdicts.fires(&at("host"), "vm.nr_hugepages", evidence);
        }
        Ok(())
    });
}

/// The pages that shared memory needs, and by which number.
fn pages(server: &Postgres, host: &Host, page: f64) -> Observed<(f64, String)> {
    // It is in pages of the default size, and -1 where there are none.
    if let Ok(pages) = server
        .number("shared_memory_size_in_huge_pages")
        .and_then(|pages| if pages > 0.0 { Ok(pages) } else { Err(String::new()) })
    {
        return Ok((pages, format!("{} of shared memory", size(shared_memory(server)?))));
    }
    if let Ok(shared) = server.number("shared_memory_size") {
        return Ok((pages_needed(shared, page), format!("{} of shared memory", size(shared))));
    }
    let processes = host.processes.as_ref().map_err(String::clone)?;
    let peak = processes.peak.ok_or("VmPeak of the postmaster")?;
    Ok((pages_needed(peak, page), format!("{} kB (VmPeak of the postmaster)", plain(peak / 1024.0))))
}

/// D11: page tables take much memory.
pub(super) fn page_tables(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let host = case.host()?;
        let (tables, memory) = (host.of_memory("PageTables")?, host.of_memory("MemTotal")?);
        let own = host.processes.as_ref().map_or(String::new(), |processes| {
            format!("; {} of it in {} processes of the server", size(processes.page_tables), processes.count)
        });
        if tables > PAGE_TABLES_SHARE_MAX * memory {
            let evidence =
                format!("PageTables {} = {} of {}{own}", size(tables), percent(tables / memory), size(memory));
            verdicts.fires(&at("host"), "", evidence);
            return Ok(());
        }
        let server = case.server()?;
        let buffers = server.number("shared_buffers")?;
        let tables = host.processes.as_ref().map(|processes| processes.page_tables).map_err(String::clone)?;
        if tables > PAGE_TABLES_OF_BUFFERS_MAX * buffers {
            let evidence = format!(
                "page tables of the server {} = {} of shared_buffers {}",
                size(tables),
                percent(tables / buffers),
                size(buffers)
            );
            verdicts.fires(&at("host"), "", evidence);
        }
        Ok(())
    });
}

/// D12: the kernel may kill PostgreSQL.
pub(super) fn out_of_memory(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let host = case.host()?;
        let overcommit = host.overcommit.clone()?;
        let processes = host.processes.as_ref().map_err(String::clone)?;
        let score = processes.oom_score_adj.ok_or("oom_score_adj of the postmaster")?;
        if (overcommit - 2.0).abs() > 0.5 && score >= 0.0 {
            let evidence = format!(
                "vm.overcommit_memory = {}, oom_score_adj of the postmaster = {}",
                plain(overcommit),
                plain(score)
            );
            verdicts.fires(&at("host"), "vm.overcommit_memory", evidence);
        }
        let (count, pss) = processes.pss.clone()?;
        let memory = case.memory()?;
        let work = case.server()?.number("work_mem")?;
        let active = case.waits()?.active_max as f64;
        let worst = pss + active * work;
        if worst > memory {
            let evidence = format!(
                "PSS of {count} processes {} + {} active x {} = {} of {}",
                size(pss),
                plain(active),
                size(work),
                size(worst),
                size(memory)
            );
            verdicts.fires(&at("host"), "work_mem", evidence);
        }
        Ok(())
    });
}

/// D13: a full server does not fit into memory.
pub(super) fn memory_at_peak(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let (memory, shared) = (case.memory()?, shared_memory(server)?);
        let (most, work) = (server.number("max_connections")?, server.number("work_mem")?);
        let is_huge = server.setting("huge_pages")? == "on"
            || case.host().is_ok_and(|host| uses_huge_pages(server, host) == Ok(true));
        let table = if is_huge { 0.0 } else { shared / PTE_RATIO };
        let peak = shared + most * (table + BACKEND_BASE + work);
        if peak > PEAK_SHARE_MAX * memory {
            let evidence = format!(
                "{} + {} x ({} page table + {} + {} work_mem) = {}, {} of {}",
                size(shared),
                plain(most),
                size(table),
                size(BACKEND_BASE),
                size(work),
                size(peak),
                percent(peak / memory),
                size(memory)
            );
            verdicts.fires(&at("server"), "max_connections", evidence);
        }
        Ok(())
    });
}

/// D14: sorts go to disk though there is memory, or may take too much.
pub(super) fn work_mem(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let server = case.server()?;
        let (memory, buffers) = (case.memory()?, server.number("shared_buffers")?);
        let (most, work) = (server.number("max_connections")?, server.number("work_mem")?);
        let workers = server.number("max_parallel_workers")?;
        let fits = ((memory - buffers) / ((most + workers) * 3.0)).max(0.0);
        let (_, after) = server.after.as_ref().map_err(String::clone)?;
        let written = after.sum(|one| Some(one.temp_bytes))? - server.before.sum(|one| Some(one.temp_bytes))?;
        if written > 0.0 && work < fits {
            let evidence = format!(
                "{} of temporary files were written; work_mem = {}, and {} fit",
                size(written),
                size(work),
                size(fits)
            );
            verdicts.fires(&at("server"), "work_mem", evidence);
        } else if work > WORK_MEM_ABOVE * fits {
            let evidence = format!(
                "work_mem = {}; ({} - {}) / ({} + {}) / 3 = {}",
                size(work),
                size(memory),
                size(buffers),
                plain(most),
                plain(workers),
                size(fits)
            );
            verdicts.fires(&at("server"), "work_mem", evidence);
        }
        Ok(())
    });
}

/// D15: shared_buffers are an unusual part of memory.
pub(super) fn shared_buffers(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let (memory, buffers) = (case.memory()?, case.server()?.number("shared_buffers")?);
        let share = buffers / memory;
        if !(BUFFERS_SHARE_MIN..=BUFFERS_SHARE_MAX).contains(&share) {
            let evidence = format!("shared_buffers = {}, {} of {}", size(buffers), percent(share), size(memory));
            verdicts.fires(&at("server"), "shared_buffers", evidence);
        }
        Ok(())
    });
}

/// D44: the data directory is on a network filesystem.
pub(super) fn network_disk(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let kind = case.host()?.filesystem.clone()?;
        if NETWORK_FILESYSTEMS.iter().any(|network| kind.starts_with(network)) {
            verdicts.fires(&at("host"), "data_directory", format!("the filesystem of data_directory is {kind}"));
        }
        Ok(())
    });
    judged(verdicts, |verdicts| {
        let commits = case.server()?.commits.clone()?;
        let [half, waited] = [commits.median, commits.p99].map(|time| (time - commits.way).max(0.0));
        // Where commits are slow, few could be tried; if half of them are too slow, 99 % of more would not be fast enough.
        if commits.count < COMMITS_MIN && half <= COMMIT_MAX {
            return Err(format!("more time: {} commits were tried, and {COMMITS_MIN} are needed", commits.count));
        }
        if waited > COMMIT_MAX {
            let evidence = format!(
                "99 % of {} commits took up to {} on the server, half of them {}",
                plain(commits.count as f64),
                time(waited),
                time(half)
            );
            verdicts.fires(&at("server"), "commit", evidence);
        }
        Ok(())
    });
}

/// D47: a walsender is busy.
pub(super) fn walsenders(case: &Case<'_>, verdicts: &mut Verdicts<'_>) {
    judged(verdicts, |verdicts| {
        let senders = case.server()?.replication.as_ref().map_err(String::clone)?;
        if senders.is_empty() {
            return Ok(());
        }
        let host = case.host()?;
        host.processes.as_ref().map_err(String::clone)?;
        let usage = host.usage.as_ref().map_err(String::clone)?;
        for sender in senders {
            let Some(share) = usage.get(&sender.pid).copied().filter(|share| *share > WALSENDER_SOFT) else { continue };
            let severity = if share > WALSENDER_HARD { Severity::Warning } else { Severity::Information };
            let evidence = format!("pid {} uses {} of a processor", sender.pid, percent(share));
            verdicts.fires_as(severity, &at("host"), sender.application.clone().unwrap_or_default(), evidence);
        }
        Ok(())
    });
}

/// Seconds for which a commit waits for the disk.
const COMMIT_MAX: f64 = 0.01;
/// Fewer have no 99th percentile.
const COMMITS_MIN: usize = 100;
const CONNECTIONS_A_CORE: f64 = 10.0;
const ACTIVE_A_CORE: f64 = 4.0;
/// An entry of 8 bytes for each page of 4,096.
const PTE_RATIO: f64 = 512.0;
const PAGE_TABLES_SHARE_EXPECTED: f64 = 0.05;
const PAGE_TABLES_SHARE_MAX: f64 = 0.02;
const PAGE_TABLES_OF_BUFFERS_MAX: f64 = 0.1;
/// Bytes that a backend has of its own without work.
const BACKEND_BASE: f64 = 5.0 * 1024.0 * 1024.0;
const PEAK_SHARE_MAX: f64 = 0.9;
const WORK_MEM_ABOVE: f64 = 4.0;
const BUFFERS_SHARE_MIN: f64 = 0.2;
const BUFFERS_SHARE_MAX: f64 = 0.4;
const NETWORK_FILESYSTEMS: [&str; 8] = ["nfs", "cifs", "smb", "ceph", "fuse.gluster", "glusterfs", "lustre", "9p"];
const WALSENDER_SOFT: f64 = 0.1;
const WALSENDER_HARD: f64 = 0.2;
