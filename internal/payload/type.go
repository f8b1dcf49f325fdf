package payload

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// MaxDepth is how deeply the arrays and objects of a payload may nest.
const MaxDepth = 1000

// Error reports a type or a value that cannot be a payload.
type Error struct {
	Type   reflect.Type // type of the payload
	Path   string       // path in the payload, such as ".Lines[].Price"; empty for the payload itself
	Reason string       // what is wrong and how to fix it
	cause  error        // error of a method of the author's type, or nil
}

// Error returns the type, the path and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s%s: %s", e.Type, e.Path, e.Reason) }

// Unwrap returns the error of a method of the author's type, or nil.
func (e *Error) Unwrap() error { return e.cause }

// contents is the set of things in a type that must be checked in its values.
type contents uint8

const (
	holdsAny     contents = 1 << iota // an any, whose contents are decoded as generic JSON
	holdsTime                         // a time.Time, which has a zone
	holdsPointer                      // a pointer to something that may be nil itself
	holdsNumber                       // a json.Number, which is encoded as 0 if it is empty
)

var (
	listType       = reflect.TypeFor[[]any]()
	objectType     = reflect.TypeFor[map[string]any]()
	timeType       = reflect.TypeFor[time.Time]()
	rawType        = reflect.TypeFor[json.RawMessage]()
	numberType     = reflect.TypeFor[json.Number]()
	jsonMarshals   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshals = reflect.TypeFor[json.Unmarshaler]()
	textMarshals   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshals = reflect.TypeFor[encoding.TextUnmarshaler]()
	binMarshals    = reflect.TypeFor[encoding.BinaryMarshaler]()
	binUnmarshals  = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

// Type is a type that has been checked. It is immutable and safe for concurrent use.
type Type struct {
	typ   reflect.Type
	nodes map[reflect.Type]*node
	holds contents
	deep  bool // whether its values may nest deeper than the type
}

// node is one type that the payload type is made of.
type node struct {
	holds  contents
	opaque bool           // whether the type is encoded by its own methods
	parts  []reflect.Type // elements and encoded fields
	fields []fieldAt      // encoded fields of a struct, including embedded ones
}

// fieldAt is a field of a struct that must be checked in values.
type fieldAt struct {
	index   int
	omitted bool // whether it is omitted when zero
}

// TypeOf checks a type. The error is an *Error.
func TypeOf(t reflect.Type) (*Type, error) { return typeOf(t, true) }

func typeOf(t reflect.Type, addressable bool) (*Type, error) {
	b := builder{root: t, nodes: make(map[reflect.Type]*node), seen: make(map[visit]bool)}
	b.check(t, addressable, "")
	if b.err != nil {
		return nil, b.err
	}
	b.spread()
	return &Type{typ: t, nodes: b.nodes, holds: b.nodes[t].holds, deep: b.deep}, nil
}

// visit is a type in one of the two situations in which encoding/json encodes it differently.
type visit struct {
	typ         reflect.Type
	addressable bool // whether methods with pointer receivers are called
}

type builder struct {
	root  reflect.Type
	nodes map[reflect.Type]*node
	seen  map[visit]bool
	open  []reflect.Type // the types that are being checked, outermost first
	deep  bool
	err   *Error // the first error
}

func (b *builder) refusef(path, format string, args ...any) {
	if b.err == nil {
		b.err = &Error{Type: b.root, Path: path, Reason: fmt.Sprintf(format, args...)}
	}
}

// check checks a type at a path.
func (b *builder) check(t reflect.Type, addressable bool, path string) {
	if b.err != nil {
		return
	}
	for _, o := range b.open {
		b.deep = b.deep || o == t
	}
	v := visit{t, addressable}
	if b.seen[v] {
		return
	}
	b.seen[v] = true
	n := b.nodes[t]
	if n == nil {
		n = &node{}
		b.nodes[t] = n
	}
	b.open = append(b.open, t)
	if !b.methods(t, n, addressable, path) {
		b.kind(t, n, addressable, path)
	}
	b.open = b.open[:len(b.open)-1]
}

// part checks a type that is part of the type of n.
func (b *builder) part(n *node, t reflect.Type, addressable bool, path string) {
	n.parts = append(n.parts, t)
	b.check(t, addressable, path)
}

func (b *builder) kind(t reflect.Type, n *node, addressable bool, path string) {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if t == numberType {
			n.holds |= holdsNumber
		}
	case reflect.Interface:
		if t.NumMethod() > 0 {
			b.refusef(path, "an interface with methods (%s) cannot be decoded; use a concrete type", t)
		}
		n.holds |= holdsAny
		b.deep = true
		b.part(n, listType, false, path)
		b.part(n, objectType, false, path)
	case reflect.Pointer:
		b.pointer(t, n, path)
	case reflect.Slice:
		b.part(n, t.Elem(), true, path+"[]")
	case reflect.Array:
		b.part(n, t.Elem(), addressable, path+"[]")
	case reflect.Map:
		b.key(t.Key(), path)
		b.part(n, t.Elem(), false, path+"[]")
	case reflect.Struct:
		b.structure(t, n, addressable, path)
	case reflect.Invalid, reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		b.refusef(path, "JSON has no %s; leave the field out with the tag `json:\"-\"`, or use another type", t.Kind())
	}
}

func (b *builder) pointer(t reflect.Type, n *node, path string) {
	for e, passed := t, []reflect.Type{}; e.Kind() == reflect.Pointer; e = e.Elem() {
		if passed = append(passed, e); slices.Contains(passed, e.Elem()) {
			b.refusef(path, "a pointer to itself (%s) has no value that could be encoded", t)
			return
		}
	}
	if nilable(t.Elem()) {
		n.holds |= holdsPointer
	}
	b.part(n, t.Elem(), true, path)
}

// nilable reports whether a nil of the type is encoded as null.
func nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return true
	case reflect.Slice, reflect.Map:
		return t == rawType || !implements(t, jsonMarshals) && !implements(t, textMarshals)
	default:
		return false
	}
}

// implements reports whether a type, or a pointer to it, has the method.
func implements(t, method reflect.Type) bool {
	return t.Kind() != reflect.Interface && (t.Implements(method) || reflect.PointerTo(t).Implements(method))
}

// methods checks the methods by which a type encodes itself, and reports whether it has any.
func (b *builder) methods(t reflect.Type, n *node, addressable bool, path string) bool {
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
		return false
	}
	mj, uj := implements(t, jsonMarshals), implements(t, jsonUnmarshals)
	mt, ut := implements(t, textMarshals), implements(t, textUnmarshals)
	mb, ub := implements(t, binMarshals), implements(t, binUnmarshals)
	has, lacks := "", ""
	switch {
	case mj && uj, !mj && !uj && mt && ut:
	case mj:
		has, lacks = "MarshalJSON", "UnmarshalJSON"
	case uj:
		has, lacks = "UnmarshalJSON", "MarshalJSON"
	case mt:
		has, lacks = "MarshalText", "UnmarshalText"
	case ut:
		has, lacks = "UnmarshalText", "MarshalText"
	case mb, ub:
		b.refusef(path, "%s has MarshalBinary, which JSON does not call; give it MarshalJSON and UnmarshalJSON or MarshalText and UnmarshalText", t)
		return true
	default:
		return false
	}
	if lacks != "" {
		b.refusef(path, "%s has %s and no %s, so that it does not come back as it was; add %s", t, has, lacks, lacks)
		return true
	}
	marshal, unmarshal, encodes := "MarshalJSON", "UnmarshalJSON", jsonMarshals
	if !mj {
		marshal, unmarshal, encodes = "MarshalText", "UnmarshalText", textMarshals
	}
	if !addressable && !t.Implements(encodes) {
		b.refusef(path, "%s of %s has a pointer receiver and is not called for the values of a map; give it a value receiver or use pointers in the map", marshal, t)
		return true
	}
	n.opaque = true
	switch t {
	case timeType:
		n.holds |= holdsTime
	default:
		b.deep = b.deep || mj
		b.promoted(t, n, marshal, unmarshal, path)
	}
	return true
}

// key checks the type of the keys of a map.
func (b *builder) key(t reflect.Type, path string) {
	text := t.Implements(textMarshals)
	switch {
	case t == timeType:
		b.refusef(path, "keys of a map that are time.Time do not come back equal to themselves; use the Unix time or a text")
	case t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer:
		b.refusef(path, "keys of a map that are a %s (%s) cannot be decoded; use text or integers", t.Kind(), t)
	case t.Kind() == reflect.String && (text || implements(t, textUnmarshals)):
		b.refusef(path, "keys of a map with their own UnmarshalText (%s) are encoded without their MarshalText; use string", t)
	case t.Kind() == reflect.String:
	case implements(t, textMarshals) || implements(t, textUnmarshals):
		if !text || !implements(t, textUnmarshals) {
			b.refusef(path, "keys of a map of type %s need MarshalText with a value receiver and UnmarshalText", t)
			return
		}
		if implements(t, jsonUnmarshals) {
			b.refusef(path, "keys of a map of type %s are encoded by MarshalText and decoded by UnmarshalJSON; use text as keys", t)
			return
		}
		b.promoted(t, &node{}, "MarshalText", "UnmarshalText", path)
	case isInteger(t.Kind()):
	default:
		b.refusef(path, "keys of a map that are %s cannot be encoded: JSON has text keys; use string, an integer, a type with MarshalText and UnmarshalText, or a slice of pairs", t)
	}
}

func isInteger(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }

// spread adds the contents of its parts to every type.
func (b *builder) spread() {
	for changed := true; changed; {
		changed = false
		for _, n := range b.nodes {
			for _, p := range n.parts {
				if more := n.holds | b.nodes[p].holds; more != n.holds {
					n.holds, changed = more, true
				}
			}
		}
	}
}
