// Command pawlvet reports orchestration code that would not replay.
//
//	pawlvet ./...
//	go vet -vettool=$(which pawlvet) ./...
//
// What it reports, why, and what to write instead is described in
// docs/guide/determinism.md. Exit status: 0 nothing found, 3 something found (under go
// vet: 1), 1 the packages could not be analyzed or none were named.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/pawlrun/pawl/internal/vet"
)

func main() { singlechecker.Main(vet.Analyzer) }
