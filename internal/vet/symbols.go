package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// pawlPath is the package of the orchestration API.
const pawlPath = "github.com/pawlrun/pawl"

// isContext reports whether t is *pawl.Context.
func isContext(t types.Type) bool {
	if t == nil {
		return false
	}
	ptr, ok := types.Unalias(t).(*types.Pointer)
	return ok && isNamed(ptr.Elem(), pawlPath, "Context")
}

// isNamed reports whether t is the named type of that package, a pointer to it, or an instance of it.
func isNamed(t types.Type, path, name string) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return false
	}
	obj := named.Obj()
	return obj.Name() == name && obj.Pkg() != nil && obj.Pkg().Path() == path
}

// takesContext reports whether a function is orchestration code by its signature.
func takesContext(t types.Type) bool {
	sig, ok := types.Unalias(t).(*types.Signature)
	if !ok {
		return false
	}
	for v := range sig.Params().Variables() {
		if isContext(v.Type()) {
			return true
		}
	}
	return false
}

// callee returns the generic function of a call, or nil for a builtin, a conversion or a function value.
func callee(info *types.Info, c *ast.CallExpr) *types.Func {
	fn, ok := typeutil.Callee(info, c).(*types.Func)
	if !ok {
		return nil
	}
	return fn.Origin()
}

// builtin returns the name of the builtin of a call, or an empty string.
func builtin(info *types.Info, c *ast.CallExpr) string {
	b, ok := typeutil.Callee(info, c).(*types.Builtin)
	if !ok {
		return ""
	}
	return b.Name()
}

// symbol returns the path and the name of an object as used in the catalogue: the name of a method follows that of its type. Only
// functions, methods and package-level variables have one.
func symbol(obj types.Object) (path, name string) {
	if obj == nil || obj.Pkg() == nil {
		return "", ""
	}
	switch obj := obj.(type) {
	case *types.Func:
		if recv := obj.Signature().Recv(); recv != nil {
			return obj.Pkg().Path(), typeName(recv.Type()) + "." + obj.Name()
		}
		return obj.Pkg().Path(), obj.Name()
	case *types.Var:
		if packageLevel(obj) {
			return obj.Pkg().Path(), obj.Name()
		}
	}
	return "", ""
}

// is reports whether the function is one of the names, in the form that symbol returns, in the package.
func is(fn *types.Func, path string, names ...string) bool {
	if fn == nil {
		return false
	}
	p, name := symbol(fn)
	return p == path && slices.Contains(names, name)
}

func typeName(t types.Type) string {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return "interface"
}

func packageLevel(v *types.Var) bool { return v.Pkg() != nil && v.Parent() == v.Pkg().Scope() }

// label returns the name of a function in messages, always with its package.
func label(fn *types.Func) string {
	_, name := symbol(fn)
	return fn.Pkg().Name() + "." + name
}

// root returns the variable that an expression is a part of, such as s for s.f[i].g, or nil if there is none.
func root(info *types.Info, e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, _ := info.ObjectOf(x).(*types.Var)
			return v
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok {
				if _, imported := info.Uses[id].(*types.PkgName); imported {
					v, _ := info.Uses[x.Sel].(*types.Var)
					return v
				}
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.UnaryExpr:
			e = x.X
		case *ast.TypeAssertExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// standard reports whether a path belongs to the standard library, which reserves these first elements.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	switch first {
	case "archive", "bufio", "builtin", "bytes", "cmp", "compress", "container", "context", "crypto", "database",
		"debug", "embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index",
		"internal", "io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect",
		"regexp", "runtime", "slices", "sort", "strconv", "strings", "structs", "sync", "syscall", "testing",
		"text", "time", "unicode", "unique", "unsafe", "vendor", "weak":
		return true
	}
	return false
}
