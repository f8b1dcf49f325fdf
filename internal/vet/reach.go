package vet

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// Reaches is the fact about a function that takes no *pawl.Context: the shortest way
// from it to each kind of hazard.
type Reaches struct {
	Paths []Path // in the order of their kinds
}

// Path leads to one hazard.
type Path struct {
	Kind    string
	What    string   // "time.Now"
	Why     string   // what replay has against it
	Instead string   // what to do
	Where   string   // "clock.go:31"
	Via     []string // the functions between the one that has the fact and the hazard
}

// AFact makes Reaches a fact.
func (*Reaches) AFact() {}

// String lists the hazards with the way to them.
func (r *Reaches) String() string {
	var all []string
	for _, p := range r.Paths {
		all = append(all, strings.Join(append(slices.Clone(p.Via), p.What), " → "))
	}
	return "reaches " + strings.Join(all, ", ")
}

// route is a Path while the package is being joined.
type route struct {
	hazard
	where string
	via   []string
}

// through is the message at a call of fn, which has the route.
func (r route) through(fn *types.Func) string {
	via := ""
	if len(r.via) > 0 {
		via = " via " + strings.Join(r.via, " → ")
	}
	return fmt.Sprintf("%s reaches %s (%s)%s, which %s; %s [%s]", label(fn), r.what, r.where, via, r.why, r.instead, r.kind)
}

// way tells routes apart: a confined one must not hide the one that travels.
type way struct {
	kind     kind
	confined bool
}

// summary is the shortest known route of each way.
type summary map[way]route

// ordered gives the routes in an order of their own.
func (s summary) ordered() []route {
	routes := make([]route, 0, len(s))
	for _, r := range s {
		routes = append(routes, r)
	}
	slices.SortFunc(routes, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(len(a.via), len(b.via)), cmp.Compare(a.what, b.what), cmp.Compare(a.where, b.where))
	})
	return routes
}

// improve takes r if nothing as short is known.
func (s summary) improve(r route) bool {
	w := way{r.kind, r.confined}
	if old, ok := s[w]; ok && len(old.via) <= len(r.via) {
		return false
	}
	s[w] = r
	return true
}

// join computes what the functions without a *pawl.Context reach. Routes only become
// shorter, so it ends.
func (p *pkg) join() {
	for _, u := range p.plain {
		u.reach = make(summary)
		for _, h := range u.hazards {
			if !p.allows.take(h.pos, h.kind) {
				u.reach.improve(route{hazard: h.hazard, where: p.place(h.pos)})
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, u := range p.plain {
			for _, c := range u.calls {
				for _, r := range p.routes(c) {
					if p.allows.take(c.pos, r.kind) {
						continue
					}
					r.via = append([]string{label(c.fn)}, r.via...)
					changed = u.reach.improve(r) || changed
				}
			}
		}
	}
}

// routes gives what a call reaches.
func (p *pkg) routes(c call) []route {
	if c.fn.Pkg() == p.pass.Pkg {
		u, ok := p.byFunc[c.fn]
		if !ok {
			return nil
		}
		return c.filter(u.reach.ordered())
	}
	var fact Reaches
	if !p.pass.ImportObjectFact(c.fn, &fact) {
		return nil
	}
	routes := make([]route, len(fact.Paths))
	for i, f := range fact.Paths {
		routes[i] = route{hazard{kind: kind(f.Kind), what: f.What, why: f.Why, instead: f.Instead}, f.Where, f.Via}
	}
	return c.filter(routes)
}

// export makes facts of what importing packages have to know.
func (p *pkg) export() {
	for _, u := range p.plain {
		decl, ok := u.node.(*ast.FuncDecl)
		if !ok {
			continue
		}
		fn, ok := p.pass.TypesInfo.Defs[decl.Name].(*types.Func)
		if !ok {
			continue
		}
		var fact Reaches
		for _, r := range u.reach.ordered() {
			if !r.confined {
				fact.Paths = append(fact.Paths, Path{string(r.kind), r.what, r.why, r.instead, r.where, r.via})
			}
		}
		if len(fact.Paths) > 0 {
			p.pass.ExportObjectFact(fn, &fact)
		}
	}
}

// report gathers the findings of orchestration code, in the order of the source.
func (p *pkg) report(u *unit) {
	var found []finding
	for _, h := range u.hazards {
		found = append(found, finding{h.pos, h.kind, h.here()})
	}
	for _, c := range u.calls {
		said := make(map[kind]bool)
		for _, r := range p.routes(c) {
			if !said[r.kind] {
				said[r.kind] = true
				found = append(found, finding{c.pos, r.kind, r.through(c.fn)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(a.pos, b.pos) })
	for _, f := range found {
		if !p.allows.take(f.pos, f.kind) {
			p.findings = append(p.findings, f)
		}
	}
}

// place is a position as messages say it, the same wherever the module is checked out.
func (p *pkg) place(pos token.Pos) string {
	at := p.pass.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
}
