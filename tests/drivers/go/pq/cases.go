// lib/pq, by database/sql as it is meant to be used.
//
// Always true: each connection is one of its own, not one of database/sql's pool. Values are sent as the driver does by itself: it
// prepares without a name in one round trip and runs that in the next.
package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	. "trunkline.test/drivers/report"
)

var always = context.Background()

// One connection.
type conn struct {
	*sql.Conn
	all *sql.DB
}

func (c conn) close() {
	c.Conn.Close()
	c.all.Close()
}

func tryConnect(user string, more ...string) (conn, error) {
	return dial(user, more...)
}

func dial(user string, more ...string) (conn, error) {
	connector, err := pq.NewConnector(DSN(user, more...))
	Must(err)
	return dialBy(connector)
}

func dialBy(connector driver.Connector) (conn, error) {
	all := sql.OpenDB(connector)
	one, err := all.Conn(always)
	if err != nil {
		all.Close()
	}
	return conn{one, all}, err
}

func connect(user string, more ...string) conn { return Need(tryConnect(user, more...)) }

// A connection whose socket can be closed below it.
func connectToVanish() (conn, func()) {
	connector := Need(pq.NewConnector(DSN("u")))
	socket := &keeper{}
	connector.Dialer(socket)
	return Need(dialBy(connector)), func() { Must(socket.last.Close()) }
}

type keeper struct{ last net.Conn }

func (k *keeper) Dial(network, address string) (net.Conn, error) {
	return k.DialTimeout(network, address, 0)
}

func (k *keeper) DialTimeout(network, address string, limit time.Duration) (socket net.Conn, err error) {
	k.last, err = net.DialTimeout(network, address, limit)
	return k.last, err
}

type asker interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func value[T any](c asker, query string, arguments ...any) (found T) {
	Must(c.QueryRowContext(always, query, arguments...).Scan(&found))
	return found
}

func whose(c asker, mark string) {
	Same("a foreign answer", value[string](c, "select $1::text", mark), mark)
}

func run(c asker, query string, arguments ...any) { Need(c.ExecContext(always, query, arguments...)) }

func fails(c asker, state, query string, arguments ...any) *pq.Error {
	_, err := c.ExecContext(always, query, arguments...)
	return failed(err, state)
}

func failed(err error, state string) *pq.Error {
	said := Error[*pq.Error](err)
	Same("code", string(said.Code), state)
	return said
}

func connectTCP() {
	for _, version := range []string{"3.0", "3.2"} {
		c := connect("u", "max_protocol_version="+version)
		whose(c, Tag("connect_tcp", 0))
		c.close()
	}
}

func login(user string, more ...string) {
	c := connect(user, more...)
	defer c.close()
	Same("user", value[string](c, "select current_user::text"), user)
}

var logins = Driver{
	Login: login,
	Try:   func(user string, more ...string) error { _, err := tryConnect(user, more...); return err },
	Told: func(err error) (code, words string) {
		said := Error[*pq.Error](err)
		return string(said.Code), said.Message
	},
}

func prepared[T any](s *sql.Stmt, arguments ...any) (found T) {
	Must(s.QueryRowContext(always, arguments...).Scan(&found))
	return found
}

func preparedShared() {
	Together(20, func(number int) {
		c := connect("u")
		defer c.close()
		shared := Need(c.PrepareContext(always, "select $1::text || $2::int"))
		defer shared.Close()
		own := Need(c.PrepareContext(always, fmt.Sprintf("select $1::text || '-own-%d'", number)))
		defer own.Close()
		for turn := range 15 {
			mark := Tag("shared", number*1000+turn)
			tx := Need(c.BeginTx(always, nil))
			found := prepared[string](tx.StmtContext(always, shared), mark, turn)
			Same("a foreign answer", found, fmt.Sprintf("%s%d", mark, turn))
			found = prepared[string](tx.StmtContext(always, own), mark)
			Same("a foreign answer", found, fmt.Sprintf("%s-own-%d", mark, number))
			Must(tx.Commit())
			Same("a foreign answer", prepared[string](own, mark), found)
		}
	})
}

func preparedMany() {
	c := connect("u")
	defer c.close()
	var all []*sql.Stmt
	for number := range 60 {
		all = append(all, Need(c.PrepareContext(always, fmt.Sprintf("select $1::text || '-%d'", number))))
	}
	for range 3 {
		for number, one := range all {
			mark := Tag("many", number)
			Same("a foreign answer", prepared[string](one, mark), fmt.Sprintf("%s-%d", mark, number))
		}
	}
	for _, one := range all {
		Must(one.Close())
	}
}

func preparedDeallocate() {
	c := connect("u")
	defer c.close()
	for number := range 40 {
		one := Need(c.PrepareContext(always, fmt.Sprintf("select $1::int + %d", number%3)))
		Same("answer", prepared[int](one, number), number+number%3)
		Must(one.Close())
	}
	kept := Need(c.PrepareContext(always, "select 7"))
	run(c, "discard all")
	var found int
	err := kept.QueryRowContext(always).Scan(&found)
	Check(err != nil, "a statement outlived DISCARD ALL")
}

func preparedAfterError() {
	c := connect("u")
	defer c.close()
	_, err := c.PrepareContext(always, "select $1::int from not_there")
	failed(err, "42P01")
	divide := Need(c.PrepareContext(always, "select 1 / $1::int"))
	_, err = divide.ExecContext(always, 0)
	failed(err, "22012")
	Same("answer", prepared[int](divide, 1), 1)
	tx := Need(c.BeginTx(always, nil))
	_, err = tx.StmtContext(always, divide).ExecContext(always, 0)
	failed(err, "22012")
	Must(tx.Rollback())
	Same("answer", prepared[int](divide, -1), -1)
}

// Without a pipeline of its own the driver still has queries of several statements.
func pipeline() {
	c := connect("u")
	defer c.close()
	rows := Need(c.QueryContext(always, fmt.Sprintf("select 'first'; select '%s' from generate_series(1, 3); select 3", Tag("pipeline", 0))))
	defer rows.Close()
	var heard []string
	for {
		for rows.Next() {
			var found string
			Must(rows.Scan(&found))
			heard = append(heard, found)
		}
		Must(rows.Err())
		if !rows.NextResultSet() {
			break
		}
	}
	mark := Tag("pipeline", 0)
	Same("answers", heard, []string{"first", mark, mark, mark, "3"})
}

func pipelineError() {
	c := connect("u")
	defer c.close()
	fails(c, "22012", "select 1; select 1 / 0; select 2")
	whose(c, Tag("pipeline_error", 0))
}

func cursor() {
	c := connect("u")
	defer c.close()
	tx := Need(c.BeginTx(always, nil))
	mark := Tag("cursor", 0)
	run(tx, fmt.Sprintf("declare pieces cursor for select n, '%s' from generate_series(1, 5000) n", mark))
	count, before := 0, -1
	for count != before {
		before = count
		rows := Need(tx.QueryContext(always, "fetch 700 from pieces"))
		for rows.Next() {
			var number int
			var text string
			Must(rows.Scan(&number, &text))
			count++
			Check(number == count && text == mark, "a foreign row: %d %s", number, text)
		}
		Must(rows.Close())
	}
	Same("rows", count, 5000)
	Must(tx.Commit())
}

func copyIn() {
	c := connect("u")
	defer c.close()
	run(c, "create table if not exists copied_in_pq (n int, who text); truncate copied_in_pq")
	tx := Need(c.BeginTx(always, nil))
	rows := Need(tx.PrepareContext(always, "copy copied_in_pq (n, who) from stdin"))
	for number := range 20000 {
		Need(rows.ExecContext(always, number, Tag("copy_in", 0)))
	}
	Need(rows.ExecContext(always))
	Must(rows.Close())
	Must(tx.Commit())
	Same("rows", value[int](c, "select count(distinct n) from copied_in_pq where who = $1", Tag("copy_in", 0)), 20000)
	run(c, "drop table copied_in_pq")
}

func copyFailed() {
	c := connect("u")
	defer c.close()
	run(c, "create table if not exists copy_failed_pq (n int); truncate copy_failed_pq")
	tx := Need(c.BeginTx(always, nil))
	rows := Need(tx.PrepareContext(always, "copy copy_failed_pq (n) from stdin"))
	var err error
	for number := 0; err == nil && number < 200000; number++ {
		_, err = rows.ExecContext(always, "not a number")
	}
	if err == nil {
		_, err = rows.ExecContext(always)
	}
	failed(err, "22P02")
	rows.Close()
	tx.Rollback()
	other := connect("u")
	defer other.close()
	Same("rows", value[int](other, "select count(*) from copy_failed_pq"), 0)
	run(other, "drop table copy_failed_pq")
}

func copyAbandoned() {
	c, vanish := connectToVanish()
	other := connect("u")
	defer other.close()
	run(other, "create table if not exists copy_left_pq (n int); truncate copy_left_pq")
	tx := Need(c.BeginTx(always, nil))
	rows := Need(tx.PrepareContext(always, "copy copy_left_pq (n) from stdin"))
	for number := range 30000 {
		Need(rows.ExecContext(always, number))
	}
	// Neither ended nor rolled back: the connection just goes.
	vanish()
	run(other, "begin; set local lock_timeout = '"+LockMax+"'; lock table copy_left_pq")
	Same("rows", value[int](other, "select count(*) from copy_left_pq"), 0)
	run(other, "drop table copy_left_pq; commit")
}

// Counts for AwaitRunning.
func counts(c asker) func(string) int {
	return func(query string) int { return value[int](c, query) }
}

func cancelled(turns int, more ...string) {
	watcher := connect("u")
	defer watcher.close()
	for turn := range turns {
		mark := Tag("cancelled", turn)
		c := connect("by_tls", append(more, "sslmode=require")...)
		soon, stop := context.WithCancel(always)
		waited := make(chan any, 1)
		go func() {
			defer func() { waited <- recover() }()
			defer stop()
			AwaitRunning(counts(watcher), mark, 1)
		}()
		_, err := c.ExecContext(soon, Sleep(mark))
		Same("waiting", <-waited, nil)
		Check(err != nil, "slept on")
		AwaitRunning(counts(watcher), mark, 0)
		c.close()
		whose(watcher, mark)
	}
}

func cancelTimeout() {
	cancelled(3)
	c := connect("u")
	defer c.close()
	fails(c, "57014", "begin; set local statement_timeout = '100ms'; select pg_sleep(50)")
	run(c, "rollback")
}

// While rows are being read.
func cancelByHand() {
	watcher, c := connect("u"), connect("u")
	defer watcher.close()
	defer c.close()
	mark := Tag("cancel_by_hand", 0)
	soon, stop := context.WithCancel(always)
	query := fmt.Sprintf("select generate_series(1, 100000000) /* %s */", mark)
	rows := Need(c.QueryContext(soon, query))
	for count := 0; rows.Next(); count++ {
		if count == 1000 {
			stop()
		}
	}
	stop()
	Check(rows.Err() != nil, "all rows came")
	rows.Close()
	AwaitRunning(counts(watcher), mark, 0)
}

func errorFields() {
	c := connect("u")
	defer c.close()
	run(c, "create table if not exists unique_pq (n int constraint only_once_pq unique); truncate unique_pq")
	run(c, "insert into unique_pq values (1)")
	said := fails(c, "23505", "insert into unique_pq values ($1)", 1)
	Same("fields", []string{said.Severity, said.Schema, said.Table, said.Constraint, said.Detail},
		[]string{"ERROR", "public", "unique_pq", "only_once_pq", "Key (n)=(1) already exists."})
	Same("position", fails(c, "42601", "select 1 frum there").Position, "15")
	said = fails(c, "XX123", "do $$ begin raise exception 'own' using errcode = 'XX123', hint = 'none', detail = 'much'; end $$")
	Same("fields", []string{said.Message, said.Hint, said.Detail}, []string{"own", "none", "much"})
	run(c, "drop table unique_pq")
}

func errorInTransaction() {
	c := connect("u")
	defer c.close()
	tx := Need(c.BeginTx(always, nil))
	fails(tx, "22012", "select 1 / $1::int", 0)
	fails(tx, "25P02", "select 1")
	Must(tx.Rollback())
	whose(c, Tag("error_in_transaction", 0))
}

func transaction() {
	c := connect("u")
	defer c.close()
	run(c, "create table if not exists kept_pq (who text); truncate kept_pq")
	tx := Need(c.BeginTx(always, nil))
	run(tx, "insert into kept_pq values ($1)", Tag("lost", 0))
	Must(tx.Rollback())
	tx = Need(c.BeginTx(always, &sql.TxOptions{Isolation: sql.LevelSerializable}))
	run(tx, "insert into kept_pq values ($1)", Tag("kept", 0))
	Same("level", value[string](tx, "show transaction_isolation"), "serializable")
	Must(tx.Commit())
	Same("who", value[string](c, "select string_agg(who, ',') from kept_pq"), Tag("kept", 0))
	run(c, "drop table kept_pq")
}

func savepoint() {
	c := connect("u")
	defer c.close()
	tx := Need(c.BeginTx(always, nil))
	pid := value[int](tx, "select pg_backend_pid()")
	for turn := range 3 {
		run(tx, "savepoint inner_one")
		fails(tx, "22012", "select 1 / 0")
		run(tx, "rollback to inner_one")
		whose(tx, Tag("savepoint", turn))
	}
	Same("server", value[int](tx, "select pg_backend_pid()"), pid)
	Must(tx.Commit())
}

func bigValue() {
	c := connect("u")
	defer c.close()
	big := make([]byte, Big)
	for at := range big {
		big[at] = byte(at * 7)
	}
	sum := md5.Sum(big)
	Same("sum", value[string](c, "select md5($1::bytea)", big), hex.EncodeToString(sum[:]))
	Check(bytes.Equal(value[[]byte](c, "select $1::bytea", big), big), "other bytes came back")
	whose(c, Tag("big_value", 0))
}

func notice() {
	var heard []string
	connector := Need(pq.NewConnector(DSN("u")))
	c := Need(dialBy(pq.ConnectorWithNoticeHandler(connector, func(said *pq.Error) {
		heard = append(heard, said.Severity+" "+said.Message)
	})))
	defer c.close()
	mark := Tag("notice", 0)
	run(c, fmt.Sprintf("do $$ begin raise notice '%s'; raise warning 'second'; end $$", mark))
	Same("notices", heard, []string{"NOTICE " + mark, "WARNING second"})
}

func types() {
	c := connect("u")
	defer c.close()
	var numbers pq.Int64Array
	Must(c.QueryRowContext(always, "select $1::int8[]", pq.Array([]int64{1, -2, 3})).Scan(&numbers))
	Same("int8[]", numbers, pq.Int64Array{1, -2, 3})
	var texts pq.StringArray
	given := []string{"a", `quoted " and \`, "", Tag("types", 0)}
	Must(c.QueryRowContext(always, "select $1::text[]", pq.Array(given)).Scan(&texts))
	Same("text[]", texts, pq.StringArray(given))
	var document map[string]any
	Must(json.Unmarshal(value[[]byte](c, "select $1::jsonb", `{"a": [1, null, {"b": "c"}]}`), &document))
	Same("jsonb", document, map[string]any{"a": []any{1.0, nil, map[string]any{"b": "c"}}})
	when := time.Date(2026, 2, 28, 23, 59, 59, 999999000, time.UTC)
	Check(value[time.Time](c, "select $1::timestamptz", when).Equal(when), "another time came back")
	Same("numeric", value[string](c, "select $1::numeric", "12345678901234567890.123456789"), "12345678901234567890.123456789")
	Same("float8", value[float64](c, "select $1::float8", 1e-300), 1e-300)
	Same("bool", value[bool](c, "select $1::bool", true), true)
	Same("null", value[*string](c, "select $1::text", nil), (*string)(nil))
	every := make([]byte, 256)
	for at := range every {
		every[at] = byte(at)
	}
	Same("bytea", value[[]byte](c, "select $1::bytea", every), every)
}

func session(c conn) Session {
	return Session{
		Run:   func(query string) { run(c, query) },
		Value: func(query string) string { return value[string](c, query) },
	}
}

func parameters() {
	c, other := connect("u", "application_name=mine"), connect("u", "application_name=other")
	defer c.close()
	defer other.close()
	Parameters(session(c), session(other))
	Same("reported zone", value[time.Time](c, "select now()").Location().String(), "Asia/Tokyo")
}

// What the driver does with values by itself: one statement without a name, prepared in one round trip and run in the
// next.
func unnamedOverSyncs() {
	Together(20, func(number int) {
		c := Need(dial("u"))
		defer c.close()
		for turn := range 50 {
			mark := Tag("unnamed", number*1000+turn)
			var found string
			err := c.QueryRowContext(always, fmt.Sprintf("select $1::text || '-own-%d'", number), mark).Scan(&found)
			code := ""
			if err != nil {
				code = string(Error[*pq.Error](err).Code)
			}
			Unnamed(found, code, fmt.Sprintf("%s-own-%d", mark, number))
		}
	})
}

func closeMidway() {
	c := connect("u")
	gone, vanish := connectToVanish()
	defer c.close()
	run(c, "create table if not exists locked_pq (n int); truncate locked_pq; insert into locked_pq values (1)")
	run(gone, "begin")
	run(gone, "update locked_pq set n = 2")
	vanish()
	run(c, "begin")
	run(c, "set local lock_timeout = '"+LockMax+"'")
	Same("row", value[int](c, "update locked_pq set n = n + 10 returning n"), 11)
	run(c, "commit")
	run(c, "drop table locked_pq")
}

func serverGone() {
	c, other := connect("u"), connect("u")
	defer c.close()
	defer other.close()
	tx := Need(c.BeginTx(always, nil))
	pid := value[int](tx, "select pg_backend_pid()")
	run(other, "select pg_terminate_backend($1)", pid)
	_, err := tx.ExecContext(always, "select pg_sleep(10)")
	Check(err != nil, "the end was not noticed")
	tx.Rollback()
	Check(c.PingContext(always) != nil, "the connection is still used")
	whose(other, Tag("server_gone", 0))
}

func askConsole(ask func(conn, string) (*sql.Rows, error)) {
	ThroughPooler()
	c := Need(dial("stats", "dbname=pgbouncer"))
	defer c.close()
	for _, command := range []string{"show pools", "show version"} {
		rows := Need(ask(c, command))
		Check(rows.Next(), "no row of %s", command)
		columns := Need(rows.Columns())
		fields := make([]any, len(columns))
		for at := range fields {
			fields[at] = new(sql.NullString)
		}
		Must(rows.Scan(fields...))
		Check(fields[0].(*sql.NullString).String != "", "nothing in %s", command)
		Must(rows.Close())
	}
}

// What the Prometheus exporter for PgBouncer asks by this driver, and what it makes of the answers: a number of each of
// these columns, a label of each of those.
func askAsExporter() {
	ThroughPooler()
	all := sql.OpenDB(Need(pq.NewConnector("postgres://stats:@127.0.0.1:" + Port + "/pgbouncer?sslmode=disable")))
	defer all.Close()
	for _, asked := range []struct{ command, numbers, labels string }{
		{"SHOW STATS", "total_xact_count", "database"},
		{"SHOW LISTS;", "items", "list"},
		{"SHOW CONFIG;", "", "key value default changeable"},
		{"SHOW CLIENTS;", "", "database user application_name state"},
		{"SHOW DATABASES;", "pool_size max_connections current_connections paused disabled", "name host port database force_user pool_mode"},
		{"SHOW STATS_TOTALS;", "query_count query_time bytes_received bytes_sent wait_time xact_count xact_time client_parse_count " +
			"server_parse_count bind_count server_assignment_count", "database"},
		{"SHOW POOLS;", "cl_active cl_active_cancel_req cl_waiting cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled " +
			"sv_idle sv_used sv_tested sv_login maxwait", "database user"},
		{"SHOW VERSION;", "", "version"},
	} {
		rows := Need(all.Query(asked.command))
		columns := Need(rows.Columns())
		found := 0
		for rows.Next() {
			fields := map[string]*sql.NullString{}
			targets := make([]any, len(columns))
			for at, name := range columns {
				fields[name] = new(sql.NullString)
				targets[at] = fields[name]
			}
			Must(rows.Scan(targets...))
			for _, name := range strings.Fields(asked.labels) {
				Check(fields[name] != nil, "%s has no column %s", asked.command, name)
			}
			for _, name := range strings.Fields(asked.numbers) {
				Check(fields[name] != nil, "%s has no column %s", asked.command, name)
				Need(strconv.ParseFloat(fields[name].String, 64))
			}
			found++
		}
		Must(rows.Err())
		Check(found > 0, "no row of %s", asked.command)
	}
}

func main() {
	Run("github.com/lib/pq", map[string]func(){
		"connect_tcp":          connectTCP,
		"connect_unix":         func() { login("u", "host="+Sockets) },
		"auth_md5":             func() { login("by_md5", Password()) },
		"auth_scram":           func() { login("by_scram", Password()) },
		"auth_scram_plus":      func() { Impossible("lib/pq does not bind SCRAM to a channel") },
		"auth_wrong":           logins.AuthWrong,
		"tls_require":          logins.TLSRequire,
		"tls_verify_full":      func() { login("by_tls", "host=localhost", "sslmode=verify-full", "sslrootcert="+CA) },
		"tls_wrong_name":       logins.TLSWrongName,
		"tls_certificate":      logins.TLSCertificate,
		"prepared_shared":      preparedShared,
		"prepared_many":        preparedMany,
		"prepared_deallocate":  preparedDeallocate,
		"prepared_after_error": preparedAfterError,
		"unnamed_over_syncs":   unnamedOverSyncs,
		"pipeline":             pipeline,
		"pipeline_error":       pipelineError,
		"cursor":               cursor,
		"copy_in":              copyIn,
		"copy_out":             func() { Impossible("lib/pq has no COPY out") },
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
		"console_simple": func() {
			askAsExporter()
			askConsole(func(c conn, command string) (*sql.Rows, error) { return c.QueryContext(always, command) })
		},
		"console_extended": func() {
			askConsole(func(c conn, command string) (*sql.Rows, error) {
				return Need(c.PrepareContext(always, command)).QueryContext(always)
			})
		},
	})
}
