package vet

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports what would make an orchestration behave differently when it is
// replayed. It needs the facts of all dependencies; every driver of go/analysis
// gathers them.
var Analyzer = &analysis.Analyzer{
	Name:      "pawlvet",
	Doc:       doc,
	URL:       "https://github.com/pawlrun/pawl/blob/main/docs/guide/determinism.md",
	Run:       run,
	FactTypes: []analysis.Fact{new(Reaches)},
}

const doc = `report what would make a Pawl orchestration replay differently

Orchestration code is run again to bring it back to where it was, and must then do
what it did. Reported are, in functions that take a *pawl.Context and in what they
call: clocks and timers, random numbers and ids, loops over maps that let the order
decide, goroutines, channels, locks, files, network and databases, contexts made on
the spot, calls that the runtime can not survive, writes to package-level variables,
and a *pawl.Context that leaves its run.

An exception is argued on the line or above it; each silences one finding:

	//pawl:allow time: only logged, and decides nothing`

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
	p.findings = append(p.findings, p.allows.complaints()...)
	slices.SortStableFunc(p.findings, func(a, b finding) int { return cmp.Compare(a.pos, b.pos) })
	for _, f := range p.findings {
		pass.Report(analysis.Diagnostic{Pos: f.pos, Category: string(f.kind), Message: f.text})
	}
	return nil, nil //nolint:nilnil // likewise
}

// pkg is the analysis of one package.
type pkg struct {
	pass      *analysis.Pass
	catalogue catalogue
	allows    *allows
	roots     []*unit // take a *pawl.Context, in the order of the source
	plain     []*unit // the others
	byFunc    map[*types.Func]*unit
	findings  []finding
}

// unit is a function that is looked at on its own, with the literals inside it.
type unit struct {
	node    ast.Node // *ast.FuncDecl or *ast.FuncLit
	root    bool     // takes a *pawl.Context
	hazards []sighting
	calls   []call
	reach   summary // of a plain unit, once joined
}

// call is a mention of a function that is judged by its own code.
type call struct {
	fn     *types.Func // in its generic form
	pos    token.Pos
	sorted bool // what it returns is put in order before it is used otherwise
}

// filter takes away what the caller has mended.
func (c call) filter(routes []route) []route {
	if !c.sorted {
		return routes
	}
	return slices.DeleteFunc(routes, func(r route) bool { return r.kind == kindMap })
}

// sighting is a hazard and where it stands.
type sighting struct {
	hazard
	pos token.Pos
}

// finding is what will be reported.
type finding struct {
	pos  token.Pos
	kind kind
	text string
}
