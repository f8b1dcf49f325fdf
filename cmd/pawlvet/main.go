// Command pawlvet reports orchestration code that would not replay.
//
//	pawlvet ./...
//	go vet -vettool=$(which pawlvet) ./...
//
// The findings, their reasons and the alternatives are described in docs/guide/determinism.md. Exit status: 0 if nothing was found, 3 if
// something was found (1 under go vet), and 1 if the packages could not be analyzed or none were named.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/pawlrun/pawl/internal/vet"
)

func main() { singlechecker.Main(vet.Analyzer) }
