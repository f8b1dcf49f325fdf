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

// Reaches is the fact about a function that takes no *pawl.Context: the shortest path to each kind of hazard.
type Reaches struct {
	Paths []Path // ordered by kind
}

// Path is a path to one hazard.
type Path struct {
	Kind    string
	What    string   // the hazard, such as "time.Now"
	Reason  string   // the reason, as a predicate
	Instead string   // what to use instead
	Where   string   // its place, such as "clock.go:31"
	Via     []string // the functions between the one with the fact and the hazard
}

// AFact implements analysis.Fact.
func (*Reaches) AFact() {}

// String lists the hazards with the paths to them.
func (r *Reaches) String() string {
	var all []string
	for _, p := range r.Paths {
		all = append(all, strings.Join(append(slices.Clone(p.Via), p.What), " → "))
	}
	return "reaches " + strings.Join(all, ", ")
}

// route is a Path during join.
type route struct {
	hazard
	where string
	via   []string
}

// through returns the message for a call of fn, through which the route leads.
func (r route) through(fn *types.Func) string {
	via := ""
	if len(r.via) > 0 {
		via = " via " + strings.Join(r.via, " → ")
	}
	return fmt.Sprintf("%s reaches %s (%s)%s, which %s; %s [%s]", label(fn), r.what, r.where, via, r.reason, r.instead, r.kind)
}

// target identifies routes for comparison: a confined route must not hide one that is exported.
type target struct {
	kind     kind
	confined bool
}

// summary is the shortest known route to each target.
type summary map[target]route

// ordered returns the routes in a fixed order.
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

// improve stores r if it is shorter than the known route to its target.
func (s summary) improve(r route) bool {
	t := target{r.kind, r.confined}
	if old, ok := s[t]; ok && len(old.via) <= len(r.via) {
		return false
	}
	s[t] = r
	return true
}

// join computes the routes of the functions without a *pawl.Context. Routes only become shorter, so it terminates.
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

// routes returns the routes of a call.
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
		routes[i] = route{hazard{kind: kind(f.Kind), what: f.What, reason: f.Reason, instead: f.Instead}, f.Where, f.Via}
	}
	return c.filter(routes)
}

// export exports the facts for importing packages.
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
				fact.Paths = append(fact.Paths, Path{string(r.kind), r.what, r.reason, r.instead, r.where, r.via})
			}
		}
		if len(fact.Paths) > 0 {
			p.pass.ExportObjectFact(fn, &fact)
		}
	}
}

// report adds the findings of orchestration code, in source order.
func (p *pkg) report(u *unit) {
	var found []finding
	for _, h := range u.hazards {
		found = append(found, finding{h.pos, h.kind, h.here()})
	}
	for _, c := range u.calls {
		reported := make(map[kind]bool)
		for _, r := range p.routes(c) {
			if !reported[r.kind] {
				reported[r.kind] = true
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

// place returns a position for messages, independent of the directory of the module.
func (p *pkg) place(pos token.Pos) string {
	at := p.pass.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
}
