//! What a parse tree requires of a reading of the text.
//!
//! Always true: all requirements are read from the tree alone.
//! Not here: the reading (`route`).

use std::collections::BTreeMap;

use route::{Act, Class, Control, DirtyState, Value};
use serde_json::Value as Json;

/// Checks that the class says at least what the tree says, statement by statement.
pub(crate) fn check(tree: &Json, class: &Class) -> Result<(), String> {
    let statements = tree["stmts"].as_array().map_or(&[][..], Vec::as_slice);
    if class.acts.len() != statements.len() {
        // A text that was given up as a whole has no statements to count.
        if class.touches.has(DirtyState::ANYTHING) && class.acts.len() == 1 {
            return Ok(());
        }
        return Err(format!("{} statements", statements.len()));
    }
    for (act, statement) in class.acts.iter().zip(statements) {
        let statement = &statement["stmt"]["node"];
        let Some((kind, node)) = statement.as_object().and_then(|node| node.iter().next()) else { continue };
        if !act.touches().has(DirtyState::ANYTHING) {
            check_one(kind, node, act)?;
        }
        let mut touched = DirtyState::NOTHING;
        walk(statement, &mut touched);
        let said = match act {
            Act::Prepare { touches, .. } => *touches | act.touches(),
            _ => act.touches(),
        };
        if !covers(said, touched) {
            return Err(format!("touches {touched:?}"));
        }
    }
    Ok(())
}

fn covers(said: DirtyState, touched: DirtyState) -> bool {
    let settings = DirtyState::SETTINGS.with(DirtyState::ANY_SETTING);
    said.has(touched.without(settings)) && (!touched.meets(settings) || said.meets(settings))
}

fn check_one(kind: &str, node: &Json, act: &Act) -> Result<(), String> {
    let expect = |is_so: bool| if is_so { Ok(()) } else { Err(format!("{kind}: {node}")) };
    match kind {
        "TransactionStmt" => expect(is_control(node, act)),
        "VariableSetStmt" => expect(is_set(node, act)),
        "PrepareStmt" => expect(matches!(act, Act::Prepare { name, .. } if **name == *text(&node["name"]))),
        "ExecuteStmt" => expect(matches!(act, Act::Execute { name } if **name == *text(&node["name"]))),
        "ExplainStmt" if node["query"]["node"]["ExecuteStmt"].is_object() => {
            let name = text(&node["query"]["node"]["ExecuteStmt"]["name"]);
            expect(matches!(act, Act::Execute { name: executed } if **executed == *name))
        }
        "DeallocateStmt" => {
            let wanted = Some(text(&node["name"])).filter(|_| node["isall"] != true);
            expect(matches!(act, Act::Deallocate { name } if name.as_deref() == wanted))
        }
        // A star is not a name.
        "UnlistenStmt" => {
            let wanted = Some(text(&node["conditionname"])).filter(|name| !name.is_empty());
            expect(matches!(act, Act::Unlisten { channel } if channel.as_deref() == wanted))
        }
        "DiscardStmt" if node["target"] == DISCARD_ALL => expect(*act == Act::DiscardAll),
        "SelectStmt" if matches!(act, Act::Set(_)) => expect(is_set_config(node, act)),
        // No other statement may be read as one of these, because the expectation that follows would be wrong.
        _ => expect(matches!(act, Act::Other { .. })),
    }
}

/// Whether a SELECT does nothing but call `set_config` with literals, for the settings and values of the act, in their order.
fn is_set_config(node: &Json, act: &Act) -> bool {
    let Act::Set(changes) = act else { return false };
    let called = |target: &Json| {
        let call = &target["node"]["ResTarget"]["val"]["node"]["FuncCall"];
        let names = call["funcname"].as_array()?.last().map(|name| text(&name["node"]["String"]["sval"]).to_owned());
        let literal = |at: usize| call["args"][at]["node"]["AConst"]["val"]["Sval"]["sval"].as_str();
        (names? == "set_config").then_some((literal(0)?.to_ascii_lowercase(), literal(1)?.to_owned()))
    };
    let targets = node["target_list"].as_array().map_or(&[][..], Vec::as_slice);
    let calls: Option<Vec<_>> = targets.iter().map(called).collect();
    calls.is_some_and(|calls| {
        let is_same = |((name, value), change): (&(String, String), &route::Change)| {
            let is_value = match &change.value {
                Value::Text(text) => **text == **value,
                _ => true,
            };
            *change.name == *route::setting::canonical(name) && is_value
        };
        calls.len() == changes.len() && calls.iter().zip(changes).all(is_same)
    })
}

fn is_control(node: &Json, act: &Act) -> bool {
    let name = text(&node["savepoint_name"]);
    let chain = node["chain"] == true;
    let wanted = match node["kind"].as_i64() {
        Some(1 | 2) => Control::Begin,
        Some(3) => Control::Commit { chain },
        Some(4) => Control::Rollback { chain },
        Some(5) => Control::Savepoint(name.into()),
        Some(6) => Control::Release(name.into()),
        Some(7) => Control::RollbackTo(name.into()),
        Some(8) => Control::Commit { chain: false },
        // COMMIT PREPARED, ROLLBACK PREPARED
        _ => return matches!(act, Act::Other { .. }),
    };
    *act == Act::Transaction(wanted)
}

fn is_set(node: &Json, act: &Act) -> bool {
    let name = text(&node["name"]).to_ascii_lowercase();
    let name = route::setting::canonical(&name);
    let is_local = node["is_local"] == true;
    let kind = node["kind"].as_i64();
    let is_of_transaction =
        matches!(&*name, "TRANSACTION" | "transaction" | "TRANSACTION SNAPSHOT" | "transaction snapshot");
    // RESET TRANSACTION ISOLATION LEVEL
    if is_local || is_of_transaction || kind == Some(5) && name == "transaction_isolation" {
        return matches!(act, Act::Other { .. }) || is_change_of(act, name).is_some();
    }
    // The parser truncates a name that is too long, and `route` has it probed.
    if act.touches().has(DirtyState::ANY_SETTING) && name.len() >= 63 {
        return true;
    }
    match kind {
        Some(6) => *act == Act::ResetAll,
        Some(4) if name == "session characteristics" => {
            matches!(act, Act::Set(changes) if changes.len() == 3) || are_characteristics(&node["args"], act)
        }
        Some(2 | 5) => matches!(is_change_of(act, name), Some(Value::Default)),
        _ => match (is_change_of(act, name), wanted(&node["args"])) {
            (Some(Value::Unknown), _) => true,
            // The parser writes the keyword of an option in upper case; the setting has it in lower case.
            (Some(Value::Text(text)), Some(wanted)) if name == "xmloption" => {
                text.eq_ignore_ascii_case(&wanted.join(", "))
            }
            (Some(Value::Text(text)), Some(wanted)) => **text == wanted.join(", "),
            (Some(Value::Names(names)), Some(wanted)) => {
                names.iter().map(|name| &**name).eq(wanted.iter().map(String::as_str))
            }
            _ => false,
        },
    }
}

/// Whether an act sets the characteristics of a session that are listed, the last of each kind, and nothing else.
fn are_characteristics(options: &Json, act: &Act) -> bool {
    let Act::Set(changes) = act else { return false };
    let wanted: Option<BTreeMap<String, String>> = options.as_array().and_then(|options| {
        let of = |option: &Json| {
            let option = &option["node"]["DefElem"];
            let value = &option["arg"]["node"]["AConst"]["val"];
            let word = value["Sval"]["sval"].as_str().map(str::to_owned);
            let flag = || Some(if value["Ival"]["ival"] == 1 { "on" } else { "off" }.to_owned());
            Some((format!("default_{}", text(&option["defname"])), word.or_else(flag)?))
        };
        options.iter().map(of).collect()
    });
    let told = changes.iter().filter_map(|change| match &change.value {
        Value::Text(value) => Some((change.name.to_string(), value.to_string())),
        _ => None,
    });
    wanted.is_some_and(|wanted| wanted.len() == changes.len() && told.collect::<BTreeMap<_, _>>() == wanted)
}

fn is_change_of<'a>(act: &'a Act, name: &str) -> Option<&'a Value> {
    match act {
        Act::Set(changes) => changes.iter().find(|change| *change.name == *name).map(|change| &change.value),
        _ => None,
    }
}

/// The values in the parse tree, if they are strings and integers.
fn wanted(arguments: &Json) -> Option<Vec<String>> {
    let one = |argument: &Json| {
        let constant = &argument["node"]["AConst"]["val"];
        let string = constant["Sval"]["sval"].as_str().map(str::to_owned);
        string.or_else(|| {
            constant["Ival"].is_object().then(|| constant["Ival"]["ival"].as_i64().unwrap_or(0).to_string())
        })
    };
    arguments.as_array()?.iter().map(one).collect()
}

/// Adds what each node of a tree touches.
fn walk(tree: &Json, touched: &mut DirtyState) {
    match tree {
        Json::Array(items) => items.iter().for_each(|item| walk(item, touched)),
        Json::Object(fields) => {
            // Of CREATE TABLE, and of CREATE TABLE AS.
            let is_dropped = ["oncommit", "on_commit"].iter().any(|name| tree[name] == ONCOMMIT_DROP);
            for (name, field) in
                fields.iter().filter(|(name, _)| !is_dropped || !matches!(&***name, "relation" | "rel"))
            {
                *touched |= node(name, field);
                walk(field, touched);
            }
        }
        _ => {}
    }
}

fn node(kind: &str, node: &Json) -> DirtyState {
    match kind {
        "VariableSetStmt" if node["is_local"] == true => DirtyState::NOTHING,
        "VariableSetStmt"
            if node["name"].as_str().is_some_and(|name| name.to_ascii_lowercase().starts_with("transaction")) =>
        {
            DirtyState::NOTHING
        }
        // In CREATE FUNCTION, ALTER ROLE and the like it is not executed.
        "FuncCall" => function(node),
        "ListenStmt" | "UnlistenStmt" => DirtyState::CHANNELS,
        "LoadStmt" => DirtyState::LIBRARIES,
        "PrepareStmt" | "ExecuteStmt" | "DeallocateStmt" => DirtyState::STATEMENTS,
        "DeclareCursorStmt" if node["options"].as_i64().unwrap_or(0) & CURSOR_OPT_HOLD != 0 => DirtyState::CURSORS,
        "ClosePortalStmt" => DirtyState::CURSORS,
        "DropStmt" => DirtyState::TEMPORARY,
        "DiscardStmt" if node["target"] == DISCARD_TEMP => DirtyState::TEMPORARY,
        "CreateFunctionStmt"
        | "CreateTrigStmt"
        | "CreateExtensionStmt"
        | "RuleStmt"
        | "ViewStmt"
        | "CreatePolicyStmt"
        | "CreateCastStmt"
        | "CreateDomainStmt"
        | "AlterFunctionStmt"
        | "CreateEventTrigStmt" => DirtyState::FUNCTIONS,
        // A table that is created, or named, in the temporary schema.
        "relation" | "rel" | "view" | "sequence" | "RangeVar" if is_temporary(node) => DirtyState::TEMPORARY,
        _ => DirtyState::NOTHING,
    }
}

fn is_temporary(range: &Json) -> bool {
    text(&range["relpersistence"]) == "t" || text(&range["schemaname"]).starts_with("pg_temp")
}

fn function(call: &Json) -> DirtyState {
    let names = call["funcname"].as_array();
    let Some(name) = names.and_then(|names| names.last()).map(|name| text(&name["node"]["String"]["sval"])) else {
        return DirtyState::NOTHING;
    };
    let args = call["args"].as_array().map_or(&[][..], Vec::as_slice);
    match (name, args) {
        ("set_config", [_, _, local]) if local["node"]["AConst"]["val"]["Boolval"]["boolval"] == true => {
            DirtyState::NOTHING
        }
        ("set_config", [_, _, _]) => DirtyState::SETTINGS,
        (name, _) if LOCKS.contains(&name) => DirtyState::LOCKS,
        (name, _) if name.ends_with("_replication_slot") && name.starts_with("pg_c") => DirtyState::SLOTS,
        _ => DirtyState::NOTHING,
    }
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// `DISCARD_ALL` and `DISCARD_TEMP` of `DiscardMode`, with protobuf's numbers.
const DISCARD_ALL: i64 = 1;
const DISCARD_TEMP: i64 = 4;
/// `OnCommitAction`, with protobuf's number: the table is gone with its transaction.
const ONCOMMIT_DROP: i64 = 4;
/// `nodes/parsenodes.h`
const CURSOR_OPT_HOLD: i64 = 0x0020;
/// The functions that take or release session-level advisory locks (`pg_proc.dat`).
const LOCKS: [&str; 7] = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all",
];
