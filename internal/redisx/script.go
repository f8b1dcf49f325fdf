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

// prelude is the beginning of every script: time, the fence, wakeups.
//
//go:embed prelude.lua
var prelude string

// Script is a Lua script with the name that its errors have. Scripts are immutable; each package makes its own where it starts.
type Script struct {
	name       string
	one, array form // array carries out several calls; it is empty for a script with a library
	keys, args section
}

// form is the source of a script, and its name in Redis.
type form struct{ source, sha string }

func newForm(source string) form {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by SHA-1
	return form{source: source, sha: hex.EncodeToString(sum[:])}
}

// compiled has the scripts of NewScript, which are immutable, by name, library and body.
var compiled sync.Map

// NewScript compiles a script. library is Lua that several scripts share, or "". keys and args repeat the declarations of the
// script's header, so that the calls in Go and the script cannot drift apart: NewScript panics if they differ, or if the header
// is malformed. See Compile.
// A script is compiled once in a process.
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
// The names before the bar become locals; # converts to a number. Each name with a star behind the bar is a list, whose
// elements may have fields. lease[k].effect and event[k] become an index into ARGV, #event its length, and
// unpack(event, i, j) the unpack of ARGV. In a call every list of arguments but the last is preceded, together with the others, by its
// length, which travel as one text; prune# is a length without a list. Every list of keys but the last names the list of arguments that
// is as long.
//
// All of it is done here: a compiled script does what one that counts places by hand would do. The lines keep their numbers.
// A library declares the keys of the scripts that share it.
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

// ErrArguments is a call that does not fit the header of its script.
var ErrArguments = errors.New("the call does not fit the header of its script")

// check reports whether the numbers of keys and arguments, and the lengths of the lists, fit the header.
func (s *Script) check(keys []string, args []any) error {
	var lengths [maxLists]int
	if !s.args.fits(len(args), args, &lengths) || !s.keys.fits(len(keys), nil, &lengths) {
		return fmt.Errorf("%s: %w: %d keys, %d arguments", s.name, ErrArguments, len(keys), len(args))
	}
	return nil
}

// send appends arguments as they travel: the lengths of lists are one argument, because each costs Redis and the client as much as a
// short text.
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

// sent returns how many of n arguments travel.
func (s *Script) sent(n int) int { return n - max(len(s.args.lists)-2, 0) }

// countsOf returns some numbers as one text, for the function counts of the prelude: reading a byte takes Lua a twentieth of reading
// decimals.
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

const largeCount = 255 // is not written as a byte

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
	from  string // Lua: what is added to an index, or ""
	last  string // Lua: the last index
	fixed []string
	lists []list
}

// list is a variable part of a section.
type list struct {
	name   string
	as     int // place of the list of arguments that is as long; -1: none
	fields []string
	empty  bool // it is a length only
}

// maxLists bounds the lists of a section.
const maxLists = 12

func (l list) width() int {
	if l.empty {
		return 0
	}
	return max(len(l.fields), 1)
}

// fits reports whether n elements can be divided as declared. lengths are those of the lists of arguments: the section of the
// arguments sets them, from args, and that of the keys, without args, reads them.
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
