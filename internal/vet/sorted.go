package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// iterates reports whether fn gives the elements of a map in the map's order.
func iterates(fn *types.Func) bool { return is(fn, "maps", "Keys", "Values", "All") }

// harmless reports whether what becomes of the iterator c does not depend on its
// order, or is judged where it is ranged over.
func (s *scanner) harmless(c *ast.CallExpr, stack []ast.Node) bool {
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

// around gives what stands directly around c, parentheses apart.
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

// sortedAfter reports whether the slice that c returns is put in order before it is
// used in any other way. Stack is what stands around c, or around something in it.
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
				next, found := s.next(v, c.End())
				return found && next
			}
		}
	}
	return false
}

// receivers gives the left sides that get what c returns.
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

// next looks at the next mention of v after a place, other than to ask for its length:
// found tells whether there is one, and sorted whether that one puts it in order.
func (s *scanner) next(v *types.Var, after token.Pos) (sorted, found bool) {
	ast.PreorderStack(s.unit.node, nil, func(n ast.Node, stack []ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if found || !ok || id.Pos() < after || s.info.Uses[id] != v || s.measured(stack) {
			return !found
		}
		sorted, found = s.inSort(stack), true
		return false
	})
	return sorted, found
}

// measured reports whether the innermost node is a len or cap.
func (s *scanner) measured(stack []ast.Node) bool {
	c, ok := stack[len(stack)-1].(*ast.CallExpr)
	if !ok {
		return false
	}
	name := builtin(s.info, c)
	return name == "len" || name == "cap"
}

// inSort reports whether a call that sorts stands around, within the same statement.
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

// sorts reports whether fn puts its argument, or its receiver, in order: by its
// package, or because it says so by its name.
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
