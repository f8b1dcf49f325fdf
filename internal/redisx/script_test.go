package redisx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

const joinLua = `-- join returns everything that is passed to it.
--! keys  first | left=pair* right*
--! args  a b# unused | word* pair(name value)* more*
--! reply text*
local out = { first, a, ms(b + 1) }
for i = 1, #word do out[#out + 1] = word[i] end
for i = 1, #left do out[#out + 1] = left[i] .. ' ' .. pair[i].name .. ' ' .. pair[i].value end
for i = 1, #right do out[#out + 1] = right[i] end -- #right, right[i]
local rest = { unpack(more, 1, #more) }
out[#out + 1] = table.concat(rest, ' #more ')
return out
`

func TestScriptHeaderNamesKeysAndArguments(t *testing.T) {
	s := redisx.NewScript("join", "", joinLua, "first | left=pair* right*", "a b# unused | word* pair(name value)* more*")
	if src := s.Source(); strings.Contains(src, "unused =") || strings.Contains(src, ", unused") {
		t.Errorf("an unused name is declared: %s", src)
	}
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		keys := []string{"{k}1", "{k}2", "{k}3", "{k}4"}
		args := []any{"a", 1, "x", 1, 2, "word", "n1", "v1", "n2", "v2", "m1", "m2"}
		v, err := r.Do(within(t), redisx.Call{Script: s, Keys: keys, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		rep := redisx.NewReply(v)
		var got []string
		for i := range rep.Len() {
			got = append(got, rep.Str(i))
		}
		if text := strings.Join(got, "|"); text != "{k}1|a|2|word|{k}2 n1 v1|{k}3 n2 v2|{k}4|m1 #more m2" {
			t.Fatal(text)
		}
		for _, wrong := range [][]any{args[:4], args[:9], {"a", 1, "x", 1, "2", "word", "n1", "v1", "n2", "v2"}} {
			if _, err := r.Do(within(t), redisx.Call{Script: s, Keys: keys, Args: wrong}); !errors.Is(err, redisx.ErrArguments) {
				t.Errorf("%v: %v", wrong, err)
			}
		}
		if _, err := r.Do(within(t), redisx.Call{Script: s, Keys: keys[:2], Args: args}); !errors.Is(err, redisx.ErrArguments) {
			t.Errorf("two keys: %v", err)
		}
	})
}

// A name is declared if the script uses it: not as a field of something else, within quotes, in a comment, or as part of another name.
func TestOnlyUsedNamesOfAHeaderAreRead(t *testing.T) {
	for body, used := range map[string]bool{
		"return name": true, "return -name": true, "return (name)": true, "return x.name": false, "return 'name'": false, "-- name\nreturn 1": false,
		"return name_2": false, "return 2name": false, "return rename": false, "return x[name]": true,
	} {
		s, err := redisx.Compile("names", "", "--! args name | a* b*\n"+body)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(s.Source(), "local name = "); got != used {
			t.Errorf("%q: the name is declared: %t", body, got)
		}
	}
	for body, used := range map[string]bool{"return #a": true, "return a[1]": false, "return 'a', x.a": false} {
		s, err := redisx.Compile("lengths", "", "--! args | a*\n"+body)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(s.Source(), "local a_n = "); got != used {
			t.Errorf("%q: the length is declared: %t", body, got)
		}
	}
}

func TestMalformedScriptHeaderIsRefused(t *testing.T) {
	for _, body := range []string{
		"--! keys Key\n", "--! keys a | b* c*\n", "--! keys a | b=x*\n", "--! args a | b\n", "--! args a\n--! args b\n",
		"--! args | l*\nreturn l", "--! args | l(a b)*\nreturn l[1].c", "--! keys a | b#\n", "--! args | n#\n", "--! args | n# m*\nreturn n[1]",
	} {
		if _, err := redisx.Compile("bad", "", body); err == nil {
			t.Errorf("%q compiles", body)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a caller with other arguments than the header is accepted")
		}
	}()
	redisx.NewScript("add", "", addLua, "counter", "amount")
}

// Lengths of lists are sent as bytes, and those above 254 as decimals. A length may have no list.
func TestListsOfAnyLengthReachTheScript(t *testing.T) {
	const keys, args = "first | rare=flag* other*", "a | many* flag# pair(name value)* last*"
	s := redisx.NewScript("lengths", "", `
--! keys  first | rare=flag* other*
--! args  a | many* flag# pair(name value)* last*
return { a, ms(#many), many[#many], ms(#rare), rare[#rare], ms(#flag), ms(#pair), pair[1].value, ms(#last), last[#last], ms(#other) }
`, keys, args)
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		for _, n := range []int{1, 9, 10, 48, 254, 255, 256, 3000} {
			names := []string{"{k}1", "{k}2"}
			values := []any{"a", n, 1, 1}
			for i := range n {
				values = append(values, i+1)
			}
			values = append(values, "name", "value", "last")
			v, err := r.Do(within(t), redisx.Call{Script: s, Keys: names, Args: values})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(v), fmt.Sprintf("[a %d %d 1 {k}2 1 1 value 1 last 0]", n, n); got != want {
				t.Errorf("%d: %s, want %s", n, got, want)
			}
		}
	})
}

// The Lua of miniredis allocates an array up to the greatest integer key of a table below 2^26: a gigabyte.
func TestTextOfANumberTakesLittleMemory(t *testing.T) {
	s := redisx.NewScript("texts", "", "--! keys k\n--! args a\nreturn { ms(60000000), ms(1790000000000), ms(1790000000000) }", "k", "a")
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		r := redisx.NewRunner(rdb)
		defer r.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := r.Do(within(t), redisx.Call{Script: s, Keys: []string{"k"}, Args: []any{"a"}})
		runtime.ReadMemStats(&after)
		if got := fmt.Sprint(v); err != nil || got != "[60000000 1790000000000 1790000000000]" {
			t.Fatal(got, err)
		}
		if grew := (after.TotalAlloc - before.TotalAlloc) >> 20; grew > 200 {
			t.Errorf("a script with three numbers allocated %d MiB", grew)
		}
	})
}

// All scripts are indented with two spaces per level, have no trailing blanks and at most 160 characters per line, and use keys and
// arguments by name.
func TestScriptsAreFormatted(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".lua" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			switch {
			case strings.ContainsRune(line, '\t'), strings.TrimRight(line, " ") != line, indent%2 != 0, len(line) > 160 && !strings.HasPrefix(line, "--!"):
				t.Errorf("%s:%d: format: %q", path, i+1, line)
			case strings.Contains(line, "KEYS"), strings.Contains(line, "ARGV"):
				t.Errorf("%s:%d: use keys and arguments by name: %q", path, i+1, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
