package redisx

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// prelude is the beginning of every script: time, fence, wakeups.
//
//go:embed prelude.lua
var prelude string

// Script is a compiled Lua script. It is immutable. Its name appears in errors.
type Script struct {
	name       string
	one, array form // array executes several calls; it is empty for a script with a library
	keys, args section
}

// form is the source of a script with its SHA-1, which identifies it in Redis.
type form struct{ source, sha string }

func newForm(source string) form {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by SHA-1
	return form{source: source, sha: hex.EncodeToString(sum[:])}
}

// compiled contains the scripts of NewScript, by name, library and body.
var compiled sync.Map

// NewScript returns the compiled script; a script is compiled once per process. library is Lua that several scripts share, or "". keys
// and args repeat the declarations in the script's header, so that the script and its calls in Go cannot diverge: NewScript panics if
// they differ or the header is malformed. See Compile.
func NewScript(name, library, body, keys, args string) *Script {
	id := [...]string{name, library, body}
	known, ok := compiled.Load(id)
	if !ok {
		s, err := Compile(name, library, body)
		if err != nil {
			panic(err)
		}
		known, _ = compiled.LoadOrStore(id, s)
	}
	s := known.(*Script)
	if s.keys.text != keys || s.args.text != args {
		panic(fmt.Sprintf("script %s: its header declares keys %q and args %q, its caller passes %q and %q", name, s.keys.text, s.args.text, keys, args))
	}
	return s
}

// Compile compiles a script whose header declares its keys, arguments and replies:
//
//	--! keys  partition record | created=lease* deleted*
//	--! args  token span# | lease(effect proof)* event*
//	--! reply FENCED | OK now
//
// The names before the bar become local variables; # converts a value to a number. Each name with a star after the bar is a list, whose
// elements may have fields. lease[k].effect and event[k] become indexes into ARGV, #event becomes the length of the list, and
// unpack(event, i, j) an unpack of ARGV. In a call, the lists of arguments are preceded by the lengths of all lists but the last, which
// are sent as one text; prune# is a length without a list. Every list of keys except the last names the list of arguments that has the
// same length.
//
// The names are resolved at compile time: a compiled script uses only indexes. Line numbers are preserved. A library declares the keys of
// the scripts that share it.
func Compile(name, library, body string) (*Script, error) {
	c := &compiler{}
	if err := c.declare(library + body); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	var src strings.Builder
	src.WriteString(prelude)
	named := names(library + body)
	for _, part := range []string{library, body} {
		text, err := c.compile(part, named)
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		src.WriteString(text)
	}
	s := &Script{name: name, one: newForm(src.String()), keys: c.keys, args: c.args}
	if library == "" {
		c.keys.from, c.keys.last = "key + ", "last_key"
		c.args.from, c.args.last = "arg + ", "last_arg"
		text, err := c.compile(body, named)
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		s.array = newForm(prelude + fmt.Sprintf(arrayLua, text))
	}
	return s, nil
}

// Source returns the compiled script.
func (s *Script) Source() string { return s.one.source }

// ErrArguments is the error of a call that does not match the header of its script.
var ErrArguments = errors.New("the call does not match the header of its script")

// check returns an error if the numbers of keys and arguments, or the lengths of the lists, do not match the header.
func (s *Script) check(keys []string, args []any) error {
	var lengths [maxLists]int
	if !s.args.fits(len(args), args, &lengths) || !s.keys.fits(len(keys), nil, &lengths) {
		return fmt.Errorf("%s: %w: %d keys, %d arguments", s.name, ErrArguments, len(keys), len(args))
	}
	return nil
}

// send appends the arguments as they are sent: the lengths of lists are one argument, because each argument costs Redis and the client as
// much as a short text.
func (s *Script) send(out, args []any) []any {
	fixed, lengths := len(s.args.fixed), len(s.args.lists)-1
	if lengths < 1 {
		return append(out, args...)
	}
	var counts [maxLists]int
	for i := range lengths {
		counts[i], _ = args[fixed+i].(int)
	}
	out = append(out, args[:fixed]...)
	out = append(out, countsOf(counts[:lengths]...))
	return append(out, args[fixed+lengths:]...)
}

// sent returns the number of arguments that are sent for n arguments of a call.
func (s *Script) sent(n int) int { return n - max(len(s.args.lists)-2, 0) }

// countsOf encodes numbers as one text for the function counts of the prelude. Reading a byte takes Lua a twentieth of the time of
// parsing a decimal.
func countsOf(counts ...int) string {
	text := make([]byte, 0, maxLists)
	for _, n := range counts {
		if n >= largeCount {
			return string(largeCounts(counts))
		}
		text = append(text, byte(n)) //nolint:gosec // below largeCount
	}
	return string(text)
}

const largeCount = 255 // from which on numbers are encoded as decimals

func largeCounts(counts []int) []byte {
	text := []byte{largeCount}
	for _, n := range counts {
		text = append(strconv.AppendInt(text, int64(n), 10), ' ')
	}
	return text
}

// section is the declaration of the keys or of the arguments.
type section struct {
	text  string
	array string // KEYS or ARGV
	from  string // Lua expression that is added to an index, or ""
	last  string // Lua expression of the last index
	fixed []string
	lists []list
}

// list is a variable part of a section.
type list struct {
	name   string
	as     int // index of the list of arguments with the same length; -1: none
	fields []string
	empty  bool // only a length is passed
}

// maxLists is the maximum number of lists of a section.
const maxLists = 12

// width returns the number of values per element.
func (l list) width() int {
	if l.empty {
		return 0
	}
	return max(len(l.fields), 1)
}

// fits reports whether n values can be divided as declared. lengths are the lengths of the lists of arguments: the section of the
// arguments sets them from args; the section of the keys, for which args is nil, reads them.
func (d *section) fits(n int, args []any, lengths *[maxLists]int) bool {
	rest := n - len(d.fixed)
	if d.array == "ARGV" {
		rest -= max(len(d.lists)-1, 0)
	}
	if len(d.lists) == 0 || rest < 0 {
		return rest == 0
	}
	for i, l := range d.lists {
		var length int
		switch {
		case i == len(d.lists)-1:
			length = rest / l.width()
			if rest < 0 || rest%l.width() != 0 {
				return false
			}
		case l.as >= 0:
			length = lengths[l.as]
		default:
			var ok bool
			if length, ok = args[len(d.fixed)+i].(int); !ok || length < 0 {
				return false
			}
		}
		if d.array == "ARGV" {
			lengths[i] = length
		}
		rest -= length * l.width()
	}
	return rest == 0
}
