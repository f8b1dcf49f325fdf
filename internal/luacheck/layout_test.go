package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestScriptsHaveOneLayout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ script, want string }{
		{"local a=1", "local a = 1\n"},
		{"  x = f( a,b )[ 1 ] . y\t\r\n\n\n\nreturn  { 'a' , -1, #t-1, not a, (b) }  \n\n", "x = f(a, b)[1].y\n\nreturn {'a', -1, #t - 1, not a, (b)}\n"},
		{"if a then\nb()\nelseif c then\nd()\nelse\ne()\nend", "if a then\n  b()\nelseif c then\n  d()\nelse\n  e()\nend\n"},
		{"local function f(x) -- why\nreturn x end", "local function f(x) -- why\n  return x end\n"},
		{"f(function()\ng()\nend)", "f(function()\n  g()\nend)\n"},
		{"f({\n1,\n{\n2,\n},\n})", "f({\n  1,\n  {\n    2,\n  },\n})\n"},
		{"if a and\nb or\nc then\nd()\nend", "if a and\n  b or\n  c then\n  d()\nend\n"},
		{"a = b\n.. c", "a = b\n  .. c\n"},
		{"repeat\nx = x-1\nuntil x<=0", "repeat\n  x = x - 1\nuntil x <= 0\n"},
		{`return "a" .. "it's" .. "\n" .. '"'`, `return 'a' .. "it's" .. "\n" .. '"'` + "\n"},
		{"--[x] is a comment\nreturn 1e+12 .. ...", "--[x] is a comment\nreturn 1e+12 .. ...\n"},
	} {
		got, err := layout([]byte(test.script))
		if err != nil || string(got) != test.want {
			t.Errorf("%q: got %q, %v; want %q", test.script, got, err, test.want)
		}
	}
	for _, script := range []string{"a = [[x]]", "--[[x]]", "a = 'x", "a ! b"} {
		if got, err := layout([]byte(script)); err == nil {
			t.Errorf("%q: got %q and no error", script, got)
		}
	}
}

func TestLayoutKeepsTheTokensOfEveryScript(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".lua" {
			return err
		}
		found++
		script, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mangled := strings.ReplaceAll(strings.ReplaceAll(string(script), "\n  ", "\n\t "), ", ", " ,")
		once, err := layout([]byte(mangled))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if twice, err := layout(once); err != nil || string(twice) != string(once) {
			t.Errorf("%s: a second time is another layout: %v", path, err)
		}
		if !reflect.DeepEqual(tokens(t, string(once)), tokens(t, mangled)) {
			t.Errorf("%s: other tokens", path)
		}
		return nil
	})
	if err != nil || found < 30 {
		t.Fatalf("%d scripts: %v", found, err)
	}
}

func tokens(t *testing.T, script string) [][]token {
	t.Helper()
	var all [][]token
	for line := range strings.Lines(script) {
		tokens, err := split(line)
		if err != nil {
			t.Fatal(err)
		}
		if len(tokens) > 0 {
			all = append(all, tokens)
		}
	}
	return all
}
