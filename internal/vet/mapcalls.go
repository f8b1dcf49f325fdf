package vet

import (
	"go/ast"
	"go/types"
	"strings"
)

// statement judges a call that is made for its effect.
func (m *mapLoop) statement(c *ast.CallExpr) {
	switch builtin(m.info, c) {
	case "delete":
		if types.ExprString(c.Args[0]) == m.over && !m.isKey(c.Args[1]) {
			m.against(c.Pos(), "takes elements out of the map that it goes through")
		} else if v := root(m.info, c.Args[0]); v != nil && !m.inside(v) {
			m.piles = append(m.piles, pile{c.Pos(), v})
		}
		return
	case "panic":
		text := m.print(c)
		m.exits = append(m.exits, exit{pos: c.Pos(), text: text, returns: true, tells: m.varies(c.Args[0]), panicked: true})
		return
	case "clear", "print", "println", "close":
		return
	}
	fn := callee(m.info, c)
	if fn != nil && fn.Signature().Recv() != nil && isNamed(fn.Signature().Recv().Type(), "log/slog", "Logger") {
		return
	}
	if v := m.touched(c, fn); v != nil {
		m.against(c.Pos(), "calls "+types.ExprString(c.Fun)+" for what it does to "+v.Name()+", in that order")
	}
}

// touched gives an outer variable that a call may change something of.
func (m *mapLoop) touched(c *ast.CallExpr, fn *types.Func) *types.Var {
	outer := func(e ast.Expr) *types.Var {
		v := root(m.info, e)
		if v == nil || v.IsField() || m.inside(v) {
			return nil
		}
		return v
	}
	if fn == nil {
		if v := outer(c.Fun); v != nil {
			return v // a function value: there is no telling
		}
	} else if recv := fn.Signature().Recv(); recv != nil {
		sel, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr)
		if v := outer(sel); ok && v != nil && refers(recv.Type()) {
			return v
		}
	}
	for _, a := range c.Args {
		if v := outer(a); v != nil && refers(m.info.TypeOf(a)) {
			return v
		}
	}
	return nil
}

// called judges a call wherever it stands: writers write, also where somebody looks at
// the error, and an iterator gives its elements away.
func (m *mapLoop) called(c *ast.CallExpr) {
	fn := callee(m.info, c)
	if is(fn, pawlPath, "Future.Cancel") { // the one word that takes no context
		m.against(c.Pos(), "cancels futures in that order")
	}
	if fn == nil {
		if v := root(m.info, c.Fun); v != nil && m.yields(v) {
			m.against(c.Pos(), "yields its elements in that order")
		}
		return
	}
	writes := fn.Signature().Recv() != nil && strings.HasPrefix(fn.Name(), "Write") || is(fn, "fmt", "Fprint", "Fprintf", "Fprintln")
	if v := m.touched(c, fn); writes && v != nil {
		m.against(c.Pos(), "writes to "+v.Name()+" in that order")
	}
}

// yields reports whether v is the yield of the iterator in which the loop stands.
func (m *mapLoop) yields(v *types.Var) bool {
	for _, n := range append([]ast.Node{m.unit.node}, m.stack...) {
		var t types.Type
		switch n := n.(type) {
		case *ast.FuncLit:
			t = m.info.TypeOf(n)
		case *ast.FuncDecl:
			t = m.info.TypeOf(n.Name)
		default:
			continue
		}
		sig, ok := t.(*types.Signature)
		if !ok || sig.Params().Len() != 1 || sig.Results().Len() != 0 || sig.Params().At(0) != v {
			continue
		}
		yield, ok := v.Type().Underlying().(*types.Signature)
		return ok && yield.Results().Len() == 1
	}
	return false
}

// refers reports whether something else may be changed through a value of the type.
func refers(t types.Type) bool {
	if types.Identical(t, types.Universe.Lookup("error").Type()) {
		return false
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Map, *types.Slice, *types.Chan, *types.Signature, *types.Interface:
		return true
	}
	return false
}
