package vet

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports code that makes an orchestration behave differently when it is replayed. It needs the facts of all dependencies,
// which every driver of go/analysis collects.
var Analyzer = &analysis.Analyzer{
	Name:      "pawlvet",
	Doc:       doc,
	URL:       "https://github.com/pawlrun/pawl/blob/main/docs/guide/determinism.md",
	Run:       run,
	FactTypes: []analysis.Fact{new(Reaches)},
}

const doc = `report code that makes a Pawl orchestration replay differently

Pawl restores an instance by running its orchestration code again, which must then do
the same. In functions that take a *pawl.Context and in the functions that they call,
the analyzer reports: clocks and timers, random numbers and ids, loops over maps,
goroutines, channels, locks, files, network and databases, new contexts, calls that
the runtime cannot undo, writes to package-level variables, and a *pawl.Context that
leaves its run.

A comment on the line or above it allows one finding:

	//pawl:allow time: only logged, no decision depends on it`

func run(pass *analysis.Pass) (any, error) {
	if path := pass.Pkg.Path(); path == pawlPath || standard(path) {
		return nil, nil //nolint:nilnil // the analysis has no result, only diagnostics and facts
	}
	p := &pkg{pass: pass, catalogue: newCatalogue(), allows: readAllows(pass.Fset, pass.Files), byFunc: make(map[*types.Func]*unit)}
	p.collect()
	p.join()
	p.export()
	for _, u := range p.roots {
		p.report(u)
	}
	p.contextVariables()
	p.findings = append(p.findings, p.allows.findings()...)
	slices.SortStableFunc(p.findings, func(a, b finding) int { return cmp.Compare(a.pos, b.pos) })
	for _, f := range p.findings {
		pass.Report(analysis.Diagnostic{Pos: f.pos, Category: string(f.kind), Message: f.text})
	}
	return nil, nil //nolint:nilnil // the analysis has no result, only diagnostics and facts
}

// pkg is the analysis of one package.
type pkg struct {
	pass      *analysis.Pass
	catalogue catalogue
	allows    *allows
	roots     []*unit // functions that take a *pawl.Context, in source order
	plain     []*unit // all other functions
	byFunc    map[*types.Func]*unit
	findings  []finding
}

// unit is a function that is scanned on its own, with the literals inside it.
type unit struct {
	node    ast.Node // *ast.FuncDecl or *ast.FuncLit
	root    bool     // whether it takes a *pawl.Context
	hazards []occurrence
	calls   []call
	reach   summary // hazards that a plain unit reaches, after join
}

// call is a mention of a function whose code is analyzed.
type call struct {
	fn     *types.Func // the generic function
	pos    token.Pos
	sorted bool // whether the next use of its result sorts it
}

// filter removes the routes to map order if the caller sorts the result.
func (c call) filter(routes []route) []route {
	if !c.sorted {
		return routes
	}
	return slices.DeleteFunc(routes, func(r route) bool { return r.kind == kindMap })
}

// occurrence is a hazard and its position.
type occurrence struct {
	hazard
	pos token.Pos
}

// finding is a diagnostic.
type finding struct {
	pos  token.Pos
	kind kind
	text string
}
