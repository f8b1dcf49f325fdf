package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mapLoop judges one loop over a map. The loop is free if it comes out the same in
// every order. That is so of a loop that
//
//   - only sets, in what is outside of it, what each element sets for itself
//     (out[k] = …), what every element sets alike (seen[v] = true, found = true), or
//     what adds up the same in every order (integers added, a minimum, booleans joined);
//   - does not look at what it so makes, before it is made;
//   - appends to a slice whose next use is that it is sorted;
//   - ends early in one way only, with a result that does not tell which element it
//     met, and with nothing else done that is still there afterwards;
//   - calls no word of pawl, and nothing for the sake of an effect outside of itself.
//
// Everything else lets the order decide. The rule follows names and not what pointers
// point at: a variable made inside the loop is taken to belong to its element.
type mapLoop struct {
	*scanner
	loop    *ast.RangeStmt
	stack   []ast.Node          // around the loop
	key     *types.Var          // differs from round to round; nil for maps.Values
	over    string              // the map, as the source has it
	changed map[*types.Var]bool // outer variables of which the loop changes something
	parts   []string            // and what of them
	ways    map[string]string   // how each is changed
	consts  map[string]string   // what is set alike
	exits   []exit
	piles   []pile
	reason  string
	at      token.Pos
}

// exit is a place where the loop ends before the map does.
type exit struct {
	pos      token.Pos
	text     string // of the statements that end it
	returns  bool
	tells    bool // which element was met
	panicked bool
}

// pile is an outer variable that becomes what the elements make of it together.
type pile struct {
	pos token.Pos
	v   *types.Var
}

// loop looks at what a range statement ranges over.
func (s *scanner) loop(n *ast.RangeStmt, stack []ast.Node) {
	if n.Tok == token.ASSIGN {
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if e != nil {
				s.global(e, stack)
			}
		}
	}
	t := s.info.TypeOf(n.X)
	if _, ok := t.Underlying().(*types.Chan); ok {
		s.channel(n.Pos(), "a loop over a channel")
	}
	m := mapLoop{
		scanner: s, loop: n, stack: stack, changed: make(map[*types.Var]bool),
		ways: make(map[string]string), consts: make(map[string]string),
	}
	if c, ok := ast.Unparen(n.X).(*ast.CallExpr); ok && iterates(callee(s.info, c)) {
		m.over = types.ExprString(c.Args[0])
		if callee(s.info, c).Name() != "Values" {
			m.key = m.variable(n.Key)
		}
	} else if isMap(t) {
		m.over, m.key = types.ExprString(n.X), m.variable(n.Key)
	} else {
		return
	}
	if m.decides() {
		s.see(n.Pos(), hazard{
			kind: kindMap, what: "a loop over a map",
			why:     fmt.Sprintf("comes in another order at every replay, and this one %s (line %d)", m.reason, s.pass.Fset.Position(m.at).Line),
			instead: "range over slices.Sorted(maps.Keys(m))",
		})
	}
}

func (m *mapLoop) variable(e ast.Expr) *types.Var {
	id, ok := e.(*ast.Ident)
	if !ok || id.Name == "_" {
		return nil
	}
	v, _ := m.info.ObjectOf(id).(*types.Var)
	return v
}

// decides reports whether the order of the map may be seen from outside.
func (m *mapLoop) decides() bool {
	key, value := m.variable(m.loop.Key), m.variable(m.loop.Value)
	if key == nil && value == nil {
		return false // every round is the same
	}
	if m.loop.Tok == token.ASSIGN {
		m.against(m.loop.Pos(), "leaves the last element in a variable outside of it")
	}
	m.gather()
	if m.changed[m.key] {
		m.key = nil
	}
	ast.PreorderStack(m.loop.Body, nil, m.step)
	m.judgeExits()
	return m.reason != ""
}

// against keeps the first thing that lets the order decide.
func (m *mapLoop) against(pos token.Pos, reason string) {
	if m.reason == "" || pos < m.at {
		m.reason, m.at = reason, pos
	}
}

// gather finds the outer variables, and the key, that the loop's body changes.
func (m *mapLoop) gather() {
	add := func(e ast.Expr) {
		v := root(m.info, e)
		if v == nil || m.inside(v) && v != m.key {
			return
		}
		m.changed[v] = true
		m.parts = append(m.parts, types.ExprString(e))
	}
	ast.Inspect(m.loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		}
		return true
	})
}

func (m *mapLoop) inside(v *types.Var) bool {
	return m.loop.Pos() <= v.Pos() && v.Pos() < m.loop.End()
}

// step is called for each node of the body, with those around it, up to the body.
func (m *mapLoop) step(n ast.Node, stack []ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		v, ok := m.info.Uses[n].(*types.Var)
		if !ok {
			return true
		}
		if isContext(v.Type()) && !m.asks(stack) {
			m.against(n.Pos(), "gives its *pawl.Context to calls in that order")
		}
		if m.changed[v] && !m.inside(v) {
			m.read(n, v, stack)
		}
	case *ast.ReturnStmt:
		if !inLiteral(stack) {
			m.leave(n, stack, true)
		}
	case *ast.BranchStmt:
		if !inLiteral(stack) && m.leaves(n, stack) {
			m.leave(n, stack, false)
		}
	case *ast.AssignStmt:
		m.assigned(n, stack)
	case *ast.IncDecStmt:
		m.change(change{lhs: n.X, op: token.ADD, pos: n.Pos()})
	case *ast.DeferStmt:
		m.against(n.Pos(), "defers calls in that order")
	case *ast.ExprStmt:
		if c, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
			m.statement(c)
		}
	case *ast.CallExpr:
		m.called(n)
	}
	return true
}

// asks reports whether the innermost call only asks, and neither records nor waits.
func (m *mapLoop) asks(stack []ast.Node) bool {
	for _, n := range slices.Backward(stack) {
		if c, ok := n.(*ast.CallExpr); ok {
			return is(callee(m.info, c), pawlPath, "Now", "Logger", "Instance", "Context.Logger")
		}
	}
	return false
}

func inLiteral(stack []ast.Node) bool {
	for _, n := range stack {
		if _, ok := n.(*ast.FuncLit); ok {
			return true
		}
	}
	return false
}

// leaves reports whether a break, goto or continue ends the loop.
func (m *mapLoop) leaves(b *ast.BranchStmt, stack []ast.Node) bool {
	if b.Label == nil {
		if b.Tok != token.BREAK {
			return false
		}
		for _, n := range stack {
			switch n.(type) {
			case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
				return false
			}
		}
		return true
	}
	own := len(m.stack) > 0 && labels(m.stack[len(m.stack)-1], b.Label.Name)
	if own {
		return b.Tok == token.BREAK
	}
	inside := false
	ast.Inspect(m.loop.Body, func(n ast.Node) bool {
		inside = inside || n != nil && labels(n, b.Label.Name)
		return !inside
	})
	return !inside
}

func labels(n ast.Node, name string) bool {
	l, ok := n.(*ast.LabeledStmt)
	return ok && l.Label.Name == name
}

// leave records an exit. What stands before it, in the same list, belongs to it.
func (m *mapLoop) leave(n ast.Stmt, stack []ast.Node, returns bool) {
	e := exit{pos: n.Pos(), returns: returns}
	for _, st := range listAround(stack) {
		e.text += m.print(st) + "\n"
	}
	if r, ok := n.(*ast.ReturnStmt); ok {
		for _, x := range r.Results {
			e.tells = e.tells || m.varies(x)
		}
	}
	m.exits = append(m.exits, e)
}

// listAround gives the list of statements in which the next node stands.
func listAround(stack []ast.Node) []ast.Stmt {
	switch n := stack[len(stack)-1].(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	}
	return nil
}

func (m *mapLoop) judgeExits() {
	for i, e := range m.exits {
		switch {
		case e.tells && e.panicked:
			m.against(e.pos, "panics with the element that it meets first")
		case e.tells:
			m.against(e.pos, "returns what the element that it meets first says")
		case i > 0 && e.text != m.exits[0].text:
			m.against(e.pos, "ends early in more than one way, and the order says in which")
		}
		for _, p := range m.piles {
			if !e.returns || m.outlivesFunction(p.v) {
				m.against(p.pos, "ends early, and has then changed "+p.v.Name()+" for some elements only")
			}
		}
	}
}

// outlivesFunction reports whether a return leaves something of v behind.
func (m *mapLoop) outlivesFunction(v *types.Var) bool {
	fn := m.unit.node
	for _, n := range m.stack {
		if lit, ok := n.(*ast.FuncLit); ok {
			fn = lit
		}
	}
	body, sig := parts(fn)
	if body.Pos() <= v.Pos() && v.Pos() < body.End() {
		return false
	}
	if sig.Params != nil && sig.Params.Pos() <= v.Pos() && v.Pos() < sig.Params.End() {
		return refers(v.Type())
	}
	return true
}

func parts(fn ast.Node) (*ast.BlockStmt, *ast.FuncType) {
	if d, ok := fn.(*ast.FuncDecl); ok {
		return d.Body, d.Type
	}
	lit := fn.(*ast.FuncLit)
	return lit.Body, lit.Type
}

// varies reports whether an expression may tell one order from another.
func (m *mapLoop) varies(e ast.Expr) bool {
	return m.mentions(e, "", func(v *types.Var) bool { return m.inside(v) || m.changed[v] })
}

// depends reports whether an expression depends on what other elements have done, the
// part named by except apart.
func (m *mapLoop) depends(e ast.Expr, except string) bool {
	return m.mentions(e, except, func(v *types.Var) bool { return m.changed[v] })
}

func (m *mapLoop) mentions(e ast.Expr, except string, is func(*types.Var) bool) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		x, ok := n.(ast.Expr)
		if !ok || found {
			return !found
		}
		text := types.ExprString(x)
		if text == except {
			return false
		}
		if sel, ok := x.(*ast.SelectorExpr); ok && m.untouched(sel, text) {
			return false
		}
		if id, ok := x.(*ast.Ident); ok {
			v, ok := m.info.ObjectOf(id).(*types.Var)
			found = found || ok && !v.IsField() && is(v)
		}
		return true
	})
	return found
}

// untouched reports whether e is a field of an outer variable of which the loop changes
// only others.
func (m *mapLoop) untouched(e *ast.SelectorExpr, text string) bool {
	v := root(m.info, e)
	if v == nil || !m.changed[v] || m.inside(v) {
		return false
	}
	for _, p := range m.parts {
		if p == text || begins(p, text) || begins(text, p) {
			return false
		}
	}
	return true
}

// begins reports whether a is a part of b: b.f or b[i] or b itself dereferenced.
func begins(a, b string) bool {
	rest, ok := strings.CutPrefix(a, b)
	return ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}
