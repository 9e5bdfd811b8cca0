// pgx, with its own interface and not that of database/sql.
//
// Always true: queries are prepared with a name and kept by the driver, as it does by itself.
package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"

	. "trunkline.test/drivers/report"
)

var always = context.Background()

func connect(user string, more ...string) *pgx.Conn { return Need(tryConnect(user, more...)) }

func tryConnect(user string, more ...string) (*pgx.Conn, error) {
	return pgx.Connect(always, DSN(user, more...))
}

func connectAs(change func(*pgx.ConnConfig), more ...string) *pgx.Conn {
	config := Need(pgx.ParseConfig(DSN("u", more...)))
	change(config)
	return Need(pgx.ConnectConfig(always, config))
}

type asker interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}

func value[T any](conn asker, query string, arguments ...any) (found T) {
	Must(conn.QueryRow(always, query, arguments...).Scan(&found))
	return found
}

func whose(conn asker, mark string) {
	Same("a foreign answer", value[string](conn, "select $1::text", mark), mark)
}

func run(conn *pgx.Conn, query string, arguments ...any) {
	Need(conn.Exec(always, query, arguments...))
}

func fails(conn *pgx.Conn, state, query string, arguments ...any) *pgconn.PgError {
	_, err := conn.Exec(always, query, arguments...)
	said := Error[*pgconn.PgError](err)
	Same("code of "+query, said.Code, state)
	return said
}

func connectTCP() {
	for _, version := range []string{"3.0", "3.2"} {
		conn := connect("u", "max_protocol_version="+version)
		whose(conn, Tag("connect_tcp", 0))
		Must(conn.Close(always))
	}
}

func connectUnix() {
	conn := connect("u", "host="+Sockets)
	defer conn.Close(always)
	whose(conn, Tag("connect_unix", 0))
}

func login(user string, more ...string) {
	conn := connect(user, more...)
	defer conn.Close(always)
	Same("user", value[string](conn, "select current_user::text"), user)
}

var driver = Driver{
	Login: login,
	Try:   func(user string, more ...string) error { _, err := tryConnect(user, more...); return err },
	Told: func(err error) (code, words string) {
		said := Error[*pgconn.PgError](err)
		return said.Code, said.Message
	},
}

func preparedShared() {
	Together(20, func(number int) {
		conn := connect("u")
		defer conn.Close(always)
		for turn := range 15 {
			mark := Tag("shared", number*1000+turn)
			Must(pgx.BeginFunc(always, conn, func(tx pgx.Tx) error {
				var text string
				var count int
				Must(tx.QueryRow(always, "select $1::text, $2::int", mark, turn).Scan(&text, &count))
				Check(text == mark && count == turn, "a foreign answer: %s %d", text, count)
				own := value[string](tx, fmt.Sprintf("select $1::text || '-own-%d'", number), mark)
				Same("a foreign answer", own, fmt.Sprintf("%s-own-%d", mark, number))
				return nil
			}))
		}
	})
}

func preparedMany() {
	conn := connect("u")
	defer conn.Close(always)
	for range 3 {
		for number := range 60 {
			mark := Tag("many", number)
			found := value[string](conn, fmt.Sprintf("select $1::text || '-%d'", number), mark)
			Same("a foreign answer", found, fmt.Sprintf("%s-%d", mark, number))
		}
	}
}

func preparedDeallocate() {
	// The driver closes the oldest when it keeps more than these.
	conn := connectAs(func(config *pgx.ConnConfig) { config.StatementCacheCapacity = 5 })
	defer conn.Close(always)
	for number := range 40 {
		Same("answer", value[int](conn, fmt.Sprintf("select $1::int + %d", number), number), 2*number)
	}
	for number := range 3 {
		Need(conn.Prepare(always, "named", fmt.Sprintf("select %d", number)))
		Same("answer", value[int](conn, "named"), number)
		Must(conn.Deallocate(always, "named"))
	}
	Need(conn.Prepare(always, "named", "select 4"))
	Must(conn.DeallocateAll(always))
	Need(conn.Prepare(always, "named", "select 5"))
	Same("answer", value[int](conn, "named"), 5)
}

func preparedAfterError() {
	conn := connect("u")
	defer conn.Close(always)
	fails(conn, "42P01", "select $1::int from not_there", 1)
	fails(conn, "22012", "select 1 / $1::int", 0)
	Same("answer", value[int](conn, "select 1 / $1::int", 1), 1)
	err := pgx.BeginFunc(always, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(always, "select 2 / $1::int", 0)
		return err
	})
	Same("code", Error[*pgconn.PgError](err).Code, "22012")
	Same("answer", value[int](conn, "select 2 / $1::int", 1), 2)

	// A table changes below its statement: one error for each server at most, then the new columns.
	run(conn, "create table if not exists changed_pgx (a int); truncate changed_pgx; insert into changed_pgx values (1)")
	all := func() (columns int, err error) {
		rows, err := conn.Query(always, "select * from changed_pgx")
		Must(err)
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (any, error) { return row.Values() })
		return len(rows.FieldDescriptions()), err
	}
	Same("columns", Need(all()), 1)
	run(conn, "alter table changed_pgx add b int")
	for range 2 {
		if _, err := all(); err != nil {
			Same("code", Error[*pgconn.PgError](err).Code, "0A000")
		}
	}
	Same("columns", Need(all()), 2)
	run(conn, "drop table changed_pgx")
}

// With the mode that looks what the types are in one round trip, without a name, and runs it in the next.
func unnamedOverSyncs() {
	Together(20, func(number int) {
		conn := connectAs(func(config *pgx.ConnConfig) { config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec })
		defer conn.Close(always)
		for turn := range 50 {
			mark := Tag("unnamed", number*1000+turn)
			wanted := fmt.Sprintf("%s-own-%d", mark, number)
			var found string
			err := conn.QueryRow(always, fmt.Sprintf("select $1::text || '-own-%d'", number), mark).Scan(&found)
			code := ""
			if err != nil {
				code = Error[*pgconn.PgError](err).Code
			}
			Unnamed(found, code, wanted)
		}
	})
}

func pipeline() {
	conn := connect("u")
	defer conn.Close(always)
	for range 5 {
		batch := &pgx.Batch{}
		for number := range 60 {
			mark := Tag("pipeline", number)
			batch.Queue(fmt.Sprintf("select $1::text, %d", number%7), mark).QueryRow(func(row pgx.Row) error {
				var found string
				var seventh int
				Must(row.Scan(&found, &seventh))
				Check(found == mark && seventh == number%7, "a foreign answer: %s, not %s", found, mark)
				return nil
			})
		}
		Must(conn.SendBatch(always, batch).Close())
	}
}

func pipelineError() {
	conn := connect("u")
	defer conn.Close(always)
	batch := &pgx.Batch{}
	batch.Queue("select $1::text", Tag("before", 0))
	batch.Queue("select 1 / $1::int", 0)
	batch.Queue("select $1::text", Tag("after", 0))
	results := conn.SendBatch(always, batch)
	var found string
	Must(results.QueryRow().Scan(&found))
	Same("a foreign answer", found, Tag("before", 0))
	_, err := results.Exec()
	Same("code", Error[*pgconn.PgError](err).Code, "22012")
	_, err = results.Exec()
	Check(err != nil, "what came behind an error was done")
	Check(results.Close() != nil, "the error is forgotten")
	whose(conn, Tag("pipeline_error", 0))

	// Several Syncs under way at once, an error between them, statements made and closed among them.
	line := conn.PgConn().StartPipeline(always)
	for number := range 30 {
		name := fmt.Sprintf("piped_%d", number)
		line.SendPrepare(name, fmt.Sprintf("select $1::text || '%d'", number), nil)
		line.SendQueryPrepared(name, [][]byte{[]byte(Tag("piped", number))}, nil, nil)
		if number%3 == 1 {
			line.SendQueryParams("select 1 / 0", nil, nil, nil, nil)
			line.SendQueryParams("select 'skipped'", nil, nil, nil, nil)
		}
		Must(line.Sync())
		line.SendDeallocate(name)
	}
	Must(line.Sync())
	var heard []string
	failed := 0
	for {
		result, err := line.GetResults()
		if err != nil {
			Same("code", Error[*pgconn.PgError](err).Code, "22012")
			failed++
			continue
		}
		if result == nil {
			break
		}
		if reader, ok := result.(*pgconn.ResultReader); ok {
			heard = append(heard, string(reader.Read().Rows[0][0]))
		}
	}
	Must(line.Close())
	Same("failures", failed, 10)
	Same("answers", len(heard), 30)
	for number, found := range heard {
		Same("a foreign answer", found, fmt.Sprintf("%s%d", Tag("piped", number), number))
	}
	whose(conn, Tag("pipeline_error", 1))
}

func cursor() {
	conn := connect("u")
	defer conn.Close(always)
	Must(pgx.BeginFunc(always, conn, func(tx pgx.Tx) error {
		mark := Tag("cursor", 0)
		Need(tx.Exec(always, fmt.Sprintf("declare pieces cursor for select n, '%s' from generate_series(1, 5000) n", mark)))
		count := 0
		for {
			rows := Need(tx.Query(always, "fetch 700 from pieces"))
			before := count
			for rows.Next() {
				var number int
				var text string
				Must(rows.Scan(&number, &text))
				count++
				Check(number == count && text == mark, "a foreign row: %d %s", number, text)
			}
			Must(rows.Err())
			if count == before {
				break
			}
		}
		Same("rows", count, 5000)
		return nil
	}))
}

func copyIn() {
	conn := connect("u")
	defer conn.Close(always)
	run(conn, "create table if not exists copied_in_pgx (n int, who text); truncate copied_in_pgx")
	for range 2 {
		number := 0
		rows := pgx.CopyFromFunc(func() ([]any, error) {
			number++
			if number > 20000 {
				return nil, nil
			}
			return []any{number, Tag("copy_in", 0)}, nil
		})
		count := Need(conn.CopyFrom(always, pgx.Identifier{"copied_in_pgx"}, []string{"n", "who"}, rows))
		Same("rows", count, int64(20000))
	}
	found := value[int](conn, "select count(*) from copied_in_pgx where who = $1", Tag("copy_in", 0))
	Same("rows", found, 40000)
	run(conn, "drop table copied_in_pgx")
}

func copyOut() {
	conn := connect("u")
	defer conn.Close(always)
	mark := Tag("copy_out", 0)
	var text bytes.Buffer
	query := fmt.Sprintf("copy (select n, '%s' from generate_series(1, 100000) n) to stdout", mark)
	Need(conn.PgConn().CopyTo(always, &text, query))
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	Same("rows", len(lines), 100000)
	for number, line := range lines {
		Same("a foreign row", line, fmt.Sprintf("%d\t%s", number+1, mark))
	}
	whose(conn, mark)
}

func copyFailed() {
	conn := connect("u")
	defer conn.Close(always)
	run(conn, "create table if not exists copy_failed_pgx (n int); truncate copy_failed_pgx")
	rows := strings.NewReader(strings.Repeat("1\nnot a number\n", 100000))
	_, err := conn.PgConn().CopyFrom(always, rows, "copy copy_failed_pgx from stdin")
	Same("code", Error[*pgconn.PgError](err).Code, "22P02")
	Same("rows", value[int](conn, "select count(*) from copy_failed_pgx"), 0)
	_, err = conn.PgConn().CopyFrom(always, strings.NewReader("1\n"), "copy not_there from stdin")
	Same("code", Error[*pgconn.PgError](err).Code, "42P01")
	run(conn, "drop table copy_failed_pgx")
}

func copyAbandoned() {
	conn := connect("u")
	defer conn.Close(always)
	run(conn, "create table if not exists copy_left_pgx (n int); truncate copy_left_pgx")
	number := 0
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		number++
		if number > 30000 {
			return nil, errors.New("enough")
		}
		return []any{number}, nil
	})
	_, err := conn.CopyFrom(always, pgx.Identifier{"copy_left_pgx"}, []string{"n"}, rows)
	Check(err != nil, "a copy went on without its rows")
	Same("rows", value[int](conn, "select count(*) from copy_left_pgx"), 0)
	run(conn, "drop table copy_left_pgx")

	// A writer that fails: the driver drops its connection.
	other := connect("u")
	_, err = other.PgConn().CopyTo(always, broken{}, "copy (select generate_series(1, 10000000)) to stdout")
	Check(err != nil, "a broken writer was written to")
	other.Close(always)
	whose(conn, Tag("copy_abandoned", 0))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// Counts for AwaitRunning.
func counts(conn *pgx.Conn) func(string) int {
	return func(query string) int { return value[int](conn, query) }
}

func cancelTimeout() {
	watcher := connect("u")
	defer watcher.Close(always)
	// As it is by default: the driver gives the connection up, and asks for a cancel beside it.
	conn := connect("u")
	mark := Tag("cancel_timeout", 0)
	soon, stop := context.WithTimeout(always, 300*time.Millisecond)
	_, err := conn.Exec(soon, Sleep(mark))
	stop()
	Check(errors.Is(err, context.DeadlineExceeded), "ended otherwise: %v", err)
	Check(conn.IsClosed(), "the connection is still used")
	AwaitRunning(counts(watcher), mark, 0)

	// With a cancel request the connection stays.
	conn = connectAs(func(config *pgx.ConnConfig) {
		config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 5 * time.Second}
		}
	})
	defer conn.Close(always)
	for turn := range 5 {
		mark := Tag("cancel_timeout", 1+turn)
		soon, stop := context.WithCancel(always)
		waited := make(chan any, 1)
		go func() {
			defer func() { waited <- recover() }()
			defer stop()
			AwaitRunning(counts(watcher), mark, 1)
		}()
		_, err = conn.Exec(soon, Sleep(mark))
		Same("waiting", <-waited, nil)
		Same("code", Error[*pgconn.PgError](err).Code, "57014")
		whose(conn, mark)
	}
	fails(conn, "57014", "begin; set local statement_timeout = '100ms'; select pg_sleep(50)")
	run(conn, "rollback")
}

func cancelByHand() {
	conn := connect("by_tls", "sslmode=require")
	defer conn.Close(always)
	watcher := connect("u")
	defer watcher.Close(always)
	for turn := range 3 {
		mark := Tag("cancel_by_hand", turn)
		waited := make(chan any, 1)
		go func() {
			defer func() { waited <- recover() }()
			AwaitRunning(counts(watcher), mark, 1)
			Must(conn.PgConn().CancelRequest(always))
		}()
		said := fails(conn, "57014", Sleep(mark))
		Same("words", said.Message, "canceling statement due to user request")
		Same("waiting", <-waited, nil)
		whose(conn, mark)
	}
}

func errorFields() {
	conn := connect("u")
	defer conn.Close(always)
	run(conn, "create table if not exists unique_pgx (n int constraint only_once_pgx unique); truncate unique_pgx")
	run(conn, "insert into unique_pgx values (1)")
	said := fails(conn, "23505", "insert into unique_pgx values (1)")
	Same("fields", []string{said.Severity, said.SeverityUnlocalized, said.SchemaName, said.TableName, said.ConstraintName},
		[]string{"ERROR", "ERROR", "public", "unique_pgx", "only_once_pgx"})
	Same("detail", said.Detail, "Key (n)=(1) already exists.")
	Same("position", fails(conn, "42601", "select 1 frum there").Position, int32(15))
	said = fails(conn, "XX123", "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none', detail = 'much'; end $$")
	Same("fields", []string{said.Message, said.Hint, said.Detail}, []string{"own", "none", "much"})
	run(conn, "drop table unique_pgx")
}

func errorInTransaction() {
	conn := connect("u")
	defer conn.Close(always)
	tx := Need(conn.Begin(always))
	fails(conn, "22012", "select 1 / 0")
	fails(conn, "25P02", "select 1")
	Same("status", conn.PgConn().TxStatus(), byte('E'))
	Must(tx.Rollback(always))
	whose(conn, Tag("error_in_transaction", 0))
}

func transaction() {
	conn := connect("u")
	defer conn.Close(always)
	run(conn, "create table if not exists kept_pgx (who text); truncate kept_pgx")
	tx := Need(conn.Begin(always))
	run(conn, "insert into kept_pgx values ($1)", Tag("lost", 0))
	Must(tx.Rollback(always))
	tx = Need(conn.BeginTx(always, pgx.TxOptions{IsoLevel: pgx.Serializable}))
	run(conn, "insert into kept_pgx values ($1)", Tag("kept", 0))
	Same("level", value[string](conn, "show transaction_isolation"), "serializable")
	Must(tx.Commit(always))
	Same("who", value[string](conn, "select string_agg(who, ',') from kept_pgx"), Tag("kept", 0))
	run(conn, "drop table kept_pgx")
}

func savepoint() {
	conn := connect("u")
	defer conn.Close(always)
	tx := Need(conn.Begin(always))
	pid := value[int](tx, "select pg_backend_pid()")
	for turn := range 3 {
		inner := Need(tx.Begin(always))
		fails(conn, "22012", "select 1 / 0")
		Must(inner.Rollback(always))
		inner = Need(tx.Begin(always))
		whose(inner, Tag("savepoint", turn))
		Must(inner.Commit(always))
	}
	Same("server", value[int](tx, "select pg_backend_pid()"), pid)
	Must(tx.Commit(always))
}

func bigValue() {
	conn := connect("u")
	defer conn.Close(always)
	big := make([]byte, Big)
	for at := range big {
		big[at] = byte(at * 7)
	}
	sum := md5.Sum(big)
	Same("sum", value[string](conn, "select md5($1::bytea)", big), hex.EncodeToString(sum[:]))
	Check(bytes.Equal(value[[]byte](conn, "select $1::bytea", big), big), "other bytes came back")
	whose(conn, Tag("big_value", 0))
}

func notice() {
	var heard []string
	conn := connectAs(func(config *pgx.ConnConfig) {
		config.OnNotice = func(_ *pgconn.PgConn, said *pgconn.Notice) {
			heard = append(heard, said.Severity+" "+said.Message)
		}
	})
	defer conn.Close(always)
	mark := Tag("notice", 0)
	run(conn, fmt.Sprintf("do $$ begin raise notice '%s'; raise warning 'second'; end $$", mark))
	Same("notices", heard, []string{"NOTICE " + mark, "WARNING second"})
}

func types() {
	conn := connect("u")
	defer conn.Close(always)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		there := func(kind string, given any) {
			Same(kind, value[bool](conn, fmt.Sprintf("select $1::%s is not distinct from $2::%[1]s", kind), mode, given, given), true)
		}
		number, two := 7, 2
		Same("int4[]", value[[]*int](conn, "select $1::int4[]", mode, []*int{&number, nil, &two}), []*int{&number, nil, &two})
		texts := []string{"a", `quoted " and \`, "", Tag("types", 0)}
		Same("text[]", value[[]string](conn, "select $1::text[]", mode, texts), texts)
		Same("float8", value[float64](conn, "select $1::float8", mode, 1e-300), 1e-300)
		Same("bool", value[bool](conn, "select $1::bool", mode, true), true)
		Same("null", value[*string](conn, "select $1::text", mode, nil), (*string)(nil))
		every := make([]byte, 256)
		for at := range every {
			every[at] = byte(at)
		}
		Same("bytea", value[[]byte](conn, "select $1::bytea", mode, every), every)
		when := time.Date(2026, 2, 28, 23, 59, 59, 999999000, time.UTC)
		Check(value[time.Time](conn, "select $1::timestamptz", mode, when).Equal(when), "another time came back")
		there("date", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
		there("numeric", "12345678901234567890.123456789")
		there("uuid", "00000000-0000-0000-0000-000000001234")
	}
	document := map[string]any{"a": []any{1.0, nil, map[string]any{"b": "c"}}}
	Same("jsonb", value[map[string]any](conn, "select $1::jsonb", document), document)
	Same("numeric", value[pgtype.Numeric](conn, "select 1234.5::numeric").Exp, int32(-1))
}

func session(conn *pgx.Conn) Session {
	return Session{
		Run:   func(query string) { run(conn, query) },
		Value: func(query string) string { return value[string](conn, query) },
	}
}

func parameters() {
	conn := connect("u", "application_name=mine")
	defer conn.Close(always)
	other := connect("u", "application_name=other")
	defer other.Close(always)
	Parameters(session(conn), session(other))
	Same("reported zone", conn.PgConn().ParameterStatus("TimeZone"), "Asia/Tokyo")
}

func closeMidway() {
	conn := connect("u")
	defer conn.Close(always)
	run(conn, "create table if not exists locked_pgx (n int); truncate locked_pgx; insert into locked_pgx values (1)")
	gone := connect("u")
	run(gone, "begin")
	run(gone, "update locked_pgx set n = 2")
	mark := Tag("close_midway", 0)
	gone.PgConn().Frontend().Send(&pgproto3.Query{String: Sleep(mark)})
	Must(gone.PgConn().Frontend().Flush())
	AwaitRunning(counts(conn), mark, 1)
	Must(gone.PgConn().Conn().(*net.TCPConn).Close())
	run(conn, "begin")
	run(conn, "set local lock_timeout = '"+LockMax+"'")
	Same("row", value[int](conn, "update locked_pgx set n = n + 10 returning n"), 11)
	run(conn, "commit")
	run(conn, "drop table locked_pgx")
}

func serverGone() {
	conn, other := connect("u"), connect("u")
	defer other.Close(always)
	tx := Need(conn.Begin(always))
	pid := value[int](tx, "select pg_backend_pid()")
	run(other, "select pg_terminate_backend($1)", pid)
	_, err := tx.Exec(always, "select pg_sleep(10)")
	Check(err != nil, "the end was not noticed")
	// It may have read the server's last words or only the end.
	tx.Rollback(always)
	Check(conn.IsClosed(), "the connection is still used")
	whose(other, Tag("server_gone", 0))
}

func askConsole(mode pgx.QueryExecMode) {
	ThroughPooler()
	conn := Need(pgx.Connect(always, DSN("stats", "dbname=pgbouncer")))
	defer conn.Close(always)
	for range 2 {
		rows := Need(conn.Query(always, "show pools", mode))
		found := Need(pgx.CollectRows(rows, pgx.RowToMap))
		Check(len(found) > 0 && found[len(found)-1]["database"] == "pgbouncer", "odd pools: %v", found)
		version := value[string](conn, "show version", mode)
		Check(strings.HasPrefix(version, "PgBouncer "), "odd version: %s", version)
	}
}

func main() {
	Run("github.com/jackc/pgx/v5", map[string]func(){
		"connect_tcp":          connectTCP,
		"connect_unix":         connectUnix,
		"auth_md5":             func() { login("by_md5", Password()) },
		"auth_scram":           func() { login("by_scram", Password()) },
		"auth_scram_plus":      func() { login("by_scram", Password(), "sslmode=require", "channel_binding=require") },
		"auth_wrong":           driver.AuthWrong,
		"tls_require":          driver.TLSRequire,
		"tls_verify_full":      func() { login("by_tls", "host=localhost", "sslmode=verify-full", "sslrootcert="+CA) },
		"tls_wrong_name":       driver.TLSWrongName,
		"tls_certificate":      driver.TLSCertificate,
		"prepared_shared":      preparedShared,
		"prepared_many":        preparedMany,
		"prepared_deallocate":  preparedDeallocate,
		"prepared_after_error": preparedAfterError,
		"unnamed_over_syncs":   unnamedOverSyncs,
		"pipeline":             pipeline,
		"pipeline_error":       pipelineError,
		"cursor":               cursor,
		"copy_in":              copyIn,
		"copy_out":             copyOut,
		"copy_failed":          copyFailed,
		"copy_abandoned":       copyAbandoned,
		"cancel_timeout":       cancelTimeout,
		"cancel_by_hand":       cancelByHand,
		"error_fields":         errorFields,
		"error_in_transaction": errorInTransaction,
		"transaction":          transaction,
		"savepoint":            savepoint,
		"big_value":            bigValue,
		"notice":               notice,
		"types":                types,
		"parameters":           parameters,
		"close_midway":         closeMidway,
		"server_gone":          serverGone,
		"console_simple":       func() { askConsole(pgx.QueryExecModeSimpleProtocol) },
		"console_extended":     func() { askConsole(pgx.QueryExecModeCacheStatement) },
	})
}
