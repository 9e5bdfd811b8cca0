// One replica that migrates by golang-migrate: `migrate SCHEME migrate|mend`, where the scheme chooses the driver.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	_ "github.com/golang-migrate/migrate/v4/database/postgres"
	_ "github.com/golang-migrate/migrate/v4/source/file"
)

func main() {
	awaitStart()
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// awaitStart says that we are ready, and waits until all are.
func awaitStart() {
	if err := os.WriteFile(os.Getenv("MIGRATIONS_READY"), nil, 0o644); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func run(scheme, verb string) error {
	url := fmt.Sprintf("%s://u@127.0.0.1:%s/%s?sslmode=disable&application_name=%s", scheme,
		os.Getenv("MIGRATIONS_PORT"), os.Getenv("MIGRATIONS_DATABASE"), os.Getenv("MIGRATIONS_NAME"))
	tool, err := migrate.New("file://"+os.Getenv("MIGRATIONS_FOLDER")+"/steps", url)
	if err != nil {
		return err
	}
	if verb == "mend" {
		// The third step was rolled back, so the second is where we are.
		err = tool.Force(2)
	} else if err = tool.Up(); errors.Is(err, migrate.ErrNoChange) {
		err = nil
	}
	_, closed := tool.Close()
	return errors.Join(err, closed)
}
