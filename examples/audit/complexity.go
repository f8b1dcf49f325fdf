package audit

import (
	"go/ast"
	"go/token"
	"strings"
)

// complexity returns the cyclomatic complexity (McCabe) of a function: one, plus one for each branch. A function literal counts as part
// of the function that contains it.
func complexity(fn *ast.FuncDecl) int {
	n := 1
	ast.Inspect(fn, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// exported counts the exported names that a package-level declaration declares. A method counts if the type of its receiver is exported,
// too.
func exported(d ast.Decl) int {
	switch d := d.(type) {
	case *ast.FuncDecl:
		recv := receiver(d)
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(recv)) {
			return 1
		}
	case *ast.GenDecl:
		n := 0
		for _, spec := range d.Specs {
			n += exportedSpec(spec)
		}
		return n
	}
	return 0
}

func exportedSpec(spec ast.Spec) int {
	n := 0
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			n++
		}
	case *ast.ValueSpec:
		for _, id := range s.Names {
			if id.IsExported() {
				n++
			}
		}
	}
	return n
}

// name returns the name of a function as shown in the report.
func name(fn *ast.FuncDecl) string {
	s := fn.Name.Name
	if recv := receiver(fn); recv != "" {
		s = recv + "." + s
	}
	if len(s) > maxHotspotName {
		s = strings.ToValidUTF8(s[:maxHotspotName], "")
	}
	return s
}

// receiver returns the type name of a method's receiver, without pointer and type parameters. It is empty for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	expr := fn.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.ParenExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default: // source that does not parse may contain anything here
			return "?"
		}
	}
}
