package model

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/pawlrun/pawl/internal/author"
)

// Worlds are plain data: reflection copies and compares them.

// shared are immutable types, which copies share.
var shared = map[reflect.Type]bool{
	reflect.TypeFor[*author.Registry](): true, reflect.TypeFor[*time.Location](): true, reflect.TypeFor[*Setup](): true, reflect.TypeFor[[]byte](): true,
}

// unseen are fields that do not distinguish states: effects that were returned already, and counts.
var unseen = map[string]bool{"effects": true, "met": true, "log": true, "cfg": true, "setup": true}

type place struct {
	at unsafe.Pointer
	of reflect.Type
}

// copied returns a deep copy of *p.
func copied[T any](p *T) *T {
	out := new(T)
	c := copier{}
	c.copy(reflect.ValueOf(out).Elem(), reflect.ValueOf(p).Elem())
	return out
}

// copier records the copies by address, because a pointer may lead into a struct that was copied already.
type copier map[place]reflect.Value

func (c copier) copy(to, from reflect.Value) {
	if plain(from.Type()) || shared[from.Type()] {
		to.Set(from)
		return
	}
	switch from.Kind() {
	case reflect.Pointer:
		c.pointer(to, from)
	case reflect.Interface:
		if !from.IsNil() {
			to.Set(c.loose(from.Elem()))
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				c.copy(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for it := from.MapRange(); it.Next(); {
				to.SetMapIndex(it.Key(), c.loose(it.Value()))
			}
		}
	case reflect.Struct:
		to.Set(from)
		c[place{from.Addr().UnsafePointer(), from.Type()}] = to.Addr()
		for _, f := range deepFields(from.Type()) {
			c.copy(f.of(to), f.of(from))
		}
	default:
		to.Set(from)
	}
}

func (c copier) pointer(to, from reflect.Value) {
	if from.IsNil() {
		return
	}
	at := place{from.UnsafePointer(), from.Type().Elem()}
	if has, ok := c[at]; ok {
		to.Set(has)
		return
	}
	out := reflect.New(from.Type().Elem())
	c[at] = out
	to.Set(out)
	c.copy(out.Elem(), from.Elem())
}

// loose copies a value that is not addressable.
func (c copier) loose(v reflect.Value) reflect.Value {
	from, to := reflect.New(v.Type()).Elem(), reflect.New(v.Type()).Elem()
	from.Set(v)
	c.copy(to, from)
	return to
}

// deepField is a field that is not plain. It can be set although it is not exported.
type deepField struct {
	offset uintptr
	is     reflect.Type
}

func (f deepField) of(v reflect.Value) reflect.Value {
	return reflect.NewAt(f.is, unsafe.Add(v.Addr().UnsafePointer(), f.offset)).Elem()
}

var fields = map[reflect.Type][]deepField{}

func deepFields(t reflect.Type) []deepField {
	known, ok := fields[t]
	if !ok {
		for f := range t.Fields() {
			if !plain(f.Type) && !shared[f.Type] {
				known = append(known, deepField{f.Offset, f.Type})
			}
		}
		fields[t] = known
	}
	return known
}

var plains = map[reflect.Type]bool{}

// plain reports whether a type contains no pointers other than those of strings and functions.
func plain(t reflect.Type) bool {
	if known, ok := plains[t]; ok {
		return known
	}
	is := true
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		is = false
	case reflect.Array:
		is = plain(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			is = is && plain(f.Type)
		}
	default:
	}
	plains[t] = is
	return is
}

// hash is the hash of everything that distinguishes states.
type hash struct {
	a, b uint64
	path []place
}

func (h *hash) add(x uint64) {
	h.a = (h.a ^ x) * 0x9E3779B97F4A7C15
	h.a ^= h.a >> 29
	h.b = (h.b ^ x) * 0xC2B2AE3D27D4EB4F
	h.b ^= h.b >> 31
}

func (h *hash) text(s string) {
	h.add(uint64(len(s)))
	for i := 0; i < len(s); i += 8 {
		var x uint64
		for j := i; j < min(i+8, len(s)); j++ {
			x = x<<8 | uint64(s[j])
		}
		h.add(x)
	}
}

func (h *hash) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			h.add(1)
		}
		h.add(2)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		h.add(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		h.add(v.Uint())
	case reflect.String:
		h.text(v.String())
	case reflect.Pointer, reflect.Interface:
		h.pointed(v)
	case reflect.Slice:
		h.add(uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			h.text(string(v.Bytes()))
			return
		}
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.Map:
		h.entries(v)
	case reflect.Struct:
		if v.CanAddr() {
			h.path = append(h.path, place{unsafe.Pointer(v.UnsafeAddr()), v.Type()})
			defer func() { h.path = h.path[:len(h.path)-1] }()
		}
		for _, i := range seenFields(v.Type()) {
			h.value(v.Field(i))
		}
	default: // functions
	}
}

func (h *hash) pointed(v reflect.Value) {
	if v.IsNil() {
		h.add(3)
		return
	}
	if v.Kind() == reflect.Interface {
		v = v.Elem()
		h.text(v.Type().String())
		h.value(v)
		return
	}
	if shared[v.Type()] {
		return
	}
	at := place{v.UnsafePointer(), v.Type().Elem()}
	for i, p := range h.path {
		if p == at {
			h.add(uint64(i) + 4)
			return
		}
	}
	h.value(v.Elem())
}

// entries adds the entries of a map, independent of their order.
func (h *hash) entries(v reflect.Value) {
	var a, b uint64
	for it := v.MapRange(); it.Next(); {
		one := hash{a: 7, b: 11, path: h.path}
		one.value(it.Key())
		one.value(it.Value())
		a, b = a+one.a, b+one.b
	}
	h.add(a)
	h.add(b)
	h.add(uint64(v.Len()))
}

var seen = map[reflect.Type][]int{}

func seenFields(t reflect.Type) []int {
	known, ok := seen[t]
	if !ok {
		for i := range t.NumField() {
			if !unseen[t.Field(i).Name] {
				known = append(known, i)
			}
		}
		seen[t] = known
	}
	return known
}
