# make help lists the targets.

GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
DIR     ?=
TIMEOUT ?= 14m
FUZZTIME ?= 30s
SEED    ?= $(shell date +%s)
MINUTES ?= 3
TOPOLOGY ?=

.PHONY: help run build test chart screenshots setup check fuzz chaos fmt vet lint vuln bench recover clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## the demo: an embedded stack audits the Go distribution's source, and loses a worker; DIR=path audits another tree
	@echo "Compiling pawl (the first time takes about half a minute)…"
	@$(GO) run ./cmd/pawl demo $(if $(DIR),--dir $(DIR))

build: ## build pawl, orchestrator, worker and pawlvet into bin/
	$(GO) build -trimpath -o bin/ ./cmd/...

setup: ## install what the tests need: redis-server, chromium, luacheck and a C compiler
	@GO="$(GO)" ./scripts/setup.sh

screenshots: setup ## write a picture of every screen of the console to docs/console/
	$(GO) test -tags screenshots -run TestScreenshots ./internal/console

test: setup ## all tests, with the race detector
	$(GO) test -race -timeout $(TIMEOUT) ./...

chart: ## render the Helm chart, and check it against the types of Kubernetes
	cd deployments/testdata/chart && $(GO) test ./...

check: fmt vet lint vuln test ## what CI runs: fmt, vet, lint, vuln, test

fuzz: ## every fuzz target for FUZZTIME (30s)
	@GO="$(GO)" ./scripts/fuzz.sh $(FUZZTIME)

chaos: setup ## a fault campaign of MINUTES (3) with SEED; TOPOLOGY=single, failover, cluster, …
	@mkdir -p bin; rm -f bin/chaos.json; echo "chaos: SEED=$(SEED) MINUTES=$(MINUTES) TOPOLOGY=$(TOPOLOGY)"
	@SEED=$(SEED) MINUTES=$(MINUTES) TOPOLOGY=$(TOPOLOGY) CHAOS_SUMMARY=$(CURDIR)/bin/chaos.json \
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

# The vulnerability database is on the network; where it cannot be reached, a line says so.
vuln: ## known vulnerabilities of the dependencies
	@out=$$($(TOOL) govulncheck ./... 2>&1); code=$$?; \
	if [ $$code -ne 0 ] && echo "$$out" | grep -q 'fetching vulnerabilities'; then \
		echo "vuln: the vulnerability database cannot be reached from here; not checked"; \
	else echo "$$out"; exit $$code; fi

bench: setup ## throughput, latency, cancellation and limits; every part a process of its own
	@$(GO) build -o bin/ ./cmd/...
	@./bin/pawl bench all
	@./bin/pawl bench cancel
	@./bin/pawl bench gate

recover: build ## how long instances wait because of each of seventeen faults; about half an hour
	@./bin/pawl bench recover

clean: ## remove bin/
	rm -rf bin
