package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

func (s *scanner) escape(pos token.Pos, what string) {
	s.add(pos, escape(what))
}

func escape(what string) hazard {
	return hazard{
		kind: kindEscape, what: what, reason: "is valid only in the run of the function that it was passed to",
		instead: "pass it as an argument",
	}
}

// stored records that e is stored, if it is a *pawl.Context.
func (s *scanner) stored(e ast.Expr) {
	if isContext(s.info.TypeOf(e)) {
		s.escape(e.Pos(), "a *pawl.Context that is kept")
	}
}

// contextIn records that code which runs elsewhere uses an outer *pawl.Context. It records at most one finding.
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

// outlives reports whether a value that is assigned to lhs may outlive the function.
func (s *scanner) outlives(lhs ast.Expr) bool {
	id, ok := ast.Unparen(lhs).(*ast.Ident)
	if !ok {
		return true
	}
	v, ok := s.info.ObjectOf(id).(*types.Var)
	return ok && packageLevel(v)
}

// contextVariables reports package-level variables of type *pawl.Context.
func (p *pkg) contextVariables() {
	scope := p.pass.Pkg.Scope()
	for _, name := range scope.Names() {
		v, ok := scope.Lookup(name).(*types.Var)
		if ok && isContext(v.Type()) && !p.allows.take(v.Pos(), kindEscape) {
			p.findings = append(p.findings, finding{v.Pos(), kindEscape, escape("a *pawl.Context in a package-level variable").here()})
		}
	}
}
