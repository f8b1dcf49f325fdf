package vet

import (
	"bytes"
	"go/ast"
	"go/printer"
	"go/token"
	"go/types"
	"slices"
)

// change is what a loop over a map does to something outside of it.
type change struct {
	lhs ast.Expr
	op  token.Token // ASSIGN, or the operator of an op-assignment
	rhs ast.Expr    // nil for ++, --, and one of several results of a call
	pos token.Pos
	// tied says that the loop ends with it: it belongs to the exit.
	tied bool
	// guard is the condition around it, if the change is all that the condition guards.
	guard ast.Expr
}

// ops gives the operator of an op-assignment.
func ops(t token.Token) token.Token {
	if t >= token.ADD_ASSIGN && t <= token.AND_NOT_ASSIGN {
		return t - token.ADD_ASSIGN + token.ADD
	}
	return t
}

// assigned takes an assignment apart.
func (m *mapLoop) assigned(a *ast.AssignStmt, stack []ast.Node) {
	if a.Tok == token.DEFINE {
		return
	}
	list := listAround(stack)
	tied := len(list) > 0 && m.ends(list[len(list)-1], stack)
	var guard ast.Expr
	if len(stack) > 1 && len(list) == 1 && len(a.Lhs) == 1 {
		if cond, ok := stack[len(stack)-2].(*ast.IfStmt); ok && cond.Else == nil {
			guard = cond.Cond
		}
	}
	for i, lhs := range a.Lhs {
		c := change{lhs: lhs, op: ops(a.Tok), pos: a.Pos(), tied: tied, guard: guard}
		if len(a.Lhs) == len(a.Rhs) {
			c.rhs = a.Rhs[i]
		}
		m.change(c.explicit())
	}
}

// ends reports whether a statement, standing where stack says, ends the loop.
func (m *mapLoop) ends(s ast.Stmt, stack []ast.Node) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return m.leaves(s, stack)
	}
	return false
}

// explicit turns x = x + e into x += e, and so on.
func (c change) explicit() change {
	b, ok := unparen(c.rhs).(*ast.BinaryExpr)
	if c.op != token.ASSIGN || !ok {
		return c
	}
	text := types.ExprString(c.lhs)
	switch {
	case types.ExprString(b.X) == text:
		c.op, c.rhs = b.Op, b.Y
	case types.ExprString(b.Y) == text && commutes(b.Op):
		c.op, c.rhs = b.Op, b.X
	}
	return c
}

func commutes(op token.Token) bool {
	return slices.Contains([]token.Token{token.ADD, token.MUL, token.AND, token.OR, token.XOR, token.LAND, token.LOR}, op)
}

// change judges one change.
func (m *mapLoop) change(c change) {
	v := root(m.info, c.lhs)
	if v == nil || v.Name() == "_" || m.inside(v) {
		return
	}
	text := types.ExprString(c.lhs)
	switch {
	case m.grows(c.lhs):
		m.against(c.pos, "adds to the map that it goes through")
		return
	case m.placed(c.lhs):
		m.against(c.pos, "puts elements into "+v.Name()+" in that order")
		return
	case c.rhs != nil && m.depends(c.rhs, text):
		m.against(c.pos, "makes "+text+" of what the elements before have left")
		return
	}
	if !c.tied {
		m.piles = append(m.piles, pile{c.pos, v})
	}
	if m.own(c.lhs) {
		return // each element has its own
	}
	m.settle(c, v, text)
}

// settle judges a change of something that several elements may change.
func (m *mapLoop) settle(c change, v *types.Var, text string) {
	switch {
	case c.op != token.ASSIGN:
		m.combine(c, text)
	case c.rhs != nil && m.appends(c.rhs, text):
		m.appended(c, v, text)
	case c.rhs != nil && m.picks(c, text) != "":
		m.way(c, m.picks(c, text))
	case c.rhs != nil && !m.varies(c.rhs):
		m.alike(c)
	default:
		m.against(c.pos, "keeps one of several elements in "+text)
	}
}

// combine is for operators: they must commute.
func (m *mapLoop) combine(c change, text string) {
	var info types.BasicInfo
	if b, ok := m.info.TypeOf(c.lhs).Underlying().(*types.Basic); ok {
		info = b.Info()
	}
	same := c.rhs == nil || !m.varies(c.rhs)
	switch c.op {
	case token.LAND, token.LOR:
		m.way(c, c.op.String())
	case token.ADD, token.SUB, token.MUL:
		switch {
		case info&types.IsString != 0 && !same:
			m.against(c.pos, "joins strings in that order")
		case info&(types.IsFloat|types.IsComplex) != 0 && !same:
			m.against(c.pos, "adds up floating-point numbers, of which the rounding depends on the order")
		case c.op == token.MUL:
			m.way(c, "*")
		default:
			m.way(c, "+")
		}
	case token.AND, token.AND_NOT:
		m.way(c, "&")
	case token.OR, token.XOR:
		m.way(c, c.op.String())
	default:
		m.against(c.pos, "changes "+text+" by an operator whose order matters")
	}
}

// way records how something is changed; two ways do not commute.
func (m *mapLoop) way(c change, how string) {
	base := types.ExprString(container(c.lhs))
	if old, ok := m.ways[base]; ok && old != how {
		m.against(c.pos, "changes "+base+" in two ways, of which the later one counts")
	}
	m.ways[base] = how
}

// alike is for what every element sets to the same.
func (m *mapLoop) alike(c change) {
	if c.tied {
		return // one exit only; see judgeExits
	}
	base, value := types.ExprString(container(c.lhs)), types.ExprString(c.rhs)
	if old, ok := m.consts[base]; ok && old != value {
		m.against(c.pos, "sets "+base+" to one thing or another, of which the last counts")
	}
	m.consts[base] = value
	m.way(c, "=")
}

// container gives m of m[i], and anything else as it is.
func container(e ast.Expr) ast.Expr {
	if x, ok := ast.Unparen(e).(*ast.IndexExpr); ok {
		return x.X
	}
	return e
}

// grows reports whether lhs is an element of the loop's map, other than the one at hand.
func (m *mapLoop) grows(lhs ast.Expr) bool {
	x, ok := ast.Unparen(lhs).(*ast.IndexExpr)
	return ok && types.ExprString(x.X) == m.over && !m.isKey(x.Index)
}

// placed reports whether lhs is a place that depends on the elements before.
func (m *mapLoop) placed(lhs ast.Expr) bool {
	found := false
	ast.Inspect(lhs, func(n ast.Node) bool {
		if x, ok := n.(*ast.IndexExpr); ok && m.depends(x.Index, "") {
			found = true
		}
		return !found
	})
	return found
}

// own reports whether lhs is a place of the element alone: one that is found by the key.
func (m *mapLoop) own(lhs ast.Expr) bool {
	found := false
	ast.Inspect(lhs, func(n ast.Node) bool {
		if x, ok := n.(*ast.IndexExpr); ok && m.isKey(x.Index) {
			found = true
		}
		return !found
	})
	return found
}

// isKey reports whether e is the loop's key, perhaps converted to another type of its kind.
func (m *mapLoop) isKey(e ast.Expr) bool {
	e = ast.Unparen(e)
	if c, ok := e.(*ast.CallExpr); ok && len(c.Args) == 1 && m.info.Types[c.Fun].IsType() {
		from, to := m.info.TypeOf(c.Args[0]), m.info.TypeOf(c)
		if !types.Identical(from.Underlying(), to.Underlying()) {
			return false
		}
		e = ast.Unparen(c.Args[0])
	}
	id, ok := e.(*ast.Ident)
	return ok && m.key != nil && m.info.ObjectOf(id) == m.key
}

// appends reports whether e is append(text, …).
func (m *mapLoop) appends(e ast.Expr, text string) bool {
	c, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && builtin(m.info, c) == "append" && types.ExprString(c.Args[0]) == text
}

func (m *mapLoop) appended(c change, v *types.Var, text string) {
	m.way(c, "append")
	varies := false
	for _, a := range ast.Unparen(c.rhs).(*ast.CallExpr).Args[1:] {
		varies = varies || m.varies(a)
	}
	if !varies {
		return
	}
	sorted, found := m.next(v, m.loop.End())
	if sorted || !found && !m.outlivesFunction(v) {
		return
	}
	m.against(c.pos, "appends to "+text+", which is not sorted next")
}

// picks gives the name of a choice that comes out the same in every order: the least or
// the greatest, by the builtin or by a comparison of the very same two.
func (m *mapLoop) picks(c change, text string) string {
	if call, ok := ast.Unparen(c.rhs).(*ast.CallExpr); ok {
		name := builtin(m.info, call)
		if name != "min" && name != "max" {
			return ""
		}
		for _, a := range call.Args {
			if types.ExprString(a) == text {
				return name
			}
		}
	}
	cond, ok := c.guard.(*ast.BinaryExpr)
	if !ok {
		return ""
	}
	x, y, value := types.ExprString(cond.X), types.ExprString(cond.Y), types.ExprString(c.rhs)
	less := cond.Op == token.LSS || cond.Op == token.LEQ
	if !less && cond.Op != token.GTR && cond.Op != token.GEQ {
		return ""
	}
	switch {
	case x == value && y == text && less, y == value && x == text && !less:
		return "min"
	case x == value && y == text, y == value && x == text:
		return "max"
	}
	return ""
}

func (m *mapLoop) print(n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, m.pass.Fset, n) // into memory; what can not be printed is told apart by its place
	return b.String()
}

// unparen is ast.Unparen for an expression that may be missing.
func unparen(e ast.Expr) ast.Expr {
	if e == nil {
		return nil
	}
	return ast.Unparen(e)
}
