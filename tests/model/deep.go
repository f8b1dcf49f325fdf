package model

import (
	"encoding/binary"
	"reflect"
	"time"
	"unsafe"

	"github.com/pawlrun/pawl/internal/author"
)

// Worlds are plain data. A layout copies and compares the values of a type; layouts are compiled from the types by reflection, once, because
// a search copies and hashes hundreds of thousands of worlds.

// shared are immutable types, which copies share.
var shared = map[reflect.Type]bool{
	reflect.TypeFor[*author.Registry](): true, reflect.TypeFor[*time.Location](): true, reflect.TypeFor[*Setup](): true, reflect.TypeFor[[]byte](): true,
}

// unseen are fields that do not distinguish states: effects that were returned already, and counts.
var unseen = map[string]bool{"effects": true, "met": true, "log": true, "cfg": true, "setup": true}

// layout copies and hashes the values of a type.
type layout struct {
	of      reflect.Type
	deep    bool                                    // a copy of the memory shares what may change
	pointed bool                                    // there are pointers to values of this struct type
	own     func(c copier, to, from unsafe.Pointer) // gives *to, a copy of the memory of *from, copies of its references; to may be from
	hash    func(h *hash, at unsafe.Pointer)
}

var references = map[reflect.Kind]bool{reflect.Pointer: true, reflect.Interface: true, reflect.Slice: true, reflect.Map: true}

var layouts = map[reflect.Type]*layout{}

// layoutOf returns the layout of a type. Layouts of recursive types refer to themselves.
func layoutOf(t reflect.Type) *layout {
	if p := layouts[t]; p != nil {
		return p
	}
	p := &layout{of: t, deep: references[t.Kind()] && !shared[t], hash: func(*hash, unsafe.Pointer) {}}
	layouts[t] = p
	switch t.Kind() {
	case reflect.Bool:
		p.hash = func(h *hash, at unsafe.Pointer) {
			if *(*bool)(at) {
				h.add(1)
			}
			h.add(2)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.number()
	case reflect.String:
		p.hash = func(h *hash, at unsafe.Pointer) { h.text(*(*string)(at)) }
	case reflect.Pointer:
		p.pointer()
	case reflect.Interface:
		p.dynamic()
	case reflect.Slice:
		p.slice()
	case reflect.Array:
		p.array()
	case reflect.Map:
		p.entries()
	case reflect.Struct:
		p.fields()
	default: // functions
	}
	return p
}

type place struct {
	at unsafe.Pointer
	of reflect.Type
}

// copier records the copies by address, because several pointers may lead to a value, and into a struct that was copied already.
type copier map[place]unsafe.Pointer

// incomplete reports that a copy was made before it was known that there are pointers to one of its structs.
var incomplete bool

// copied returns a deep copy of *from.
func copied[T any](from *T) *T {
	p := layoutOf(reflect.TypeFor[T]())
	for {
		incomplete = false
		to := new(T)
		*to = *from
		if p.own(copier{}, unsafe.Pointer(to), unsafe.Pointer(from)); !incomplete {
			return to
		}
	}
}

// hash is the hash of everything that distinguishes states.
type hash struct {
	a, b uint64
	path []place // structs that are being hashed
}

func hashOf[T any](of *T) [2]uint64 {
	h := hash{a: 1, b: 2}
	layoutOf(reflect.TypeFor[T]()).hash(&h, unsafe.Pointer(of))
	return [2]uint64{h.a, h.b}
}

func (h *hash) add(x uint64) {
	h.a = (h.a ^ x) * 0x9E3779B97F4A7C15
	h.a ^= h.a >> 29
	h.b = (h.b ^ x) * 0xC2B2AE3D27D4EB4F
	h.b ^= h.b >> 31
}

func (h *hash) text(s string) {
	h.add(uint64(len(s)))
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for ; len(b) >= 8; b = b[8:] {
		h.add(binary.LittleEndian.Uint64(b))
	}
	var rest [8]byte
	if copy(rest[:], b) > 0 {
		h.add(binary.LittleEndian.Uint64(rest[:]))
	}
}

// number hashes integers by their size; that of a negative number need not be the same for all sizes.
func (p *layout) number() {
	switch p.of.Size() {
	case 1:
		p.hash = func(h *hash, at unsafe.Pointer) { h.add(uint64(*(*uint8)(at))) }
	case 2:
		p.hash = func(h *hash, at unsafe.Pointer) { h.add(uint64(*(*uint16)(at))) }
	case 4:
		p.hash = func(h *hash, at unsafe.Pointer) { h.add(uint64(*(*uint32)(at))) }
	default:
		p.hash = func(h *hash, at unsafe.Pointer) { h.add(*(*uint64)(at)) }
	}
}

func (p *layout) pointer() {
	elem := layoutOf(p.of.Elem())
	if !p.deep {
		return
	}
	if !elem.pointed {
		elem.pointed, incomplete = true, true
	}
	p.own = func(c copier, to, from unsafe.Pointer) {
		is := *(*unsafe.Pointer)(from)
		if is == nil {
			return
		}
		out, ok := c[place{is, elem.of}]
		if !ok {
			out = box(reflect.NewAt(elem.of, is).Elem())
			if c[place{is, elem.of}] = out; elem.deep {
				elem.own(c, out, is)
			}
		}
		*(*unsafe.Pointer)(to) = out
	}
	p.hash = func(h *hash, at unsafe.Pointer) {
		is := *(*unsafe.Pointer)(at)
		if is == nil {
			h.add(3)
			return
		}
		for i, p := range h.path {
			if p.at == is && p.of == elem.of {
				h.add(uint64(i) + 4)
				return
			}
		}
		elem.hash(h, is)
	}
}

// dynamic copies and hashes an interface by the layout of its dynamic type.
func (p *layout) dynamic() {
	p.own = func(c copier, to, from unsafe.Pointer) {
		is := reflect.NewAt(p.of, from).Elem().Elem()
		if !is.IsValid() {
			return
		}
		if value := layoutOf(is.Type()); value.deep {
			out := box(is)
			value.own(c, out, out)
			reflect.NewAt(p.of, to).Elem().Set(reflect.NewAt(value.of, out).Elem())
		}
	}
	p.hash = func(h *hash, at unsafe.Pointer) {
		is := reflect.NewAt(p.of, at).Elem().Elem()
		if !is.IsValid() {
			h.add(3)
			return
		}
		h.text(is.Type().String())
		layoutOf(is.Type()).hash(h, box(is))
	}
}

// box returns the address of a copy of the memory of a value.
func box(v reflect.Value) unsafe.Pointer {
	out := reflect.New(v.Type())
	out.Elem().Set(v)
	return out.UnsafePointer()
}

func (p *layout) slice() {
	elem := layoutOf(p.of.Elem())
	size := p.of.Elem().Size()
	if p.of.Elem().Kind() == reflect.Uint8 {
		p.hash = func(h *hash, at unsafe.Pointer) {
			b := *(*[]byte)(at)
			h.text(unsafe.String(unsafe.SliceData(b), len(b)))
		}
	} else {
		p.hash = func(h *hash, at unsafe.Pointer) {
			s := *(*[]struct{})(at)
			h.add(uint64(len(s)))
			first := unsafe.Pointer(unsafe.SliceData(s))
			for i := range s {
				elem.hash(h, unsafe.Add(first, uintptr(i)*size))
			}
		}
	}
	p.own = func(c copier, to, from unsafe.Pointer) {
		is := reflect.NewAt(p.of, from).Elem()
		if is.IsNil() {
			return
		}
		n, old := is.Len(), is.UnsafePointer()
		out := reflect.MakeSlice(p.of, n, n)
		reflect.Copy(out, is)
		reflect.NewAt(p.of, to).Elem().Set(out)
		for i := 0; i < n && elem.deep; i++ {
			elem.own(c, unsafe.Add(out.UnsafePointer(), uintptr(i)*size), unsafe.Add(old, uintptr(i)*size))
		}
	}
}

func (p *layout) array() {
	elem := layoutOf(p.of.Elem())
	p.deep = elem.deep
	size, n := p.of.Elem().Size(), p.of.Len()
	p.own = func(c copier, to, from unsafe.Pointer) {
		for i := range n {
			elem.own(c, unsafe.Add(to, uintptr(i)*size), unsafe.Add(from, uintptr(i)*size))
		}
	}
	p.hash = func(h *hash, at unsafe.Pointer) {
		for i := range n {
			elem.hash(h, unsafe.Add(at, uintptr(i)*size))
		}
	}
}

// entries hashes the entries of a map independent of their order. No pointer leads into a map.
func (p *layout) entries() {
	key, value := layoutOf(p.of.Key()), layoutOf(p.of.Elem())
	p.own = func(c copier, to, from unsafe.Pointer) {
		is := reflect.NewAt(p.of, from).Elem()
		if is.IsNil() {
			return
		}
		out := reflect.MakeMapWithSize(p.of, is.Len())
		k, v := reflect.New(key.of).Elem(), reflect.New(value.of).Elem()
		for it := is.MapRange(); it.Next(); {
			k.SetIterKey(it)
			v.SetIterValue(it)
			if value.deep {
				value.own(c, v.Addr().UnsafePointer(), v.Addr().UnsafePointer())
			}
			out.SetMapIndex(k, v)
		}
		reflect.NewAt(p.of, to).Elem().Set(out)
	}
	p.hash = func(h *hash, at unsafe.Pointer) {
		is := reflect.NewAt(p.of, at).Elem()
		var a, b uint64
		if is.Len() > 0 {
			k, v := reflect.New(key.of).Elem(), reflect.New(value.of).Elem()
			for it := is.MapRange(); it.Next(); {
				k.SetIterKey(it)
				v.SetIterValue(it)
				one := hash{a: 7, b: 11, path: h.path}
				key.hash(&one, k.Addr().UnsafePointer())
				value.hash(&one, v.Addr().UnsafePointer())
				a, b = a+one.a, b+one.b
			}
		}
		h.add(a)
		h.add(b)
		h.add(uint64(is.Len()))
	}
}

// fields copies and hashes fields, also those that are not exported.
func (p *layout) fields() {
	type field struct {
		*layout
		at uintptr
	}
	var deep, distinct []field
	for f := range p.of.Fields() {
		is := field{layoutOf(f.Type), f.Offset}
		if is.deep {
			p.deep = true
			deep = append(deep, is)
		}
		if !unseen[f.Name] {
			distinct = append(distinct, is)
		}
	}
	p.own = func(c copier, to, from unsafe.Pointer) {
		if p.pointed {
			c[place{from, p.of}] = to
		}
		for _, f := range deep {
			f.own(c, unsafe.Add(to, f.at), unsafe.Add(from, f.at))
		}
	}
	p.hash = func(h *hash, at unsafe.Pointer) {
		h.path = append(h.path, place{at, p.of})
		for _, f := range distinct {
			f.layout.hash(h, unsafe.Add(at, f.at))
		}
		h.path = h.path[:len(h.path)-1]
	}
}
