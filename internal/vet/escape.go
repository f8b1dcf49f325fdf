package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// A *pawl.Context belongs to one run of one function and to the coroutine that runs it.

func (s *scanner) escape(pos token.Pos, what string) {
	s.see(pos, escape(what))
}

func escape(what string) hazard {
	return hazard{
		kind: kindEscape, what: what, why: "is of no use outside of the run that it was given to",
		instead: "hand it on as an argument, as far as the run goes",
	}
}

// stored records that e is put into something, if it is a *pawl.Context.
func (s *scanner) stored(e ast.Expr) {
	if isContext(s.info.TypeOf(e)) {
		s.escape(e.Pos(), "a *pawl.Context that is kept")
	}
}

// contextIn records that what will run elsewhere uses a *pawl.Context that is not its
// own. One finding for each is enough.
func (s *scanner) contextIn(n ast.Node, where string) {
	seen := false
	ast.Inspect(n, func(m ast.Node) bool {
		id, ok := m.(*ast.Ident)
		if seen || !ok {
			return !seen
		}
		v, ok := s.info.Uses[id].(*types.Var)
		if ok && isContext(v.Type()) && (v.Pos() < n.Pos() || v.Pos() > n.End()) {
			s.escape(id.Pos(), "a *pawl.Context "+where)
			seen = true
		}
		return !seen
	})
}

// outlives reports whether what is assigned to lhs may be there after the function.
func (s *scanner) outlives(lhs ast.Expr) bool {
	id, ok := ast.Unparen(lhs).(*ast.Ident)
	if !ok {
		return true
	}
	v, ok := s.info.ObjectOf(id).(*types.Var)
	return ok && packageLevel(v)
}

// contextVariables reports package-level variables that are made to keep one.
func (p *pkg) contextVariables() {
	scope := p.pass.Pkg.Scope()
	for _, name := range scope.Names() {
		v, ok := scope.Lookup(name).(*types.Var)
		if ok && isContext(v.Type()) && !p.allows.take(v.Pos(), kindEscape) {
			p.findings = append(p.findings, finding{v.Pos(), kindEscape, escape("a *pawl.Context in a package-level variable").here()})
		}
	}
}
