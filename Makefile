# make run    the demo: an embedded stack audits the Go distribution's own source, and loses a worker on the way
# make test   everything, with the race detector; installs what it needs
# make check  what CI runs: format, vet, lint, vulnerabilities, tests
# make recover  how long instances wait because of each of seventeen faults
# make bench  throughput and latency, that of cancellation, and what gates let through; every part a process of its own

GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
DIR     ?=
TIMEOUT ?= 14m

.PHONY: run build test setup check fmt vet lint vuln bench recover clean

run:
	@$(GO) run ./cmd/pawl demo $(if $(DIR),--dir $(DIR))

build:
	$(GO) build -trimpath -o bin/ ./cmd/...

setup:
	@GO="$(GO)" ./scripts/setup.sh

test: setup
	$(GO) test -race -timeout $(TIMEOUT) ./...

check: fmt vet lint vuln test

fmt:
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt wants to change:"; echo "$$bad"; exit 1; fi

vet:
	$(GO) vet ./...
	$(GO) vet -tags failpoint ./internal/failpoint ./cmd/...
	$(GO) build -o bin/pawlvet ./cmd/pawlvet
	$(GO) vet -vettool=$(CURDIR)/bin/pawlvet ./examples/...

lint:
	$(TOOL) golangci-lint run ./...

# The vulnerability database is on the network; where it can not be reached that is said, and no more.
vuln:
	@out=$$($(TOOL) govulncheck ./... 2>&1); code=$$?; \
	if [ $$code -ne 0 ] && echo "$$out" | grep -q 'fetching vulnerabilities'; then \
		echo "vuln: the vulnerability database can not be reached from here; not checked"; \
	else echo "$$out"; exit $$code; fi

bench: setup
	@$(GO) build -o bin/ ./cmd/...
	@./bin/pawl bench all
	@./bin/pawl bench cancel
	@./bin/pawl bench gate

# About half an hour: seventeen faults, ten rounds each.
recover: build
	@./bin/pawl bench recover

clean:
	rm -rf bin
