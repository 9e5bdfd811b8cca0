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

type limit string

// Limit ends a case that meets a limit of the pooler which is documented.
func Limit(reason string) { panic(limit(reason)) }

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
	words := []string{"host=127.0.0.1", "port=" + Port, "dbname=" + Database, "sslmode=disable", "connect_timeout=10"}
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

// Together runs so many at once; the case fails when one of them does.
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
	select {
	case failure := <-failures:
		panic(failure)
	default:
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
		case limit:
			verdict = "limit " + string(failure)
		default:
			verdict = fmt.Sprintf("fail %s: %v", line(), failure)
		}
	}()
	if run == nil {
		Impossible("the program has no such case")
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
