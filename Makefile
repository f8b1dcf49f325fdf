# make help lists the targets.

GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
DIR     ?=
TIMEOUT ?= 14m
CORES    = $(shell getconf _NPROCESSORS_ONLN)
FUZZTIME ?= 30s
SEED    ?= $(shell date +%s)
MINUTES ?= 3
TOPOLOGY ?=
PREVIOUS ?= HEAD~1

# SEQUENTIAL lists the packages whose code and tests start no goroutine, which TestSequentialPackagesStartNoGoroutine checks: pure
# functions, models, and scripts beside their model. The race detector can find nothing in them and takes five times as long; the
# pools and connections that they share with others are raced where their owners are tested.
SEQUENTIAL = cmd/pawlvet deployments internal/attribute internal/build internal/builtin internal/core internal/eventcodec internal/filter \
	internal/fold internal/imported internal/payload internal/propagate internal/prose internal/record internal/redact internal/schedule \
	internal/show internal/term internal/text internal/vet internal/wire pkg/cancel pkg/history tests tests/chaos/verdict tests/conformance \
	tests/model

# PROCESSES lists the packages whose tests run fleets as processes. What they test is in the processes, which the race detector of the
# test does not see; decision 70 has where their code is raced.
PROCESSES = internal/bench tests/cancel tests/crash tests/limits

# RACE turns the race detector on, except in the interpreter of Lua that miniredis has: a script belongs to one goroutine.
RACE = -race -gcflags=github.com/yuin/gopher-lua/...=-race=false

# Compilers and linkers take a quarter less time with a larger heap; a test has the heap that it has elsewhere.
GOTEST = GOGC=400 GORACE=atexit_sleep_ms=0 $(GO) test -exec 'env -u GOGC' -vet=off -timeout $(TIMEOUT)

.PHONY: help run build test raced unraced chart screenshots setup check fuzz chaos fmt vet lint vuln bench recover clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## the demo: an embedded stack audits the Go distribution's source, and loses a worker; DIR=path audits another tree
	@echo "Compiling pawl (the first time takes about half a minute)…"
	@$(GO) run ./cmd/pawl demo $(if $(DIR),--dir $(DIR))

build: ## build pawl, orchestrator, worker and pawlvet into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

setup: ## install what the tests need: redis-server, a browser, luacheck and a C compiler
	@GO="$(GO)" ./scripts/setup.sh

screenshots: setup ## write a picture of every screen of the console to docs/console/
	$(GO) test -timeout 30m -tags screenshots -run TestScreenshots ./internal/console

# What takes longest is first, because it would be alone at the end.
LONGEST = pkg/orchestrator cmd/pawl internal/store internal/console internal/redisx pkg/worker

# Two runs are beside each other: that with the race detector waits for half of its time, and that without computes. With the detector a
# process sleeps for a second at its end by default, for goroutines that still run; goleak reports those. Tests that are parallel wait more
# than they compute, so more of them run at a time than there are cores.
test: setup ## all tests, with the race detector where there are goroutines; vet is a target of its own
	@$(MAKE) --no-print-directory -j2 raced unraced

raced:
	@$(GOTEST) -p $$(($(CORES) + 1)) -parallel $$(($(CORES) * 2)) $(RACE) $(LONGEST:%=./%) $$($(GO) list ./... | grep -vxE '[^/]*/[^/]*/[^/]*/($(shell echo $(SEQUENTIAL) $(PROCESSES) | tr ' ' '|'))')

unraced:
	@$(GOTEST) -p $(CORES) ./tests/crash ./tests/model $(PROCESSES:%=./%) $(SEQUENTIAL:%=./%)

chart: ## render the Helm chart, check it against the types of Kubernetes, and parse the queries of alerts and dashboards
	cd deployments/testdata/chart && $(GO) test ./...
	cd deployments/testdata/promql && $(GO) test ./...

check: fmt vet lint vuln chart test ## what CI runs: fmt, vet, lint, vuln, chart, test

fuzz: ## every fuzz target for FUZZTIME (30s), and more states of the model than make test visits
	@GO="$(GO)" ./scripts/fuzz.sh $(FUZZTIME)
	PAWL_MODEL_STATES=4000 $(GO) test -count 1 -run TestOwnerKeepsItsPromises ./tests/model

chaos: setup ## a fault campaign of MINUTES (3) with SEED; TOPOLOGY=single, failover, cluster, …
	@mkdir -p bin; rm -f bin/chaos.json; echo "chaos: SEED=$(SEED) MINUTES=$(MINUTES) TOPOLOGY=$(TOPOLOGY)"
	@SEED=$(SEED) MINUTES=$(MINUTES) TOPOLOGY=$(TOPOLOGY) PREVIOUS=$(PREVIOUS) CHAOS_SUMMARY=$(CURDIR)/bin/chaos.json \
		$(GO) test -tags chaos -count 1 -timeout 0 ./tests/chaos; code=$$?; cat bin/chaos.json; exit $$code

fmt: ## report files that gofmt would change
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi

vet: ## go vet, also with failpoints, and pawlvet on the examples
	$(GO) vet ./...
	$(GO) vet -tags failpoint ./internal/failpoint ./cmd/...
	$(GO) vet -tags chaos ./tests/chaos
	$(GO) build -o bin/pawlvet ./cmd/pawlvet
	$(GO) vet -vettool=$(CURDIR)/bin/pawlvet ./examples/...

lint: setup ## golangci-lint, luacheck, and the text of the documents
	$(TOOL) golangci-lint run ./...
	$(GO) run ./internal/prose .
	$(GO) run ./internal/luacheck .

# The vulnerability database is on the network; where it cannot be reached, a line reports it.
vuln: ## known vulnerabilities of the dependencies
	@out=$$($(TOOL) govulncheck ./... 2>&1); code=$$?; \
	if [ $$code -ne 0 ] && echo "$$out" | grep -q 'fetching vulnerabilities'; then \
		echo "vuln: the vulnerability database cannot be reached from here; not checked"; \
	else echo "$$out"; exit $$code; fi

bench: setup ## throughput, latency, cancellation and limits; every part a process of its own
	@$(GO) build -o bin/ ./cmd/...
	@./bin/pawl bench all
	@./bin/pawl bench cancel
	@./bin/pawl bench limit

recover: build ## how long instances wait because of each of seventeen faults; about half an hour
	@./bin/pawl bench recover

clean: ## remove bin/
	rm -rf bin
