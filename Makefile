# Everything works with Go and make alone; `make help` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help run build quick test check fmt vet lint determinism imports canvas canvas-check openapi openapi-check fuzz mutants screenshots faults scale bench bench-deliveries bench-sleeping bench-gateway bench-imports bench-search bench-growth bench-asking bench-entries clean

# Version control is not asked: a clone that belongs to another user builds too.
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false

# The race detector needs a C compiler; without one the tests run without it. SQLite, which is
# C translated to Go, is not watched: that made every test on it four times as slow.
RACE := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race -gcflags=modernc.org/...=-race=false)
TOOL := go tool -modfile=tools/go.mod
FUZZTIME ?= 5s

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | while IFS='|' read -r t h; do printf '%-23s %s\n' "$$t" "$$h"; done

run: build ## build and start everything in one process with a demo journey (ARGS=… for waypost-dev)
	@exec ./bin/waypost-dev $(ARGS)

# The tag leaves out parts of Google's storage client, as in Temporal's own builds: 12 MB.
build: ## build bin/waypost and bin/waypost-dev
	@echo "Building. waypost-dev contains Temporal's server: the first build takes some minutes, the next one seconds." >&2
	@tools/build bin/waypost ./cmd/waypost
	@cd devstack && ../tools/build ../bin/waypost-dev -tags disable_grpc_modules .

# -w leaves out what only debuggers read, which is a third of the time that linking takes.
quick: ## run the tests that need neither waypost-dev nor a server, without the race detector: the inner loop
	@env -u WAYPOST_TEST_POSTGRES_URL -u WAYPOST_TEST_REDIS_URL -u WAYPOST_TEST_REQUIRE_SERVERS go test -ldflags=-w ./...

test: ## run all tests and count the skipped ones (WAYPOST_TEST_REQUIRE_SERVERS=1: none may be)
	@$(if $(RACE),,echo "No C compiler: the tests run without the race detector." >&2)
	@$(TOOL) gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg \
		--post-run-command "sh -c '[ \$$((TESTS_SKIPPED * WAYPOST_TEST_REQUIRE_SERVERS)) -eq 0 ] || { echo WAYPOST_TEST_REQUIRE_SERVERS=1 allows no skipped test; exit 1; }'" \
		--raw-command tools/tests $(RACE)

check: fmt vet lint determinism imports canvas-check openapi-check fuzz test mutants ## all that CI checks: format, vet, lint, determinism, imports, the canvas, openapi.yaml, fuzzing, tests

fmt: ## list files that gofmt would change, and fail if there are any
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

vet: ## go vet, all modules
	go vet ./...
	cd bench && go vet ./...
	cd devstack && go vet ./...

lint: ## staticcheck, all modules
	$(TOOL) staticcheck ./...
	cd bench && go tool -modfile=../tools/go.mod staticcheck ./...
	cd devstack && go tool -modfile=../tools/go.mod staticcheck ./...

determinism: ## check that workflow code is deterministic
	$(TOOL) workflowcheck ./workflows/...

imports: ## check who imports whom
	go test -run '^TestImports' -count=1 .

canvas: ## build the console's canvas, console/static/canvas.js and canvas.css, from console/canvas (needs Node.js and npm)
	@tools/canvas

canvas-check: ## check the canvas: types, tests, the committed bundle, and that in Chromium (what needs npm or chromium only where they are)
	@tools/canvas --check

openapi: ## write the types of the client in TypeScript from openapi.yaml (needs Node.js and npm)
	@tools/openapi

openapi-check: ## check openapi.yaml with common tools: a linter, and generators of clients (what needs npm only where it is)
	@tools/openapi --check

fuzz: ## run each fuzz test for FUZZTIME (5s)
	@tools/fuzz $(FUZZTIME)

mutants: ## check that the fault tests fail for builds that are broken on purpose
	cd devstack && go test -count=1 -tags mutants -run Mutants -timeout 20m ./faults

screenshots: ## write a picture of every page of the console, in both themes and languages, to screenshots/ (needs chromium)
	cd devstack && WAYPOST_TEST_SCREENSHOTS=$(CURDIR)/screenshots WAYPOST_TEST_REQUIRE_SERVERS=1 go test -ldflags=-w -tags disable_grpc_modules -count=1 -timeout 30m -run 'Pages|^TestGoal$$|^TestImport$$' ./browser

faults: ## break everything that Waypost depends on, and Waypost, at full size, and print a table (some 20 minutes)
	cd devstack && WAYPOST_TEST_SCALE=full WAYPOST_TEST_REQUIRE_SERVERS=1 ../tools/servers go test -count=1 -v -timeout 90m ./faults

scale: ## run the fault tests of launches at their full size, 20,000 leads (some minutes)
	cd devstack && WAYPOST_TEST_SCALE=full go test -count=1 -v -run '^TestScale' -timeout 60m ./e2e

bench: bench-deliveries bench-sleeping bench-gateway bench-imports bench-search bench-growth bench-asking bench-entries ## run all benchmarks, each suite on servers of its own (half an hour to an hour)

bench-deliveries: bin/bench ## launches, single enrollments, latency and cost, on PostgreSQL and SQLite (ARGS=--help lists the flags)
	@tools/servers --durable bin/bench --suite deliveries $(ARGS)
	@bin/bench --postgres= --cases launch,launch-fail10,temporal-batch,bare $(ARGS)

bench-sleeping: bin/bench ## 100,000 enrollments asleep: their room, and waking them up
	@tools/servers --durable bin/bench --suite sleeping $(ARGS)

bench-gateway: bin/bench ## signed requests, and the same handlers without signature, limits and replay guard
	@tools/servers --durable bin/bench --suite gateway $(ARGS)
	@tools/servers --durable go test ./gateway -run '^$$' -bench Gateway -benchtime 1x -timeout 30m

bench-imports: bin/bench ## imports and exports of leads
	@tools/servers --durable bin/bench --suite imports $(ARGS)

bench-search: bin/bench ## article search, and what is added to the engine's own answer
	@tools/servers --durable bin/bench --suite search $(ARGS)
	@go test ./searchsvc/typesense -run '^$$' -bench Overhead -benchtime 2000x

bench-asking: bin/bench ## statistics, lists, error groups and counts among a million enrollments and deliveries
	@tools/servers --durable bin/bench --suite asking $(ARGS)

bench-entries: bin/bench ## events of which each begins a journey: 1,000 a second, and the time to the first POST at 50 a second
	@tools/servers --durable bin/bench --suite entries $(ARGS)

bench-growth: bin/bench ## what a launch costs with more leads, touchpoints and retries; draws docs/growth.svg
	@tools/servers --durable bin/bench --suite growth --plot docs/growth.svg $(ARGS)

# Always built anew: go knows what has changed.
bin/bench: build
	@go build -C bench -o ../bin/bench .

clean: ## remove bin/
	rm -rf bin
