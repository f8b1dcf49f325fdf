package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// collect finds the package's functions and scans them.
func (p *pkg) collect() {
	for _, f := range p.pass.Files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				p.literals(d)
				continue
			}
			obj, ok := p.pass.TypesInfo.Defs[fn.Name].(*types.Func)
			if !ok {
				continue
			}
			u := p.unit(fn, takesContext(obj.Signature()))
			p.byFunc[obj] = u
			if !u.root {
				p.literals(fn.Body)
			}
		}
	}
}

// literals finds the function literals in n that are orchestration code.
func (p *pkg) literals(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		lit, ok := n.(*ast.FuncLit)
		if ok && takesContext(p.pass.TypesInfo.TypeOf(lit)) {
			p.unit(lit, true)
			return false
		}
		return true
	})
}

func (p *pkg) unit(node ast.Node, isRoot bool) *unit {
	u := &unit{node: node, root: isRoot}
	if isRoot {
		p.roots = append(p.roots, u)
	} else {
		p.plain = append(p.plain, u)
	}
	s := &scanner{pkg: p, unit: u, info: p.pass.TypesInfo}
	ast.PreorderStack(node, nil, s.visit)
	return u
}

// scanner scans one unit.
type scanner struct {
	*pkg
	unit *unit
	info *types.Info
}

func (s *scanner) add(pos token.Pos, h hazard) {
	s.unit.hazards = append(s.unit.hazards, occurrence{h, pos})
}

// visit is called for each node, with its enclosing nodes.
func (s *scanner) visit(n ast.Node, stack []ast.Node) bool {
	if s.exempt(n, stack) {
		return false
	}
	switch n := n.(type) {
	case *ast.FuncLit:
		if n != s.unit.node && !s.unit.root && takesContext(s.info.TypeOf(n)) {
			return false // scanned as a separate unit
		}
	case *ast.GoStmt:
		s.add(n.Pos(), hazard{kind: kindGo, what: "a go statement", reason: goReason, instead: goInstead})
		s.contextIn(n.Call, "on another goroutine")
	case *ast.SelectStmt:
		s.channel(n.Pos(), "a select statement")
	case *ast.SendStmt:
		if !communicates(n, stack) {
			s.channel(n.Arrow, "a send on a channel")
		}
		s.stored(n.Value)
	case *ast.UnaryExpr:
		if n.Op == token.ARROW && !communicates(n, stack) {
			s.channel(n.OpPos, "a receive from a channel")
		}
	case *ast.RangeStmt:
		s.loop(n, stack)
	case *ast.CallExpr:
		s.call(n, stack)
	case *ast.AssignStmt:
		s.assign(n, stack)
	case *ast.IncDecStmt:
		s.global(n.X, stack)
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				e = kv.Value
			}
			s.stored(e)
		}
	case *ast.Ident:
		s.mention(n, stack)
	}
	return true
}

// mention records the object of an identifier.
func (s *scanner) mention(id *ast.Ident, stack []ast.Node) {
	obj := s.info.Uses[id]
	if fn, ok := obj.(*types.Func); ok {
		obj = fn.Origin()
	}
	if h, known := s.catalogue.lookup(obj); known {
		if h.kind != free {
			s.add(id.Pos(), h)
		}
		return
	}
	fn, ok := obj.(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Pkg().Path() == pawlPath || standard(fn.Pkg().Path()) || takesContext(fn.Signature()) {
		return
	}
	s.unit.calls = append(s.unit.calls, call{fn: fn, pos: id.Pos(), sorted: s.sortedAfter(callOf(id, stack), stack)})
}

// callOf returns the call whose function is id, if there is one: f(), p.f(), f[int]().
func callOf(id *ast.Ident, stack []ast.Node) *ast.CallExpr {
	var e ast.Expr = id
	for _, around := range slices.Backward(stack) {
		switch x := around.(type) {
		case *ast.SelectorExpr:
			if x.Sel != e {
				return nil
			}
			e = x
		case *ast.IndexExpr, *ast.IndexListExpr, *ast.ParenExpr:
			e = x.(ast.Expr)
		case *ast.CallExpr:
			if x.Fun == e {
				return x
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// exempt reports whether n is a function that does not run as part of the orchestration, because it is an activity or runs once for all
// replays.
func (s *scanner) exempt(n ast.Node, stack []ast.Node) bool {
	e, ok := n.(ast.Expr)
	if !ok || len(stack) == 0 {
		return false
	}
	c, ok := stack[len(stack)-1].(*ast.CallExpr)
	if !ok || c.Fun == e {
		return false
	}
	if _, isFunc := types.Unalias(s.info.TypeOf(e)).(*types.Signature); !isFunc {
		return false
	}
	return is(callee(s.info, c), pawlPath, "Activity.Do", "SideEffect")
}

func (s *scanner) channel(pos token.Pos, what string) {
	s.add(pos, hazard{
		kind: kindChannel, what: what, reason: "depends on other goroutines, which no history records, and may block the turn",
		instead: "wait for futures (pawl.Select, pawl.Any), for an event, or with pawl.Await",
	})
}

// communicates reports whether n is the communication of a case, which is reported as part of its select.
func communicates(n ast.Node, stack []ast.Node) bool {
	for _, around := range slices.Backward(stack) {
		switch x := around.(type) {
		case *ast.CommClause:
			return x.Comm != nil && x.Comm.Pos() <= n.Pos() && n.End() <= x.Comm.End()
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// call scans the arguments of a call. Its function is recorded by mention.
func (s *scanner) call(c *ast.CallExpr, stack []ast.Node) {
	switch builtin(s.info, c) {
	case "close":
		s.channel(c.Pos(), "closing a channel")
	case "delete", "clear":
		s.global(c.Args[0], stack)
	case "append":
		for _, a := range c.Args[1:] {
			s.stored(a)
		}
	}
	fn := callee(s.info, c)
	for i, a := range c.Args {
		switch {
		case spawns(fn):
			s.contextIn(a, "on another goroutine")
		case i > 0 && is(fn, pawlPath, "SideEffect"):
			s.contextIn(a, "in a side effect")
		}
	}
	if iterates(fn) && !s.orderFree(c, stack) {
		s.add(c.Pos(), hazard{
			kind: kindMap, what: "maps." + fn.Name(), reason: "has another order at every replay",
			instead: "use slices.Sorted(maps.Keys(m))",
		})
	}
}

// spawns reports whether fn runs its argument on another goroutine.
func spawns(fn *types.Func) bool {
	return is(fn, "sync", "WaitGroup.Go") || is(fn, "time", "AfterFunc") || is(fn, "context", "AfterFunc") ||
		is(fn, "golang.org/x/sync/errgroup", "Group.Go", "Group.TryGo")
}

func (s *scanner) assign(a *ast.AssignStmt, stack []ast.Node) {
	for i, lhs := range a.Lhs {
		if a.Tok != token.DEFINE {
			s.global(lhs, stack)
		}
		kept := isContext(s.info.TypeOf(lhs)) || len(a.Lhs) == len(a.Rhs) && isContext(s.info.TypeOf(a.Rhs[i]))
		if kept && s.outlives(lhs) {
			s.escape(lhs.Pos(), "a *pawl.Context that is kept in "+types.ExprString(lhs))
		}
	}
}

// global records a write to a package-level variable, except in the function of a sync.Once.
func (s *scanner) global(lhs ast.Expr, stack []ast.Node) {
	v := root(s.info, lhs)
	if v == nil || !packageLevel(v) || s.once(stack) {
		return
	}
	s.add(lhs.Pos(), hazard{
		kind: kindGlobal, what: "a write to " + v.Pkg().Name() + "." + v.Name(),
		reason:  "is repeated at every replay, and visible to every other instance in the process",
		instead: "use a local variable, or an activity that stores it",
	})
}

func (s *scanner) once(stack []ast.Node) bool {
	for _, n := range stack {
		c, ok := n.(*ast.CallExpr)
		if ok && is(callee(s.info, c), "sync", "Once.Do", "OnceFunc", "OnceValue", "OnceValues") {
			return true
		}
	}
	return false
}
