package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// loop reports a loop over a map or a channel. A loop over a map is accepted only if it collects the keys, or does not use key and value:
//
//	for k := range m {
//		keys = append(keys, k) // and the next use of keys sorts it
//	}
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
	c, ok := ast.Unparen(n.X).(*ast.CallExpr)
	overMap := isMap(t) || ok && iterates(callee(s.info, c))
	if !overMap || unnamed(n.Key) && unnamed(n.Value) || s.collects(n) {
		return
	}
	s.add(n.Pos(), hazard{
		kind: kindMap, what: "a loop over a map", reason: "has another order at every replay",
		instead: "range over slices.Sorted(maps.Keys(m))",
	})
}

func unnamed(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return e == nil || ok && id.Name == "_"
}

// collects reports whether a loop only appends the key to a slice whose next use sorts it.
func (s *scanner) collects(n *ast.RangeStmt) bool {
	key, ok := n.Key.(*ast.Ident)
	if !ok || !unnamed(n.Value) || n.Tok != token.DEFINE || len(n.Body.List) != 1 {
		return false
	}
	a, ok := n.Body.List[0].(*ast.AssignStmt)
	if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != 1 {
		return false
	}
	c, ok := a.Rhs[0].(*ast.CallExpr)
	if !ok || builtin(s.info, c) != "append" || len(c.Args) != 2 {
		return false
	}
	to, ok := a.Lhs[0].(*ast.Ident)
	if !ok {
		return false
	}
	keys, ok := s.info.Uses[to].(*types.Var)
	if !ok || !s.uses(c.Args[0], keys) || !s.uses(c.Args[1], s.info.Defs[key]) {
		return false
	}
	sorted, found := s.nextUse(keys, n.End())
	return found && sorted
}

func (s *scanner) uses(e ast.Expr, obj types.Object) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && s.info.Uses[id] == obj
}

// iterates reports whether fn returns the elements of a map in the map's order.
func iterates(fn *types.Func) bool { return is(fn, "maps", "Keys", "Values", "All") }

// orderFree reports whether the result does not depend on the order of the iterator c. A loop over it is reported as a loop.
func (s *scanner) orderFree(c *ast.CallExpr, stack []ast.Node) bool {
	switch parent := around(c, stack).(type) {
	case *ast.RangeStmt:
		return true
	case *ast.CallExpr:
		fn := callee(s.info, parent)
		switch {
		case is(fn, "slices", "Sorted", "SortedFunc", "SortedStableFunc"), is(fn, "maps", "Collect", "Insert"):
			return true
		case is(fn, "slices", "Collect", "AppendSeq"):
			return s.sortedAfter(parent, stack)
		}
	}
	return false
}

// around returns the node that directly contains c, except parentheses.
func around(c *ast.CallExpr, stack []ast.Node) ast.Node {
	end := len(stack)
	for i, n := range stack {
		if n == c {
			end = i
		}
	}
	for i := end - 1; i >= 0; i-- {
		if _, paren := stack[i].(*ast.ParenExpr); !paren {
			return stack[i]
		}
	}
	return nil
}

// sortedAfter reports whether the next use of the slice that c returns sorts it. stack contains the enclosing nodes of c or of a part of
// it.
func (s *scanner) sortedAfter(c *ast.CallExpr, stack []ast.Node) bool {
	if c == nil {
		return false
	}
	var to []ast.Expr
	switch parent := around(c, stack).(type) {
	case *ast.CallExpr:
		return sorts(callee(s.info, parent))
	case *ast.AssignStmt:
		to = receivers(parent.Lhs, parent.Rhs, c)
	case *ast.ValueSpec:
		names := make([]ast.Expr, len(parent.Names))
		for i, n := range parent.Names {
			names[i] = n
		}
		to = receivers(names, parent.Values, c)
	}
	for _, e := range to {
		if id, ok := ast.Unparen(e).(*ast.Ident); ok {
			v, ok := s.info.ObjectOf(id).(*types.Var)
			if ok && isSlice(v.Type()) {
				sorted, found := s.nextUse(v, c.End())
				return found && sorted
			}
		}
	}
	return false
}

// receivers returns the expressions that the results of c are assigned to.
func receivers(lhs, rhs []ast.Expr, c *ast.CallExpr) []ast.Expr {
	if len(rhs) == 1 {
		return lhs
	}
	for i, e := range rhs {
		if ast.Unparen(e) == c && i < len(lhs) {
			return lhs[i : i+1]
		}
	}
	return nil
}

// nextUse finds the next use of v after a position, not counting its length. found reports whether there is one, and sorted whether it
// sorts v.
func (s *scanner) nextUse(v *types.Var, after token.Pos) (sorted, found bool) {
	ast.PreorderStack(s.unit.node, nil, func(n ast.Node, stack []ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if found || !ok || id.Pos() < after || s.info.Uses[id] != v || s.inLen(stack) {
			return !found
		}
		sorted, found = s.inSort(stack), true
		return false
	})
	return sorted, found
}

// inLen reports whether the innermost node is a len or cap.
func (s *scanner) inLen(stack []ast.Node) bool {
	c, ok := stack[len(stack)-1].(*ast.CallExpr)
	if !ok {
		return false
	}
	name := builtin(s.info, c)
	return name == "len" || name == "cap"
}

// inSort reports whether a sorting call contains the node, within the same statement.
func (s *scanner) inSort(stack []ast.Node) bool {
	for _, around := range slices.Backward(stack) {
		switch n := around.(type) {
		case *ast.CallExpr:
			if sorts(callee(s.info, n)) {
				return true
			}
		case ast.Stmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// sorts reports whether fn sorts its argument or its receiver: a function of package sort, or one whose name begins with "sort".
func sorts(fn *types.Func) bool {
	if fn == nil {
		return false
	}
	return is(fn, "sort", "Strings", "Ints", "Float64s", "Slice", "SliceStable", "Sort", "Stable") ||
		strings.HasPrefix(strings.ToLower(fn.Name()), "sort")
}

func isSlice(t types.Type) bool {
	_, ok := t.Underlying().(*types.Slice)
	return ok
}

// isMap reports whether t is a map, also as a type parameter.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		iface, ok := param.Constraint().Underlying().(*types.Interface)
		return ok && iface.NumEmbeddeds() == 1 && termIsMap(iface.EmbeddedType(0))
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

func termIsMap(t types.Type) bool {
	if union, ok := t.(*types.Union); ok && union.Len() > 0 {
		t = union.Term(0).Type()
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}
