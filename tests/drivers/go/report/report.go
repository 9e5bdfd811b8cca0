// Package report has what the programs of Go's drivers share: where they go, and how they say what came of a case.
//
// Always true: a case fails by a panic, and the others go on; each has a time limit of its own.
// Not here: the cases.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

var (
	Port     = os.Getenv("DRIVERS_PORT")
	Sockets  = os.Getenv("DRIVERS_SOCKETS")
	Database = os.Getenv("DRIVERS_DATABASE")
	Secret   = os.Getenv("DRIVERS_SECRET")
	// direct, transaction or session
	Mode = os.Getenv("DRIVERS_MODE")
	CA   = os.Getenv("DRIVERS_CA")
	Cert = os.Getenv("DRIVERS_CERT")
	Key  = os.Getenv("DRIVERS_KEY")
)

// Big is the size of a big value.
const Big = 64 << 20

type impossible string

// Impossible ends a case: the driver cannot do this, or it makes no sense here.
func Impossible(reason string) { panic(impossible(reason)) }

// ThroughPooler ends a case that PostgreSQL itself has no answer to.
func ThroughPooler() {
	if Mode == "direct" {
		Impossible("PostgreSQL has no console")
	}
}

// AuthWrongCode is the code with which a wrong password is refused. A pooler of PgBouncer's kind has one code for all that
// it refuses at a login.
func AuthWrongCode() string {
	if Mode == "direct" {
		return "28P01"
	}
	return "08P01"
}

// Tag is what nobody else asks for, so that an answer tells whose it is.
func Tag(name string, number int) string { return fmt.Sprintf("%s-%d-%d", name, os.Getpid(), number) }

// DSN is a connection string for this user, by TCP without TLS; what comes later wins.
func DSN(user string, more ...string) string {
	words := []string{"host=127.0.0.1", "port=" + Port, "dbname=" + Database, "sslmode=disable", "connect_timeout=30"}
	return strings.Join(append(append(words, "user="+user), more...), " ")
}

// Password is the right one, for a DSN.
func Password() string { return "password='" + Secret + "'" }

// Must fails the case with an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Need is the value, if there was no error.
func Need[T any](value T, err error) T {
	Must(err)
	return value
}

// Same fails the case when these differ.
func Same(what string, found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%s: %#v, not %#v", what, found, wanted))
	}
}

// Check fails the case when this does not hold.
func Check(holds bool, words string, more ...any) {
	if !holds {
		panic(fmt.Sprintf(words, more...))
	}
}

// Error is the error as this type; the case fails when it is none.
func Error[T error](err error) T {
	var wanted T
	if !errors.As(err, &wanted) {
		panic(fmt.Sprintf("not a %T but %v", wanted, err))
	}
	return wanted
}

// Together runs so many at once; the case fails when one of them does, with what all of them say.
func Together(count int, one func(number int)) {
	var all sync.WaitGroup
	failures := make(chan any, count)
	for number := range count {
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() {
				if failure := recover(); failure != nil {
					failures <- failure
				}
			}()
			one(number)
		}()
	}
	all.Wait()
	close(failures)
	var words []string
	for failure := range failures {
		words = append(words, fmt.Sprint(failure))
	}
	if words != nil {
		panic(strings.Join(words, "; "))
	}
}

// Unnamed checks an answer to a statement without a name that was prepared one round trip earlier, or the code of the error
// that came instead.
func Unnamed(found, code, wanted string) {
	if code == "" && found == wanted {
		return
	}
	panic(fmt.Sprintf("a foreign answer: %s%s, not %s", found, code, wanted))
}

// Sleep is a query that takes longer than a case may, under a mark. PostgreSQL itself lets the query of a client that has
// vanished run on: there it is a short one.
func Sleep(mark string) string {
	seconds := 50
	if Mode == "direct" && strings.HasPrefix(mark, "close_midway") {
		seconds = 3
	}
	return fmt.Sprintf("select pg_sleep(%d) /* %s */", seconds, mark)
}

// LockMax is how long a lock may be waited for: shorter than a case.
const LockMax = "20s"

// AwaitRunning waits until so many but the asker, whose count this is, run what has the mark in its text.
func AwaitRunning(count func(query string) int, mark string, wanted int) {
	query := "select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and query like '%" + mark + "%'"
	for end := time.Now().Add(20 * time.Second); count(query) != wanted; {
		Check(time.Now().Before(end), "%s is not run by %d", mark, wanted)
		time.Sleep(10 * time.Millisecond)
	}
}

// Driver is what the cases that only log in need of a driver.
type Driver struct {
	// Login logs in and looks who it is.
	Login func(user string, more ...string)
	// Try is the error of logging in, if there is one.
	Try func(user string, more ...string) error
	// Told is what the server said with an error: its code and its words.
	Told func(err error) (code, words string)
}

// AuthWrong is the case of that name.
func (d Driver) AuthWrong() {
	for _, user := range []string{"by_md5", "by_scram"} {
		code, words := d.Told(d.Try(user, "password=wrong"))
		Check(strings.Contains(words, "authentication failed"), "odd words: %s", words)
		Same("code", code, AuthWrongCode())
	}
}

// TLSRequire is the case of that name.
func (d Driver) TLSRequire() {
	d.Login("by_tls", "sslmode=require")
	Check(d.Try("by_tls") != nil, "was let in without TLS")
}

// TLSWrongName is the case of that name.
func (d Driver) TLSWrongName() {
	err := d.Try("by_tls", "sslmode=verify-full", "sslrootcert="+CA)
	Check(err != nil && strings.Contains(err.Error(), "certificate"), "another name was accepted: %v", err)
}

// TLSCertificate is the case of that name.
func (d Driver) TLSCertificate() {
	d.Login("by_cert", "sslmode=require", "sslcert="+Cert, "sslkey="+Key)
	Check(d.Try("by_cert", "sslmode=require") != nil, "was let in without a certificate")
}

// Session is one connection, as far as a case needs it.
type Session struct {
	Run   func(query string)
	Value func(query string) string
}

// Parameters looks that what a client sets at login and by SET is its own.
func Parameters(mine, other Session) {
	mine.Run("set timezone = 'Asia/Tokyo'")
	for range 5 {
		// The second keeps a server busy, so that the first does not always find the same one.
		other.Run("begin")
		Same("other's name", other.Value("show application_name"), "other")
		Same("name", mine.Value("show application_name"), "mine")
		Same("zone", mine.Value("show timezone"), "Asia/Tokyo")
		Check(other.Value("show timezone") != "Asia/Tokyo", "a foreign zone")
		other.Run("commit")
	}
}

// Run runs the cases that are named on the command line.
func Run(module string, cases map[string]func()) {
	say("version " + version(module))
	for _, name := range os.Args[1:] {
		say("begin " + name)
		done := make(chan string, 1)
		go func() { done <- outcome(cases[name]) }()
		select {
		case verdict := <-done:
			say("case " + name + " " + verdict)
		case <-time.After(60 * time.Second):
			say("case " + name + " fail: 60 seconds have passed: " + stacks())
		}
	}
}

func outcome(run func()) (verdict string) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case impossible:
			verdict = "none " + string(failure)
		default:
			verdict = fmt.Sprintf("fail %s: %v", line(), failure)
		}
	}()
	if run == nil {
		return "fail the program has no such case"
	}
	run()
	return "pass"
}

// The line of the case in which it panicked.
func line() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.File, "cases.go") {
			return fmt.Sprintf("line %d", frame.Line)
		}
		if !more {
			return "somewhere"
		}
	}
}

func stacks() string {
	text := make([]byte, 1<<16)
	text = text[:runtime.Stack(text, true)]
	var lines []string
	for _, line := range bytes.Split(text, []byte("\n")) {
		if bytes.Contains(line, []byte("cases.go")) {
			lines = append(lines, string(bytes.TrimSpace(line)))
		}
	}
	return strings.Join(lines, ", ")
}

func version(module string) string {
	built, _ := debug.ReadBuildInfo()
	for _, used := range built.Deps {
		if used.Path == module {
			return strings.TrimPrefix(used.Version, "v")
		}
	}
	return "?"
}

func say(line string) { fmt.Println(strings.Join(strings.Fields(line), " ")) }
