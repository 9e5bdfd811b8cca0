# Every target is a command or two. What needs logic is a chore of `cargo xtask`.

help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## install from the distribution what demo, tests and bench need
	cargo run --quiet --package setup

demo: ## watch a real PostgreSQL survive a crowd (ARGS="--no-wait --seconds 3")
	cargo run --quiet --package setup -- demo
	cargo run --profile demo --package trunkline -- demo $(ARGS)

test: ## run every test (ARGS="--test real" is passed to cargo test)
	cargo xtask test $(ARGS)

soak: ## minutes of chaos, and the proof that nobody saw another's bytes (ARGS="--minutes 10")
	cargo xtask soak $(ARGS)

hostile: ## attacks, and what a bystander in another database notices of them (ARGS="--only deep:: --pgbouncer")
	cargo xtask hostile $(ARGS)

differential: ## random programs, directly and through the pooler (ARGS="--programs 100000", "--sessions 1000000")
	cargo xtask differential $(ARGS)

alerts: ## failures of many kinds under a real Prometheus: each is named at once, and its alert fires (minutes)
	cargo xtask test --test real each_failure_is_named

regress: ## PostgreSQL's own regression and isolation tests, directly and through the pooler (ARGS="--only isolation")
	cargo xtask regress $(ARGS)

versions: ## the tests with each major version of PostgreSQL (ARGS="17 18")
	cargo xtask versions $(ARGS)

drivers: ## drivers of many languages, directly and through the pooler (ARGS="pgx --case copy_in")
	cargo xtask drivers $(ARGS)

migrations: ## migration tools, five replicas at once, directly and through the pooler (ARGS="rails --case killed")
	cargo xtask migrations $(ARGS)

fuzz: ## search for inputs that fail (ARGS="--seconds 600 --target loan")
	cargo xtask fuzz $(ARGS)

oracle: ## what we read in SQL against PostgreSQL's own parser (ARGS="--mutations 1000000")
	cargo xtask oracle $(ARGS)

coverage: ## which lines the unit tests and the world reach; below 90 % it fails
	cargo xtask coverage $(ARGS)

world: ## simulated days out of seeds (SEEDS=100000, or ARGS="--seed 17", ARGS="--planted")
	cargo xtask world $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

bench: ## compare with PgBouncer on this machine (QUICK=1: rough, under two minutes)
	cargo xtask bench $(if $(QUICK),--quick) $(ARGS)

ha: ## a Patroni cluster of three nodes, four ways to reach it, and failures; 20 minutes (ARGS="full", "run 6a 3", "mock", "up")
	cargo xtask ha $(ARGS)

cost: ## count what a transaction costs; fails when the table in docs/reference/cost.md says less (ARGS=--write)
	cargo xtask cost $(ARGS)

wisdom: ## what simulate and capacity say against real loads, on a quiet machine; half an hour (ARGS="six_specs")
	cargo xtask test --test real -- $(or $(ARGS),six_specs tenants_with_one_connection names_the_limit)

page: ## the page in a real browser, each view under a load; screenshots in target/page
	cargo xtask page

check: ## formatting, lints, the house's rules, generated pages
	cargo xtask check

build: ## leave the pooler in target/release/trunkline
	cargo build --release --package trunkline

.PHONY: help setup demo test world soak hostile alerts differential regress versions drivers migrations fuzz oracle coverage bench ha cost wisdom page check build
