package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// read judges a mention of an outer variable that the loop changes. What an element
// finds there is what the elements before it have left, so that only these may look:
// the change itself, which is judged as such; a return, likewise; the element's own
// place; and a condition that asks whether the very thing has to be set, if it is then
// set to what it would be set to anyway.
func (m *mapLoop) read(id *ast.Ident, v *types.Var, stack []ast.Node) {
	for i, around := range slices.Backward(stack) {
		switch n := around.(type) {
		case *ast.SelectorExpr:
			if m.untouched(n, types.ExprString(n)) {
				return
			}
		case *ast.IndexExpr:
			if m.isKey(n.Index) {
				return
			}
		case *ast.IncDecStmt, *ast.ReturnStmt:
			return
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				return
			}
			if i > 0 && m.needed(stack[i-1]) {
				return // the Init of a condition
			}
		case *ast.IfStmt:
			if m.needed(n) {
				return
			}
		case *ast.CallExpr:
			if name := builtin(m.info, n); name == "panic" || name == "delete" {
				return
			}
		}
		if _, ok := around.(ast.Stmt); ok {
			break
		}
	}
	m.against(id.Pos(), "asks what the elements before have left in "+v.Name())
}

// needed reports whether n is a condition with nothing behind it but that what it asks
// about is set, to the same by every element, or to the least or greatest of them.
func (m *mapLoop) needed(n ast.Node) bool {
	cond, ok := n.(*ast.IfStmt)
	if !ok || cond.Else != nil || len(cond.Body.List) != 1 {
		return false
	}
	a, ok := cond.Body.List[0].(*ast.AssignStmt)
	if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
		return false
	}
	c := change{lhs: a.Lhs[0], rhs: a.Rhs[0], guard: cond.Cond}
	text := types.ExprString(c.lhs)
	if m.varies(c.rhs) && m.picks(c, text) == "" {
		return false
	}
	if init, ok := cond.Init.(*ast.AssignStmt); ok {
		for _, e := range init.Rhs {
			if m.depends(e, text) {
				return false
			}
		}
	}
	return !m.depends(cond.Cond, text)
}
